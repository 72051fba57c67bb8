package opencl

import (
	"errors"
	"fmt"

	"github.com/llmrun/llmrun/tiering"
)

// Result says what a product does with its sums.
type Result int

// What products do, as kernels/common.cl numbers it.
const (
	Store Result = iota // y = sum
	Add                 // y += factor · sum
	// The others are for weights whose even rows are gates, see Product.Interleave:
	// y = act(even) · odd, half as many elements as there are rows.
	SiLUPairs
	GELUTanhPairs
	GELUErfPairs
)

// Product is a weight matrix on a device, ready to be multiplied.
type Product struct {
	Name       string // that its launches have in traces; "" = that of the kernel
	Rows, Cols int
	Format     Format
	// Exact says that the weights are those of the model, not rounded.
	Exact bool

	context       *Context
	divide        *vectorShape // set by tests
	codes, scales *Memory
	bias          *Memory // or nil
}

// NewProduct puts matrices on the device, one below the other, or with interleave
// row by row in turns. All must be of one format and as wide; interleaved ones of
// one size.
func (c *Context) NewProduct(interleave bool, parts ...Weights) (_ *Product, err error) {
	p := &Product{context: c, Cols: parts[0].Cols, Exact: true}
	p.Format, _ = formatOf(parts[0].Type)
	biased := false
	for i := range parts {
		w := &parts[i]
		if err := w.check(); err != nil {
			return nil, err
		}
		if !CanStack(parts[0], *w) || interleave && w.Rows != parts[0].Rows {
			return nil, fmt.Errorf("opencl: %v of %d × %d and %v of %d × %d in one product", parts[0].Type, parts[0].Rows, parts[0].Cols, w.Type, w.Rows, w.Cols)
		}
		_, exact := formatOf(w.Type)
		p.Exact = p.Exact && exact
		p.Rows += w.Rows
		biased = biased || w.Bias != nil
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	m := &image{format: p.Format, rows: p.Rows, cols: p.Cols}
	codes, err := p.context.upload(&p.codes, m.codeBytes())
	if err != nil {
		return nil, err
	}
	defer codes.free()
	scales, err := p.context.upload(&p.scales, max(m.scaleBytes(), unitBytes))
	if err != nil {
		return nil, err
	}
	defer scales.free()
	m.codes, m.scales = codes.bytes, scales.bytes
	bias := make([]float32, p.Rows)
	first, step := 0, 1
	for i := range parts {
		w := &parts[i]
		if interleave {
			first, step = i, len(parts)
		}
		m.arrange(w, first, step)
		for r, v := range w.Bias {
			bias[first+r*step] = v
		}
		first += w.Rows
	}
	if err := errors.Join(codes.send(), scales.send()); err != nil {
		return nil, err
	}
	if biased {
		p.bias, err = c.Floats(tiering.Pinned, bias)
	}
	return p, err
}

// CanStack reports whether two matrices can be in one product.
func CanStack(a, b Weights) bool {
	f, _ := formatOf(a.Type)
	g, _ := formatOf(b.Type)
	return f == g && a.Cols == b.Cols
}

// upload is the way of bytes to the device: written in place where it shares
// memory, and otherwise copied.
type upload struct {
	to    *Memory
	frame *tiering.Frame
	bytes []byte
}

// upload makes a buffer and memory for what will be in it.
func (c *Context) upload(to **Memory, size int) (_ *upload, err error) {
	if *to, err = c.Alloc(tiering.Pinned, size); err != nil {
		return nil, err
	}
	u := &upload{to: *to, bytes: (*to).Host()}
	if u.bytes == nil {
		if u.frame, err = tiering.Alloc(c.budget, tiering.Scratch, size); err != nil {
			return nil, err
		}
		u.bytes = u.frame.Bytes()[:size]
	}
	return u, nil
}

func (u *upload) send() error {
	if u.frame == nil {
		return nil
	}
	return u.to.Write(0, u.bytes)
}

func (u *upload) free() {
	if u.frame != nil {
		u.frame.Free()
	}
}

// Floats makes a buffer of some numbers.
func (c *Context) Floats(purpose tiering.Purpose, values []float32) (*Memory, error) {
	m, err := c.Alloc(purpose, 4*len(values))
	if err != nil {
		return nil, err
	}
	if err := m.Write(0, floatBytes(values)); err != nil {
		return nil, errors.Join(err, m.Free())
	}
	return m, nil
}

// Bytes returns what the product takes on the device.
func (p *Product) Bytes() int64 {
	n := int64(p.codes.Size() + p.scales.Size())
	if p.bias != nil {
		n += int64(p.bias.Size())
	}
	return n
}

// Close gives the memory back. Kernels of the product must not run any more.
func (p *Product) Close() error {
	return errors.Join(p.codes.Free(), p.scales.Free(), p.bias.Free())
}

// biasArguments are a kernel's: a buffer, which has to be one, and whether it is.
func (p *Product) biasArguments() (*Memory, int) {
	if p.bias == nil {
		return p.codes, 0
	}
	return p.bias, 1
}

// Tolerance bounds an element's error against exact arithmetic on the stored
// weights, see hetero.Kernel: sums in float32, and where the type had to be rounded
// the rounding to 11 bits. Weights with an offset are rounded once more.
func (p *Product) Tolerance() float64 {
	t := float64(p.Cols+8) * 0x1p-24
	if !p.Exact {
		t += 0x1p-11
	}
	return t
}

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
