package gpu

import (
	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/hetero/opencl"
	"github.com/llmrun/llmrun/tiering"
)

const (
	// stateFloats is where a token's angles begin in its input: before them are its
	// position and into how many parts attention divides the context.
	stateFloats = 16
	// oneThreads are the work items of a group of attend_one.
	oneThreads = 128
	// splitTokens is how many tokens a part of the context has at least, and
	// maxSplits how many parts there are at most.
	splitTokens = 128
	maxSplits   = 16
)

// attendOneKV is the index of attend_one's argument for keys and values.
const attendOneKV = 2

// oneToken is what a pass of one token works in.
type oneToken struct {
	stage  *opencl.Memory // of the host: state, angles and the embedding's row
	input  *opencl.Memory // the same on the device; the row becomes the residual stream
	x      int            // element of input where the stream begins
	qkv    *opencl.Memory
	sums   *opencl.Memory // [maxSplits, Heads*HeadDim] of attention
	states *opencl.Memory // [maxSplits, Heads, 2]
	hidden *opencl.Memory // [2*inner]: of the MLP, and room for gates before them
	logits *opencl.Memory
	out    *opencl.Memory // of the host: logits
}

// oneLayer is the kernels of a layer for one token.
type oneLayer struct {
	qkv, gateUp []*opencl.Vector
	attend      *opencl.Kernel
	gated       *opencl.Kernel // nil where gateUp does it
	o, down     *opencl.Vector
}

// allocateOne takes the memory for passes of one token, but for the MLP's.
func (n *Network) allocateOne() (err error) {
	s, t := n.spec, &n.one
	t.x = (stateFloats + n.angleFloats() + 3) / 4 * 4
	for _, b := range []struct {
		to     **opencl.Memory
		floats int
	}{
		{&t.input, t.x + s.Dim},
		{&t.qkv, n.qkvWidth(n.maxKVHeads())},
		{&t.sums, maxSplits * s.Heads * s.HeadDim},
		{&t.states, maxSplits * s.Heads * 2},
		{&t.logits, s.Vocab},
	} {
		if *b.to, err = n.alloc(tiering.Scratch, 4*b.floats); err != nil {
			return err
		}
	}
	if t.stage, err = n.stage(t.input); err != nil {
		return err
	}
	t.out, err = n.stage(t.logits)
	return err
}

// stage returns memory of the host for what a buffer holds: the buffer itself
// where the device shares it.
func (n *Network) stage(m *opencl.Memory) (*opencl.Memory, error) {
	if m.Host() != nil {
		return m, nil
	}
	stage, err := n.context.Stage(tiering.Scratch, m.Size())
	if err == nil {
		n.own(freer{stage})
	}
	return stage, err
}

// makeOneLayer makes the kernels of a layer for one token.
func (n *Network) makeOneLayer(l int) (err error) {
	s, t, y := n.spec, &n.one, &n.layers[l]
	inner := y.down.Cols
	if t.hidden == nil || t.hidden.Size() < 8*inner {
		if t.hidden, err = n.alloc(tiering.Scratch, 8*inner); err != nil {
			return err
		}
	}
	vector := func(p *opencl.Product, in opencl.Input, out opencl.Output) (*opencl.Vector, error) {
		v, err := p.Vector(in, out)
		if err == nil {
			n.own(v)
		}
		return v, err
	}
	vectors := func(parts []part, in opencl.Input, out opencl.Output) (list []*opencl.Vector, err error) {
		for _, p := range parts {
			to := out
			to.To += p.to
			v, err := vector(p.product, in, to)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, nil
	}
	stream := opencl.Output{Y: t.input, To: t.x, Result: opencl.Add, Factor: s.ResidualScale}
	in := opencl.Input{X: t.input, From: t.x, Gain: y.attnGain, Eps: s.Norm.Eps}
	if y.one.qkv, err = vectors(y.qkv, in, opencl.Output{Y: t.qkv}); err != nil {
		return err
	}
	spec := &s.Layers[l]
	y.one.attend, err = n.kernel(l, "attend_one", t.qkv, t.input, t.input /* until a text is bound */, t.input, y.qGain, y.kGain,
		s.Norm.Eps, s.AttnScale, spec.Window, t.sums, t.states, n.anglesFrom(spec, 1, stateFloats))
	if err != nil {
		return err
	}
	parts := opencl.Input{X: t.sums, States: t.states, State: t.input, Head: s.HeadDim}
	if y.one.o, err = vector(y.o, parts, stream); err != nil {
		return err
	}
	in.Gain = y.ffnGain
	if y.fused() {
		y.one.gateUp, err = vectors(y.gateUp, in, opencl.Output{Y: t.hidden, Result: pairs(s.Act)})
	} else if y.one.gateUp, err = vectors(y.gateUp, in, opencl.Output{Y: t.hidden}); err == nil {
		y.one.gated, err = n.kernel(l, "gated", t.hidden, t.hidden, inner, int(pairs(s.Act)))
	}
	if err != nil {
		return err
	}
	y.one.down, err = vector(y.down, opencl.Input{X: t.hidden}, stream)
	return err
}

// fused reports whether one product does gates and what they let through.
func (y *layer) fused() bool { return len(y.gateUp) == 1 }

// anglesFrom returns the element where a layer's angles begin, in a buffer that
// has those of so many tokens for each rotation, from an element on.
func (n *Network) anglesFrom(l *exec.LayerSpec, tokens, from int) int {
	for i := range n.spec.Ropes {
		if i >= l.Rope {
			break
		}
		from += tokens * n.spec.Ropes[i].Dim
	}
	return from
}

// splits returns into how many parts attention divides a context, so that all of
// the device has something to do.
func (n *Network) splits(tokens int) int {
	useful := (2*n.context.Info.ComputeUnits + n.spec.Heads - 1) / n.spec.Heads
	return max(1, min((tokens+splitTokens-1)/splitTokens, useful, maxSplits))
}

// readOne reads a token whose row is in the staging buffer.
func (n *Network) readOne(c *exec.Chunk) error {
	splits := n.splits(c.Position + 1)
	stage := floatsOf(n.one.stage)
	stage[0], stage[1] = bitsOf(c.Position), bitsOf(splits)
	n.setAngles(stage[stateFloats:], c, 1)
	if n.one.stage != n.one.input {
		if err := n.one.input.Send(0, n.one.stage, 0, n.one.stage.Size()); err != nil {
			return err
		}
	}
	for l := range n.layers {
		if err := n.runOne(&n.layers[l], splits); err != nil {
			return err
		}
	}
	if len(c.Want) == 0 {
		return n.context.Finish()
	}
	return n.giveLogits(0, c)
}

// runOne starts the kernels of a layer.
func (n *Network) runOne(y *layer, splits int) error {
	k := &y.one
	if err := launchAll(k.qkv); err != nil {
		return err
	}
	global, local := [2]int{n.spec.Heads * oneThreads, splits}, [2]int{oneThreads, 1}
	if err := n.context.Launch(k.attend, global[:], local[:]); err != nil {
		return err
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

// giveLogits multiplies the stream of one token with the output matrix and hands
// over the result.
func (n *Network) giveLogits(row int, c *exec.Chunk) error {
	if err := n.head.Launch(); err != nil {
		return err
	}
	t := &n.one
	var err error
	if t.out == t.logits {
		err = n.context.Finish()
	} else {
		err = t.logits.Read(0, t.out.Host())
	}
	if err != nil {
		return err
	}
	return c.Each(row, floatsOf(t.out)[:n.spec.Vocab])
}
