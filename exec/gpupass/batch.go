package gpupass

import (
	"context"
	"errors"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/hetero/opencl"
	"github.com/llmrun/llmrun/tiering"
)

// Indices of arguments that change from chunk to chunk.
const (
	normFrom                   = 1
	prepareKV, preparePosition = 2, 3

	attendBatchKV, attendBatchPosition, attendBatchFirst, attendBatchEnd = 1, 2, 3, 4
)

// Work items per group, see kernels/layer.cl.
const (
	normThreads    = 256
	prepareThreads = 64
	gatedThreads   = 64
	queryThreads   = 8 // of attend_batch, per query
)

// batchMemory is the working memory for passes of several tokens, allocated at the
// first one.
type batchMemory struct {
	capacity int            // in tokens; 0: not allocated yet
	stage    *opencl.Memory // host staging where the device copies, otherwise nil
	host     []float32      // host view of input: angles of all rotations, and rows
	input    *opencl.Memory // the same in device memory
	x        int            // element of input where the residual stream begins
	h        *opencl.Memory // [rows, Dim] normalized
	qkv      *opencl.Memory // [rows, qkvWidth]
	att      *opencl.Memory // [rows, Heads*HeadDim]
	hidden   *opencl.Memory // [2, rows, inner]
	tile     int            // queries per group of attend_batch
}

// batchLayer holds the kernels of a layer for several tokens.
type batchLayer struct {
	attnNorm, ffnNorm *opencl.Kernel
	qkv, gateUp       []*opencl.GEMM
	prepare, attend   *opencl.Kernel
	gated             *opencl.Kernel // nil where gateUp applies the activation
	o, down           *opencl.GEMM
}

// allocateBatch allocates the memory for passes of up to rows tokens and creates their
// kernels. After a failure it frees everything, and the next prompt tries again.
func (n *Network) allocateBatch(rows int) (err error) {
	s, t, mark := n.spec, &n.batch, len(n.owned)
	defer func() {
		if err != nil {
			err = errors.Join(err, n.releaseFrom(mark))
			n.batch = batchMemory{}
			for l := range n.layers {
				n.layers[l].batch = batchLayer{}
			}
		}
	}()
	inner := 0
	for l := range n.layers {
		inner = max(inner, n.layers[l].down.Cols)
	}
	floats := n.batchFloats(rows, inner)
	for i, to := range []**opencl.Memory{&t.input, &t.h, &t.qkv, &t.att, &t.hidden} {
		if *to, err = n.alloc(tiering.Scratch, 4*floats[i]); err != nil {
			return err
		}
	}
	t.x = floats[0] - rows*s.Dim
	if t.stage, t.host, err = n.hostView(t.input, 0, t.x+rows*s.Dim); err != nil {
		return err
	}
	t.tile, _ = n.attentionTile()
	for l := range n.layers {
		if err := n.makeBatchLayer(l, rows); err != nil {
			return err
		}
	}
	t.capacity = rows
	n.bound = nil // the new kernels have no sequence yet
	return nil
}

// batchFloats returns the elements of input, h, qkv, att and hidden.
func (n *Network) batchFloats(rows, inner int) [5]int {
	s := n.spec
	angles := (rows*n.angleFloats() + 3) / 4 * 4
	return [...]int{angles + rows*s.Dim, rows * s.Dim, rows * n.qkvWidth(n.maxKVHeads()), rows * s.Heads * s.HeadDim, 2 * rows * inner}
}

// makeBatchLayer creates the kernels of a layer for up to rows tokens.
func (n *Network) makeBatchLayer(l, rows int) error {
	if err := n.makeBatchAttention(l, rows); err != nil {
		return err
	}
	return n.makeBatchMLP(l, rows)
}

// makeBatchAttention creates the kernels from a layer's first norm to the output projection.
func (n *Network) makeBatchAttention(l, rows int) (err error) {
	s, t, y := n.spec, &n.batch, &n.layers[l]
	spec, k := &s.Layers[l], &y.batch
	if k.attnNorm, err = n.kernel(l, "layer.cl", "norm", t.input, t.x, t.h, s.Dim, n.single.memory, y.attnGain, s.Norm.Eps); err != nil {
		return err
	}
	qkv := opencl.Output{Y: t.qkv, Stride: n.qkvWidth(spec.KVHeads)}
	if k.qkv, err = n.newGEMMs(rows, y.qkv, qkv, func(column int) int { return column }); err != nil {
		return err
	}
	if k.prepare, err = n.kernel(l, "layer.cl", "prepare", t.qkv, t.input, t.h /* until a sequence is bound */, 0, n.single.memory, y.qGain, y.kGain, s.Norm.Eps, n.angleOffset(spec, rows, 0)); err != nil {
		return err
	}
	if k.attend, err = n.kernel(l, "layer.cl", "attend_batch", t.qkv, t.h /* until a sequence is bound */, 0, 0, 0, s.AttnScale, spec.Window, t.att); err != nil {
		return err
	}
	k.o, err = n.newGEMM(rows, y.o, t.att, s.Heads*s.HeadDim, n.addToStream())
	return err
}

// makeBatchMLP creates the kernels from a layer's second norm to the down projection.
func (n *Network) makeBatchMLP(l, rows int) (err error) {
	s, t, y := n.spec, &n.batch, &n.layers[l]
	inner, k := y.down.Cols, &y.batch
	if k.ffnNorm, err = n.kernel(l, "layer.cl", "norm", t.input, t.x, t.h, s.Dim, n.single.memory, y.ffnGain, s.Norm.Eps); err != nil {
		return err
	}
	out := opencl.Output{Y: t.hidden, Stride: inner}
	if y.fused() {
		out.Op = gateOp(s.Act)
		k.gateUp, err = n.newGEMMs(rows, y.gateUp, out, func(column int) int { return column })
	} else if k.gateUp, err = n.newGEMMs(rows, y.gateUp, out, func(column int) int { return column / inner * rows * inner }); err == nil {
		k.gated, err = n.kernel(l, "layer.cl", "gated", t.hidden, 0, rows*inner, int(gateOp(s.Act)))
	}
	if err != nil {
		return err
	}
	k.down, err = n.newGEMM(rows, y.down, t.hidden, inner, n.addToStream())
	return err
}

