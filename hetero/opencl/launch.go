package opencl

import (
	"errors"
	"fmt"
)

// Input says where a product of one token takes its input from.
type Input struct {
	X    *Memory
	From int // element of X
	// Gain, if set, asks for the input divided by its root mean square and times the
	// gain; Eps is added to the mean of squares.
	Gain *Memory // [Cols]
	Eps  float32
	// States, if set, says that X has parts of attention's result, of heads of so
	// many elements, see kernels/layer.cl; State says how many.
	States, State *Memory
	Head          int
}

// Output says where a product puts its sums, and how.
type Output struct {
	Y      *Memory
	To     int // element of Y
	Stride int // of tokens, for many
	Result Result
	Factor float32 // for Add
}

// Vector is the kernel of a product with one token, with its arguments set.
type Vector struct {
	kernel        *Kernel
	global, local [1]int
}

// vectorShape is how a product with one token is divided.
type vectorShape struct {
	rows  int // of a work-group
	lanes int // work items that share a row
	deep  int // blocks that each takes at a time
}

// vectorLoads is how many loads of 128 bits a work item has under way at most.
const vectorLoads = 6

// shape returns how a product with one token is divided. Eight rows fill a line of
// 128 bytes. Where there are rows enough to keep the device busy, fewer work items
// share one, and less is added up in the end. On a CPU, whose work items are the
// iterations of a loop, one shape is as good as another and takes one build.
func (p *Product) shape() vectorShape {
	if p.context.Info.Kind == kindNames[kindCPU] {
		return vectorShape{rows: 8, lanes: 16, deep: 1}
	}
	s := vectorShape{rows: 8, lanes: 32}
	switch {
	case p.Rows >= 1<<15:
		s = vectorShape{rows: 16, lanes: 8}
	case p.Rows >= 1<<12 && p.Cols <= 1<<12, p.Cols <= 1<<11:
		s.lanes = 16
	}
	for s.lanes*s.rows > p.context.Info.MaxGroup {
		s.lanes /= 2
	}
	blocks := (p.Cols + blockElems - 1) / blockElems
	each := (blocks + s.lanes - 1) / s.lanes
	most := max(1, vectorLoads/p.Format.units())
	rounds := (each + most - 1) / most
	s.deep = (each + rounds - 1) / rounds
	return s
}

// vectorThreads is how many work items of products with one token a compute unit
// holds at the same time, as far as is known.
const vectorThreads = 512

// groups returns how many groups share the tiles of a product: as many as the
// device runs at the same time, each with as many tiles as the others.
func (p *Product) groups(s vectorShape) int {
	tiles := (p.Rows + s.rows - 1) / s.rows
	most := p.context.Info.ComputeUnits * max(1, vectorThreads/(s.rows*s.lanes))
	each := (tiles + most - 1) / most
	return (tiles + each - 1) / each
}

// Vector makes the kernel for one token ready.
func (p *Product) Vector(in Input, out Output) (*Vector, error) {
	s := p.shape()
	if p.divide != nil {
		s = *p.divide
	}
	k, err := p.context.Kernel("matvec.cl", fmt.Sprintf("%s -DROWS=%d -DLANES=%d -DDEEP=%d", p.Format.options(), s.rows, s.lanes, s.deep), "matvec")
	if err != nil {
		return nil, err
	}
	source, side, state := 0, p.codes, p.codes
	switch {
	case in.Gain != nil:
		source, side = 1, in.Gain
	case in.States != nil:
		source, side, state = 2, in.States, in.State
	}
	bias, biased := p.biasArguments()
	err = k.Set(p.codes, p.scales, p.Rows, p.Cols, in.X, in.From, source, side, in.Eps, in.Head, state,
		out.Y, out.To, int(out.Result), bias, biased, out.Factor)
	if err != nil {
		return nil, errors.Join(err, k.Close())
	}
	k.rename(p.Name)
	threads := s.lanes * s.rows
	return &Vector{k, [1]int{p.groups(s) * threads}, [1]int{threads}}, nil
}

// Launch starts the product.
func (v *Vector) Launch() error { return v.launch(false) }

func (v *Vector) launch(event bool) error {
	return v.kernel.context.launch(v.kernel, v.global[:], v.local[:], event)
}

// Close gives the kernel back.
func (v *Vector) Close() error { return v.kernel.Close() }

// Matrix is the kernel of a product with many tokens.
type Matrix struct {
	product       *Product
	kernel        *Kernel
	rows, tokens  int // of a tile
	global, local [2]int
}

// matrixThreads are the work items of a group.
const matrixThreads = 256

// Tiles of products with many tokens, in elements of a work item: large ones need
// more local memory and enough groups to keep the device busy.
const (
	smallTile   = 4
	largeTile   = 8
	largeMemory = 40 << 10
	tileStep    = 16
)

// Matrix makes the kernel for about so many tokens ready. Tokens of the input lie
// stride elements apart.
func (p *Product) Matrix(tokens int, x *Memory, from, stride int, out Output) (*Matrix, error) {
	tile := smallTile
	side := tileStep * largeTile
	groups := ((p.Rows + side - 1) / side) * ((tokens + side - 1) / side)
	if p.context.Info.LocalMemory >= largeMemory && groups >= 2*p.context.Info.ComputeUnits {
		tile = largeTile
	}
	if p.context.Info.MaxGroup < matrixThreads {
		return nil, fmt.Errorf("opencl: %s has work-groups of %d; products of many tokens need %d", p.context.Info.Name, p.context.Info.MaxGroup, matrixThreads)
	}
	k, err := p.context.Kernel("matmul.cl", fmt.Sprintf("%s -DMR=%d -DMT=%d", p.Format.options(), tile, tile), "matmul")
	if err != nil {
		return nil, err
	}
	bias, biased := p.biasArguments()
	err = k.Set(p.codes, p.scales, p.Rows, p.Cols, x, from, stride, tokens,
		out.Y, out.To, out.Stride, int(out.Result), bias, biased, out.Factor)
	if err != nil {
		return nil, errors.Join(err, k.Close())
	}
	k.rename(p.Name)
	return &Matrix{product: p, kernel: k, rows: tileStep * tile, tokens: tileStep * tile}, nil
}

// matrixTokens is the index of the argument that says how many tokens there are.
const matrixTokens = 7

// Launch starts the product of some tokens.
func (m *Matrix) Launch(tokens int) error { return m.launch(tokens, false) }

func (m *Matrix) launch(tokens int, event bool) error {
	if err := m.kernel.SetInt(matrixTokens, tokens); err != nil {
		return err
	}
	m.global = [2]int{(m.product.Rows + m.rows - 1) / m.rows * matrixThreads, (tokens + m.tokens - 1) / m.tokens}
	m.local = [2]int{matrixThreads, 1}
	return m.product.context.launch(m.kernel, m.global[:], m.local[:], event)
}

// Close gives the kernel back.
func (m *Matrix) Close() error { return m.kernel.Close() }
