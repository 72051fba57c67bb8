package gpupass

import (
	"runtime"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/hetero/opencl"
	"github.com/llmrun/llmrun/tiering"
)

const (
	// stateFloats is the offset of a token's angles in its memory, after its
	// position.
	stateFloats = 16
)

// attendSingleKV is the index of attend_single's KV argument.
const attendSingleKV = 1

// singleMemory is the working memory for passes of one token. It is one buffer, because
// drivers need time for each buffer of a launch.
type singleMemory struct {
	memory *opencl.Memory
	// Element offsets in memory. State and angles begin at 0.
	x      int // input row, which becomes the residual stream
	qkv    int
	sums   int // [maxSplits, Heads*HeadDim] attention results of the splits
	states int // [maxSplits, Heads, 2] their softmax states
	logits int
	gains  int // where the next norm gain goes

	// The MLP's inner vector, with room for the gates: in memory, unless arch.Spec
	// gave too small a width.
	hidden        *opencl.Memory
	inner         int // element of hidden
	innerCapacity int // elements at inner

	stage, out  *opencl.Memory // host staging where the device copies, otherwise nil
	input       []float32      // host view of state, angles and stream
	result      []float32      // host view of the logits
	sizes       []int          // of attention groups, ascending
	split       contextSplit   // current split
	forcedSplit *contextSplit  // set by tests: for all contexts
}

// singleLayer holds the kernels of a layer for one token.
type singleLayer struct {
	qkv, gateUp []*opencl.GEMV
	attend      []*opencl.Kernel // by group size
	gated       *opencl.Kernel   // nil where gateUp applies the activation
	o, down     *opencl.GEMV
}

// allocateSingle allocates the memory for passes of one token.
func (n *Network) allocateSingle() (err error) {
	s, t, size := n.spec, &n.single, 0
	place := func(floats int) (at int) {
		at, size = size, size+(floats+3)/4*4
		return at
	}
	place(stateFloats + n.angleFloats())
	t.x = place(s.Dim)
	t.qkv = place(n.qkvWidth(n.maxKVHeads()))
	t.sums = place(maxSplits * s.Heads * s.HeadDim)
	t.states = place(maxSplits * s.Heads * 2)
	t.innerCapacity = 2 * s.Inner
	t.inner = place(t.innerCapacity)
	t.logits = place(s.Vocab)
	t.gains = place(len(s.Layers)*2*(gainFloats(s.Dim)+gainFloats(s.HeadDim)) + gainFloats(s.Dim))
	t.sizes = n.attendGroups()
	t.split.parts = 1
	if t.memory, err = n.alloc(tiering.Scratch, 4*size); err != nil {
		return err
	}
	t.hidden = t.memory
	if t.stage, t.input, err = n.hostView(t.memory, 0, t.x+s.Dim); err != nil {
		return err
	}
	t.out, t.result, err = n.hostView(t.memory, t.logits, s.Vocab)
	return err
}

// gainFloats is the size of a gain, rounded up to a multiple of four.
func gainFloats(width int) int { return (width + 3) / 4 * 4 }

// gain stores a norm's gain, with the family's offset added, and returns its
// element in single.memory.
func (n *Network) gain(values []float32) (at int, err error) {
	sum := make([]float32, len(values))
	for i, v := range values {
		sum[i] = v + n.spec.Norm.Offset
	}
	t := &n.single
	at = t.gains
	t.gains += gainFloats(len(values))
	n.weights += 4 * int64(len(values))
	return at, t.memory.WriteFloats(at, sum)
}

// hostView returns the host's view of part of a buffer: in place where memory is
// shared, otherwise in a staging buffer.
func (n *Network) hostView(m *opencl.Memory, at, count int) (stage *opencl.Memory, numbers []float32, err error) {
	if m.Host() != nil {
		return nil, hostFloats(m)[at:][:count], nil
	}
	if stage, err = n.context.Stage(tiering.Scratch, 4*count); err != nil {
		return nil, nil, err
	}
	n.own(memoryCloser{stage})
	return stage, hostFloats(stage)[:count], nil
}

// growInner allocates a larger inner vector for an MLP that is wider than arch.Spec
// says.
func (n *Network) growInner(inner int) (err error) {
	t := &n.single
	if 2*inner <= t.innerCapacity {
		return nil
	}
	t.inner, t.innerCapacity = 0, 2*inner
	t.hidden, err = n.alloc(tiering.Scratch, 4*t.innerCapacity)
	return err
}

// makeSingleLayer creates the kernels of a layer for one token.
func (n *Network) makeSingleLayer(l int) error {
	if err := n.growInner(n.layers[l].down.Cols); err != nil {
		return err
	}
	stream := opencl.Output{Y: n.single.memory, To: n.single.x, Op: opencl.Add, Factor: n.spec.ResidualScale}
	if err := n.makeSingleAttention(l, stream); err != nil {
		return err
	}
	return n.makeSingleMLP(l, stream)
}

