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

	attendManyKV, attendManyPosition, attendManyFirst, attendManyEnd = 1, 2, 3, 4
)

// Work items per group, see kernels/layer.cl.
const (
	normThreads    = 256
	prepareThreads = 64
	gatedThreads   = 64
	queryThreads   = 8 // of attend_many, per query
)

// manyTokens is the working memory for passes of many tokens, allocated at the
// first one.
type manyTokens struct {
	capacity int            // in tokens; 0: not allocated yet
	stage    *opencl.Memory // host staging where the device copies, otherwise nil
	host     []float32      // host view of input: angles of all rotations, and rows
	input    *opencl.Memory // the same in device memory
	x        int            // element of input where the residual stream begins
	h        *opencl.Memory // [rows, Dim] normalized
	qkv      *opencl.Memory // [rows, qkvWidth]
	att      *opencl.Memory // [rows, Heads*HeadDim]
	hidden   *opencl.Memory // [2, rows, inner]
	tile     int            // queries per group of attend_many
}

// manyLayer holds the kernels of a layer for many tokens.
type manyLayer struct {
	attnNorm, ffnNorm *opencl.Kernel
	qkv, gateUp       []*opencl.GEMM
	prepare, attend   *opencl.Kernel
	gated             *opencl.Kernel // nil where gateUp applies the activation
	o, down           *opencl.GEMM
}

// allocateMany allocates the memory for passes of so many tokens and creates their
// kernels. After a failure it frees everything, and the next prompt tries again.
func (n *Network) allocateMany(rows int) (err error) {
	mark := len(n.owned)
	defer func() {
		if err != nil {
			err = errors.Join(err, n.releaseFrom(mark))
			n.many = manyTokens{}
			for l := range n.layers {
				n.layers[l].many = manyLayer{}
			}
		}
	}()
	if err := n.many.allocate(n, rows); err != nil {
		return err
	}
	for l := range n.layers {
		if err := n.makeManyLayer(l, rows); err != nil {
			return err
		}
	}
	n.many.capacity = rows
	n.bound = nil // the new kernels have no sequence yet
	return nil
}

// allocate allocates the buffers for so many tokens.
func (t *manyTokens) allocate(n *Network, rows int) (err error) {
	inner := 0
	for l := range n.layers {
		inner = max(inner, n.layers[l].down.Cols)
	}
	floats := n.manyFloats(rows, inner)
	for i, to := range []**opencl.Memory{&t.input, &t.h, &t.qkv, &t.att, &t.hidden} {
		if *to, err = n.alloc(tiering.Scratch, 4*floats[i]); err != nil {
			return err
		}
	}
	t.x = floats[0] - rows*n.spec.Dim
	t.tile, _ = n.attentionTile()
	t.stage, t.host, err = n.hostView(t.input, 0, t.x+rows*n.spec.Dim)
	return err
}

// gemmBuilder creates the kernels of a layer for up to rows tokens.
type gemmBuilder struct {
	*Network
	index, rows int
	*layer
}

// makeManyLayer creates the kernels of a layer for up to so many tokens.
func (n *Network) makeManyLayer(l, rows int) (err error) {
	b := &gemmBuilder{n, l, rows, &n.layers[l]}
	s, t, k := n.spec, &n.many, &b.layer.many
	stream := opencl.Output{Y: t.input, To: t.x, Stride: s.Dim, Op: opencl.Add, Factor: s.ResidualScale}
	if k.attnNorm, err = b.norm(b.attnGain); err != nil {
		return err
	}
	if err := b.attention(); err != nil {
		return err
	}
	if k.o, err = b.gemm(b.o, t.att, s.Heads*s.HeadDim, stream); err != nil {
		return err
	}
	if k.ffnNorm, err = b.norm(b.ffnGain); err != nil {
		return err
	}
	if err := b.gateAndUp(); err != nil {
		return err
	}
	k.down, err = b.gemm(b.down, t.hidden, b.down.Cols, stream)
	return err
}

// gemm creates the GEMM of a matrix with rows of x.
func (b *gemmBuilder) gemm(w *opencl.WeightMatrix, x *opencl.Memory, stride int, out opencl.Output) (*opencl.GEMM, error) {
	m, err := w.NewGEMM(b.rows, x, 0, stride, out)
	if err == nil {
		b.own(m)
	}
	return m, err
}

