package opencl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/llmrun/llmrun/tiering"
)

// OutputOp is the operation that a matmul applies to its sums.
type OutputOp int

// The operations, as kernels/common.cl numbers them.
const (
	Store OutputOp = iota // y = sum
	Add                   // y += factor · sum
	// The others apply to weights whose even rows are gates, see NewWeightMatrix: y
	// = act(even) · odd, half as many elements as rows.
	SiLUPairs
	GELUTanhPairs
	GELUErfPairs
)

// WeightMatrix is a weight matrix in device memory, ready to be multiplied.
type WeightMatrix struct {
	Name       string // of launches in traces; "" = the kernel's name
	Rows, Cols int
	Format     Format
	// Exact states that the stored weights equal those of the model.
	Exact bool
	// Specialized compiles GEMV kernels for the matrix's sizes and offsets, which
	// makes them faster but costs a build each.
	Specialized bool

	context     *Context
	forcedShape *gemvShape // set by tests
	weights     *Memory    // holds the layout, from unit from on
	from        int        // first unit
	size        int        // bytes of the layout
	borrowed    bool       // the caller owns the buffer of the weights
	codes       *Image     // image over the codes; nil if kernels read the buffer
	biased      bool
}

// NewWeightMatrix uploads several matrices as one. It stacks them or, with interleave,
// alternates their rows. All parts must have the same format and number of columns;
// interleaved parts must also have the same number of rows. NewWeightMatrix waits for
// the copy, so the caller may release the data.
func (c *Context) NewWeightMatrix(interleave bool, parts ...Weights) (_ *WeightMatrix, err error) {
	p := describeMatrix(parts)
	p.context = c
	for i := range parts {
		w := &parts[i]
		if err := w.check(); err != nil {
			return nil, err
		}
		if !CanStack(parts[0], *w) || interleave && w.Rows != parts[0].Rows {
			return nil, fmt.Errorf("opencl: cannot combine %v of %d × %d and %v of %d × %d in one matrix", parts[0].Type, parts[0].Rows, parts[0].Cols, w.Type, w.Rows, w.Cols)
		}
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	m := p.layout()
	p.size = m.size()
	weights, err := p.context.upload(&p.weights, p.size)
	if err != nil {
		return nil, err
	}
	defer weights.free()
	m.bind(weights.bytes)
	first, step := 0, 1
	for i := range parts {
		w := &parts[i]
		if interleave {
			first, step = i, len(parts)
		}
		m.pack(w, first, step)
		for r, v := range w.Bias {
			binary.LittleEndian.PutUint32(m.bias[4*(first+r*step):], math.Float32bits(v))
		}
		first += w.Rows
	}
	if err := weights.send(); err != nil {
		return nil, err
	}
	p.codes, err = c.newCodesImage(p.weights, m)
	return p, err
}

// describeMatrix returns the combined matrix without weights.
func describeMatrix(parts []Weights) *WeightMatrix {
	p := &WeightMatrix{Cols: parts[0].Cols, Exact: true}
	p.Format, _ = formatOf(parts[0].Type)
	for i := range parts {
		_, exact := formatOf(parts[i].Type)
		p.Exact = p.Exact && exact
		p.Rows += parts[i].Rows
		p.biased = p.biased || parts[i].Bias != nil
	}
	return p
}

// layout returns the matrix's layout, without weights.
func (p *WeightMatrix) layout() *matrixLayout {
	return &matrixLayout{format: p.Format, rows: p.Rows, cols: p.Cols, biased: p.biased}
}

// SizeOf returns the device memory of a combined matrix. It does not read the data of
// the weights, which may be nil.
func SizeOf(parts ...Weights) int64 { return int64(describeMatrix(parts).layout().size()) }

// CanStack reports whether two matrices can be combined.
func CanStack(a, b Weights) bool {
	f, _ := formatOf(a.Type)
	g, _ := formatOf(b.Type)
	return f == g && a.Cols == b.Cols
}

// upload transfers bytes to the device. If the device shares memory, the host writes
// them in place; otherwise a command copies them.
type upload struct {
	to    *Memory
	frame *tiering.Frame
	bytes []byte
}

// upload allocates a buffer and host memory for its contents.
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

// Bytes returns the device memory of the weights.
func (p *WeightMatrix) Bytes() int64 { return int64(p.size) }

// MoveTo moves the weights into another buffer, which must outlive the matrix, and
// frees their own. It waits for the copy. Kernels that read the weights must be
// created again.
func (p *WeightMatrix) MoveTo(to *Memory, off int) error {
	if off%unitBytes != 0 || p.codes != nil || p.borrowed {
		return fmt.Errorf("opencl: cannot move weights read as %v to byte %d", p.Source(), off)
	}
	if err := errors.Join(to.CopyPart(off, p.weights, 0, p.size), p.context.Finish()); err != nil {
		return err
	}
	own := p.weights
	p.weights, p.from, p.borrowed = to, off/unitBytes, true
	return own.Free()
}

// Close frees the memory. No kernel of the matrix may be running or run later.
func (p *WeightMatrix) Close() error {
	if p.borrowed {
		return nil
	}
	return errors.Join(p.codes.Free(), p.weights.Free())
}

// Source returns how kernels read the codes.
func (p *WeightMatrix) Source() Source {
	if p.codes == nil {
		return Buffers
	}
	return Images
}

// options returns the build options of the matrix's kernels.
func (p *WeightMatrix) options() string { return p.Format.options() + p.Source().options() }

// Tolerance bounds an element's error against exact arithmetic on the stored
// weights, see hetero.Kernel. It consists of the float32 sums and, for inexact
// formats, the rounding of weights to 11 bits. GEMV quantizes its input: each
// element is off by up to half a step, 1/127 of the largest of its block; weights
// with an offset are rounded once more. GEMM may use fewer bits, see Arithmetic.
func (p *WeightMatrix) Tolerance(tokens int) float64 {
	t := float64(p.Cols+8) * 0x1p-24
	if tokens == 1 && p.Format < Half {
		t += 0.5 / 127 * (1 + 0x1p-12)
	} else if tokens > 1 {
		t += p.context.Arithmetic.tolerance()
	}
	if !p.Exact {
		t += 0x1p-11
	}
	return t
}