// addToStream returns the output of a GEMM whose result is added to the residual stream.
func (n *Network) addToStream() opencl.Output {
	t := &n.batch
	return opencl.Output{Y: t.input, To: t.x, Stride: n.spec.Dim, Op: opencl.Add, Factor: n.spec.ResidualScale}
}

// newGEMM creates the GEMM of a matrix with rows of x, which are stride elements apart.
func (n *Network) newGEMM(rows int, p *opencl.WeightMatrix, x *opencl.Memory, stride int, out opencl.Output) (*opencl.GEMM, error) {
	m, err := p.NewGEMM(rows, x, 0, stride, out)
	if err == nil {
		n.own(m)
	}
	return m, err
}

// newGEMMs creates the GEMMs of column blocks with the normalized residual stream. to returns
// the first element of a block's output.
func (n *Network) newGEMMs(rows int, blocks []columnBlock, out opencl.Output, to func(column int) int) (list []*opencl.GEMM, err error) {
	for _, b := range blocks {
		out.To = to(b.column)
		m, err := n.newGEMM(rows, b.weights, n.batch.h, n.spec.Dim, out)
		if err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	return list, nil
}

// forwardBatch runs the pass of a chunk whose rows are in the staging buffer.
func (n *Network) forwardBatch(ctx context.Context, c *exec.Chunk) error {
	t := &n.batch
	n.writeAngles(t.host, c, t.capacity)
	if t.stage != nil {
		if err := t.input.Send(0, t.stage, 0, 4*(t.x+c.Tokens*n.spec.Dim)); err != nil {
			return err
		}
	}
	for l := range n.layers {
		if err := n.runLayerBatch(l, c); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	for _, row := range c.Want {
		if err := n.single.memory.CopyPart(4*n.single.x, t.input, 4*(t.x+row*n.spec.Dim), 4*n.spec.Dim); err != nil {
			return err
		}
		if err := n.runHead(row, c); err != nil {
			return err
		}
	}
	if len(c.Want) == 0 {
		return n.context.Finish()
	}
	return nil
}

// runLayerBatch launches the kernels of a layer. The last layer computes only the
// needed rows after its keys and values.
func (n *Network) runLayerBatch(l int, c *exec.Chunk) error {
	k, s := &n.layers[l].batch, n.spec
	if err := n.launchNorm(k.attnNorm, c.Tokens); err != nil {
		return err
	}
	if err := launchTokens(k.qkv, c.Tokens); err != nil {
		return err
	}
	if err := k.prepare.SetInt(preparePosition, c.Position); err != nil {
		return err
	}
	slots, slot := [2]int{(s.Heads + 2*s.Layers[l].KVHeads) * prepareThreads, c.Tokens}, [2]int{prepareThreads, 1}
	if err := n.context.Launch(k.prepare, slots[:], slot[:]); err != nil {
		return err
	}
	on := n.rowsNeeded(l, c)
	if on.count == 0 {
		return nil
	}
	if err := n.attendBatch(k.attend, c.Position, on); err != nil {
		return err
	}
	if err := k.o.LaunchRows(on.first, on.first, on.count); err != nil {
		return err
	}
	return n.runMLP(&n.layers[l], on)
}

// attendBatch launches attention of some rows of a chunk at a position.
func (n *Network) attendBatch(k *opencl.Kernel, position int, on rowRange) error {
	for _, a := range [3][2]int{{attendBatchPosition, position}, {attendBatchFirst, on.first}, {attendBatchEnd, on.first + on.count}} {
		if err := k.SetInt(a[0], a[1]); err != nil {
			return err
		}
	}
	group := n.batch.tile * queryThreads
	queries, query := [2]int{(on.count + n.batch.tile - 1) / n.batch.tile * group, n.spec.Heads}, [2]int{group, 1}
	return n.context.Launch(k, queries[:], query[:])
}

// runMLP launches the MLP of some rows of the stream. Its intermediate results
// begin at row 0.
func (n *Network) runMLP(y *layer, on rowRange) error {
	k := &y.batch
	if err := k.ffnNorm.SetInt(normFrom, n.batch.x+on.first*n.spec.Dim); err != nil {
		return err
	}
	if err := n.launchNorm(k.ffnNorm, on.count); err != nil {
		return err
	}
	if err := launchTokens(k.gateUp, on.count); err != nil {
		return err
	}
	if k.gated != nil {
		if err := n.launchGated(k.gated, on.count*y.down.Cols); err != nil {
			return err
		}
	}
	return k.down.LaunchRows(0, on.first, on.count)
}

// launchNorm launches the norm of a number of rows.
func (n *Network) launchNorm(k *opencl.Kernel, rows int) error {
	global, local := [1]int{rows * normThreads}, [1]int{normThreads}
	return n.context.Launch(k, global[:], local[:])
}

func launchTokens(list []*opencl.GEMM, tokens int) error {
	for _, m := range list {
		if err := m.Launch(tokens); err != nil {
			return err
		}
	}
	return nil
}

// launchGated launches the activation of a number of elements.
func (n *Network) launchGated(k *opencl.Kernel, elements int) error {
	global, local := [1]int{elements}, [1]int{gatedThreads}
	return n.context.Launch(k, global[:], local[:])
}
