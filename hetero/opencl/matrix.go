package opencl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/llmrun/llmrun/tiering"
)

// OutputOp says what a product does with its sums.
type OutputOp int

// What products do, as kernels/common.cl numbers it.
const (
	Store OutputOp = iota // y = sum
	Add                   // y += factor · sum
	// The others are for weights whose even rows are gates, see Product.Interleave:
	// y = act(even) · odd, half as many elements as there are rows.
	SiLUPairs
	GELUTanhPairs
	GELUErfPairs
)

// WeightMatrix is a weight matrix on a device, ready to be multiplied.
type WeightMatrix struct {
	Name       string // that its launches have in traces; "" = that of the kernel
	Rows, Cols int
	Format     Format
	// Exact says that the weights are those of the model, not rounded.
	Exact bool
	// Specialized asks for kernels of one token that are built for the product's sizes and
	// its place, which makes them faster and each of them a build.
	Specialized bool

	context     *Context
	forcedShape *gemvShape // set by tests
	weights     *Memory    // an image, from a unit on
	from        int        // that unit
	size        int        // bytes of the image
	borrowed    bool       // weights are in a buffer of somebody else's
	codes       *Image     // of its codes; nil where kernels read them from the buffer
	biased      bool
}

// NewWeightMatrix puts matrices on the device, one below the other, or with interleave
// row by row in turns. All must be of one format and as wide; interleaved ones of
// one size.
func (c *Context) NewWeightMatrix(interleave bool, parts ...Weights) (_ *WeightMatrix, err error) {
	p := describeMatrix(parts)
	p.context = c
	for i := range parts {
		w := &parts[i]
		if err := w.check(); err != nil {
			return nil, err
		}
		if !CanStack(parts[0], *w) || interleave && w.Rows != parts[0].Rows {
			return nil, fmt.Errorf("opencl: %v of %d × %d and %v of %d × %d in one product", parts[0].Type, parts[0].Rows, parts[0].Cols, w.Type, w.Rows, w.Cols)
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

// describeMatrix describes the product of some matrices.
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

// layout returns the product's weights as they will be on the device, without them.
func (p *WeightMatrix) layout() *matrixLayout {
	return &matrixLayout{format: p.Format, rows: p.Rows, cols: p.Cols, biased: p.biased}
}

// SizeOf returns what a product of matrices, whose data need not be there, takes on a
// device.
func SizeOf(parts ...Weights) int64 { return int64(describeMatrix(parts).layout().size()) }

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

// Bytes returns what the product takes on the device.
func (p *WeightMatrix) Bytes() int64 { return int64(p.size) }

// MoveTo puts the weights into another buffer, which must have been made for them and
// outlive the product, and gives their own back. Kernels that read them must be made
// anew. It waits until they are there.
func (p *WeightMatrix) MoveTo(to *Memory, off int) error {
	if off%unitBytes != 0 || p.codes != nil || p.borrowed {
		return fmt.Errorf("opencl: weights read as %v cannot be moved to byte %d", p.Source(), off)
	}
	if err := errors.Join(to.CopyPart(off, p.weights, 0, p.size), p.context.Finish()); err != nil {
		return err
	}
	own := p.weights
	p.weights, p.from, p.borrowed = to, off/unitBytes, true
	return own.Free()
}

// Close gives the memory back. Kernels of the product must not run any more.
func (p *WeightMatrix) Close() error {
	if p.borrowed {
		return nil
	}
	return errors.Join(p.codes.Free(), p.weights.Free())
}

// Source returns how kernels read the product's codes.
func (p *WeightMatrix) Source() Source {
	if p.codes == nil {
		return Buffers
	}
	return Images
}

// options returns what the product's kernels are built with.
func (p *WeightMatrix) options() string { return p.Format.options() + p.Source().options() }

// Tolerance bounds an element's error against exact arithmetic on the stored
// weights, see hetero.Kernel: sums in float32, and where the type had to be rounded
// the rounding to 11 bits. Weights with an offset are rounded once more. One token
// meets codes as codes itself: each of its elements is up to half a step off, of
// which 127 are the greatest of a block. Many may be computed in fewer bits, see Arithmetic.
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