// makeSingleAttention creates the kernels of a layer's attention. stream is the output of the
// projection.
func (n *Network) makeSingleAttention(l int, stream opencl.Output) (err error) {
	t, y := &n.single, &n.layers[l]
	if y.single.qkv, err = n.newGEMVs(y.qkv, n.normedStream(y.attnGain), opencl.Output{Y: t.memory, To: t.qkv}); err != nil {
		return err
	}
	if y.single.attend, err = n.makeAttendSingle(l); err != nil {
		return err
	}
	splits := opencl.Input{X: t.memory, From: t.sums, Op: opencl.Merged, Side: t.states, Head: n.spec.HeadDim}
	y.single.o, err = n.newGEMV(y.o, splits, stream)
	return err
}

// makeSingleMLP creates the kernels of a layer's MLP. stream is the output of the down projection.
func (n *Network) makeSingleMLP(l int, stream opencl.Output) (err error) {
	t, y, act := &n.single, &n.layers[l], gateOp(n.spec.Act)
	in, out := n.normedStream(y.ffnGain), opencl.Output{Y: t.hidden, To: t.inner}
	if y.fused() {
		out.Op = act
		y.single.gateUp, err = n.newGEMVs(y.gateUp, in, out)
	} else if y.single.gateUp, err = n.newGEMVs(y.gateUp, in, out); err == nil {
		y.single.gated, err = n.kernel(l, "layer.cl", "gated", t.hidden, t.inner, y.down.Cols, int(act))
	}
	if err != nil {
		return err
	}
	y.single.down, err = n.newGEMV(y.down, opencl.Input{X: t.hidden, From: t.inner}, stream)
	return err
}

// normedStream returns the residual stream, normalized with a gain, as the input of a GEMV.
func (n *Network) normedStream(gain int) opencl.Input {
	return opencl.Input{X: n.single.memory, From: n.single.x, Op: opencl.Normed, Side: gain, Eps: n.spec.Norm.Eps}
}

// newGEMV creates the GEMV of a matrix.
func (n *Network) newGEMV(p *opencl.WeightMatrix, in opencl.Input, out opencl.Output) (*opencl.GEMV, error) {
	v, err := p.NewGEMV(in, out)
	if err == nil {
		n.own(v)
	}
	return v, err
}

// newGEMVs creates the GEMVs of column blocks. out is the output of the first column.
func (n *Network) newGEMVs(blocks []columnBlock, in opencl.Input, out opencl.Output) (list []*opencl.GEMV, err error) {
	for _, b := range blocks {
		to := out
		to.To += b.column
		v, err := n.newGEMV(b.weights, in, to)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

// fused reports whether gate and up are one matmul that applies the activation.
func (y *layer) fused() bool { return len(y.gateUp) == 1 }

// angleOffset returns the element where a layer's angles begin, in a buffer with the angles
// of a number of tokens for each rotation, starting at from.
func (n *Network) angleOffset(l *arch.LayerSpec, tokens, from int) int {
	for i := range n.spec.Ropes {
		if i >= l.Rope {
			break
		}
		from += tokens * n.spec.Ropes[i].Dim
	}
	return from
}

// forwardSingle runs the pass of a token whose input is in the staging buffer.
func (n *Network) forwardSingle(c *exec.Chunk) error {
	// Some drivers are slower when the submitting thread changes.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	t := &n.single
	if err := n.setSplit(n.splitFor(c.Position + 1)); err != nil {
		return err
	}
	t.input[0] = bitsOf(c.Position)
	n.writeAngles(t.input[stateFloats:], c, 1)
	if n.useRecording(c) {
		return n.replaySingle(c)
	}
	if t.stage != nil {
		if err := t.memory.Send(0, t.stage, 0, t.stage.Size()); err != nil {
			return err
		}
	}
	for l := range n.layers {
		if err := n.runLayerSingle(l, c); err != nil {
			return err
		}
	}
	if len(c.Want) == 0 {
		return n.context.Finish()
	}
	return n.runHead(0, c)
}

// runLayerSingle launches the kernels of a layer. The last layer stops after
// attention, which appends the key and value, if no logits are wanted.
func (n *Network) runLayerSingle(l int, c *exec.Chunk) error {
	y := &n.layers[l]
	k := &y.single
	if err := launchAll(k.qkv); err != nil {
		return err
	}
	if err := n.attendSingle(k.attend); err != nil {
		return err
	}
	if n.rowsNeeded(l, c).count == 0 {
		return nil
	}
	if err := k.o.Launch(); err != nil {
		return err
	}
	if err := launchAll(k.gateUp); err != nil {
		return err
	}
	if k.gated != nil {
		if err := n.launchGated(k.gated, y.down.Cols); err != nil {
			return err
		}
	}
	return k.down.Launch()
}

// runHead multiplies the stream of one token with the output matrix and passes the
// logits to c.Each.
func (n *Network) runHead(row int, c *exec.Chunk) error {
	if err := n.head.Launch(); err != nil {
		return err
	}
	t := &n.single
	var err error
	if t.out == nil {
		err = n.context.Finish()
	} else {
		err = t.memory.Read(4*t.logits, t.out.Host())
	}
	if err != nil {
		return err
	}
	return c.Each(row, t.result)
}