// gemms creates the GEMMs of column blocks with the normalized rows. to returns where a
// block's results begin.
func (b *gemmBuilder) gemms(blocks []columnBlock, out opencl.Output, to func(p *columnBlock) int) (list []*opencl.GEMM, err error) {
	for i := range blocks {
		out.To = to(&blocks[i])
		m, err := b.gemm(blocks[i].weights, b.Network.many.h, b.spec.Dim, out)
		if err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	return list, nil
}

func byColumn(p *columnBlock) int { return p.column }

func (b *gemmBuilder) norm(gain int) (*opencl.Kernel, error) {
	n, t := b.Network, &b.Network.many
	return n.kernel(b.index, "layer.cl", "norm", t.input, t.x, t.h, n.spec.Dim, n.one.memory, gain, n.spec.Norm.Eps)
}

// attention creates the kernels from queries, keys and values to attention. Their KV
// arguments are placeholders until a sequence is bound.
func (b *gemmBuilder) attention() (err error) {
	n, s, t, k := b.Network, b.spec, &b.Network.many, &b.layer.many
	spec := &s.Layers[b.index]
	if k.qkv, err = b.gemms(b.qkv, opencl.Output{Y: t.qkv, Stride: n.qkvWidth(spec.KVHeads)}, byColumn); err != nil {
		return err
	}
	if k.prepare, err = n.kernel(b.index, "layer.cl", "prepare", t.qkv, t.input, t.h, 0, n.one.memory, b.qGain, b.kGain, s.Norm.Eps, n.angleOffset(spec, b.rows, 0)); err != nil {
		return err
	}
	k.attend, err = n.kernel(b.index, "layer.cl", "attend_many", t.qkv, t.h, 0, 0, 0, s.AttnScale, spec.Window, t.att)
	return err
}

// gateAndUp creates the kernels up to the MLP's inner vector.
func (b *gemmBuilder) gateAndUp() (err error) {
	t, k, inner := &b.Network.many, &b.layer.many, b.down.Cols
	out := opencl.Output{Y: t.hidden, Stride: inner}
	if b.fused() {
		out.Op = gateOp(b.spec.Act)
		k.gateUp, err = b.gemms(b.gateUp, out, byColumn)
		return err
	}
	k.gateUp, err = b.gemms(b.gateUp, out, func(p *columnBlock) int { return p.column / inner * b.rows * inner })
	if err == nil {
		k.gated, err = b.kernel(b.index, "layer.cl", "gated", t.hidden, 0, b.rows*inner, int(gateOp(b.spec.Act)))
	}
	return err
}

// forwardMany runs the pass of a chunk whose rows are in the staging buffer.
func (n *Network) forwardMany(ctx context.Context, c *exec.Chunk) error {
	t := &n.many
	n.writeAngles(t.host, c, t.capacity)
	if t.stage != nil {
		if err := t.input.Send(0, t.stage, 0, 4*(t.x+c.Tokens*n.spec.Dim)); err != nil {
			return err
		}
	}
	for l := range n.layers {
		if err := n.runLayerMany(l, c); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	for _, row := range c.Want {
		if err := n.one.memory.CopyPart(4*n.one.x, t.input, 4*(t.x+row*n.spec.Dim), 4*n.spec.Dim); err != nil {
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

// runLayerMany launches the kernels of a layer. The last layer computes only the
// needed rows after its keys and values.
func (n *Network) runLayerMany(l int, c *exec.Chunk) error {
	k, s := &n.layers[l].many, n.spec
	if err := launchNorm(n.context, k.attnNorm, c.Tokens); err != nil {
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
	on := rowsNeeded(l == len(n.layers)-1, c)
	if on.count == 0 {
		return nil
	}
	if err := n.attendMany(k.attend, c.Position, on); err != nil {
		return err
	}
	if err := k.o.LaunchRows(on.first, on.first, on.count); err != nil {
		return err
	}
	return n.runMLP(&n.layers[l], on)
}

// attendMany launches attention of some rows of a chunk at a position.
func (n *Network) attendMany(k *opencl.Kernel, position int, on rowRange) error {
	for _, a := range [3][2]int{{attendManyPosition, position}, {attendManyFirst, on.first}, {attendManyEnd, on.first + on.count}} {
		if err := k.SetInt(a[0], a[1]); err != nil {
			return err
		}
	}
	group := n.many.tile * queryThreads
	queries, query := [2]int{(on.count + n.many.tile - 1) / n.many.tile * group, n.spec.Heads}, [2]int{group, 1}
	return n.context.Launch(k, queries[:], query[:])
}

// runMLP launches the MLP of some rows of the stream. Its intermediate results
// begin at row 0.
func (n *Network) runMLP(y *layer, on rowRange) error {
	k := &y.many
	if err := k.ffnNorm.SetInt(normFrom, n.many.x+on.first*n.spec.Dim); err != nil {
		return err
	}
	if err := launchNorm(n.context, k.ffnNorm, on.count); err != nil {
		return err
	}
	if err := launchTokens(k.gateUp, on.count); err != nil {
		return err
	}
	if k.gated != nil {
		if err := launchGated(n.context, k.gated, on.count*y.down.Cols); err != nil {
			return err
		}
	}
	return k.down.LaunchRows(0, on.first, on.count)
}

// launchNorm launches the norm of so many rows.
func launchNorm(c *opencl.Context, k *opencl.Kernel, rows int) error {
	global, local := [1]int{rows * normThreads}, [1]int{normThreads}
	return c.Launch(k, global[:], local[:])
}

func launchTokens(list []*opencl.GEMM, tokens int) error {
	for _, m := range list {
		if err := m.Launch(tokens); err != nil {
			return err
		}
	}
	return nil
}

// launchGated launches the activation of so many elements.
func launchGated(c *opencl.Context, k *opencl.Kernel, elements int) error {
	global, local := [1]int{elements}, [1]int{gatedThreads}
	return c.Launch(k, global[:], local[:])
}
