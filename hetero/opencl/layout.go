package opencl

import (
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/llmrun/llmrun/quant"
)

// Format is the layout of weights on a device, in blocks of 32 columns.
type Format int

// The formats, as kernels/common.cl numbers them.
const (
	// Codes4: 4-bit codes, one half precision scale per 32: Q4_0.
	Codes4 Format = iota
	// Codes4Offset: 4-bit codes, a float scale and offset per 32: Q4_1 and Q4_K.
	Codes4Offset
	// Codes8: 8-bit codes, one half precision scale per 32: Q8_0 and Q5_0.
	Codes8
	// Codes8Offset: 8-bit codes, a float scale and offset per 32: Q5_1 and Q5_K.
	Codes8Offset
	// Codes8Halves: 8-bit codes, a float scale per 16: Q6_K.
	Codes8Halves
	// Half, Brain and Float store float16, bfloat16 and float32. Types without a
	// format of their own are rounded to Half.
	Half
	Brain
	Float
)

// blockElems is the number of columns in a block.
const blockElems = 32

// unitBytes is the size of one load of a work item: 128 bits.
const unitBytes = 16

// formatOf returns the format for a type. exact reports whether the format represents
// all values of the type exactly.
func formatOf(t quant.Type) (f Format, exact bool) {
	switch t {
	case quant.F32:
		return Float, true
	case quant.BF16:
		return Brain, true
	case quant.F16:
		return Half, true
	}
	p, ok := quant.PartsOf(t)
	switch {
	case !ok:
		return Half, false
	case p.Group == 16 && !p.Offsets:
		return Codes8Halves, true
	case int(p.High)-int(p.Low) > 15 && p.Offsets:
		return Codes8Offset, true
	case int(p.High)-int(p.Low) > 15:
		return Codes8, true
	case p.Offsets:
		return Codes4Offset, true
	}
	return Codes4, true
}

// units returns the number of 128-bit loads per block.
func (f Format) units() int {
	return [...]int{Codes4: 1, Codes4Offset: 1, Codes8: 2, Codes8Offset: 2, Codes8Halves: 2, Half: 4, Brain: 4, Float: 8}[f]
}

// scaleBytes returns the size of a block's scales and offsets.
func (f Format) scaleBytes() int {
	return [...]int{Codes4: 2, Codes4Offset: 8, Codes8: 2, Codes8Offset: 8, Codes8Halves: 8, Half: 0, Brain: 0, Float: 0}[f]
}

// options returns the build options of kernels for the format.
func (f Format) options() string { return fmt.Sprintf("-DFORMAT=%d", f) }

// Weights are rows of a matrix as stored in model files.
type Weights struct {
	Type       quant.Type
	Rows, Cols int
	Data       []byte    // [Rows, RowBytes]
	Bias       []float32 // [Rows], or nil
}

// check rejects weights whose data does not have the size of the shape.
func (w *Weights) check() error {
	if w.Rows < 1 || w.Cols < 1 || w.Rows > math.MaxInt32/2 || w.Cols > math.MaxInt32/2 {
		return fmt.Errorf("opencl: invalid matrix shape %d × %d", w.Rows, w.Cols)
	}
	size, err := w.Type.RowBytes(w.Cols)
	if err != nil {
		return err
	}
	if len(w.Data) != w.Rows*size {
		return fmt.Errorf("opencl: %d bytes of weights for %d rows of %d", len(w.Data), w.Rows, size)
	}
	if w.Bias != nil && len(w.Bias) != w.Rows {
		return fmt.Errorf("opencl: %d biases for %d rows", len(w.Bias), w.Rows)
	}
	return nil
}

// matrixLayout is a matrix in the device's layout. Its rows come from one or
// several matrices.
type matrixLayout struct {
	format     Format
	rows, cols int
	biased     bool
	codes      []byte // [blocks][units][rows] of 128 bits
	scales     []byte // [blocks][rows]
	bias       []byte // [rows] of float32, at the next multiple of unitBytes; empty without bias
}

// blocks returns the number of blocks per row; the last one may be padded with
// zeros.
func (m *matrixLayout) blocks() int { return (m.cols + blockElems - 1) / blockElems }

func (m *matrixLayout) codeBytes() int { return m.blocks() * m.format.units() * m.rows * unitBytes }

func (m *matrixLayout) scaleBytes() int { return m.blocks() * m.rows * m.format.scaleBytes() }

func (m *matrixLayout) biasFrom() int {
	return (m.codeBytes() + m.scaleBytes() + unitBytes - 1) / unitBytes * unitBytes
}

// size returns the bytes of the whole layout, see kernels/weights.cl.
func (m *matrixLayout) size() int {
	if m.biased {
		return m.biasFrom() + 4*m.rows
	}
	return m.biasFrom()
}

// bind places the layout in b and clears the bias.
func (m *matrixLayout) bind(b []byte) {
	m.codes, m.scales, m.bias = b[:m.codeBytes()], b[m.codeBytes():][:m.scaleBytes()], b[m.biasFrom():]
	clear(m.bias)
}

// pack stores the rows of w: row r becomes row first + r·step of the layout. It
// uses all cores.
func (m *matrixLayout) pack(w *Weights, first, step int) {
	rowBytes := len(w.Data) / w.Rows
	var next atomic.Int64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			r := newRowSplitter(m.format, w)
			for {
				begin := int(next.Add(rowsPerStep)) - rowsPerStep
				if begin >= w.Rows {
					return
				}
				for i := begin; i < min(begin+rowsPerStep, w.Rows); i++ {
					r.split(w.Data[i*rowBytes:][:rowBytes])
					r.store(m, first+i*step)
				}
			}
		})
	}
	wg.Wait()
}

// rowsPerStep is the number of rows that a goroutine packs at a time. Their codes are
// adjacent, so that cores rarely write to the same cache lines.
const rowsPerStep = 64

// rowSplitter is one goroutine's scratch memory for packing rows.
type rowSplitter struct {
	format  Format
	typ     quant.Type
	cols    int
	low     int8
	group   int
	codes   []int8
	scales  []float32
	offsets []float32
	values  []float32 // of a row that is converted to numbers
	raw     []byte    // the numbers as bytes, or the row itself
}

func newRowSplitter(f Format, w *Weights) *rowSplitter {
	r := &rowSplitter{format: f, typ: w.Type, cols: w.Cols}
	if f >= Half {
		r.values = make([]float32, w.Cols)
		return r
	}
	parts, _ := quant.PartsOf(w.Type)
	r.low, r.group = parts.Low, parts.Group
	r.codes, r.scales = make([]int8, w.Cols), make([]float32, w.Cols/parts.Group)
	if parts.Offsets {
		r.offsets = make([]float32, len(r.scales))
	}
	return r
}

// split separates a row into codes and scales, or converts it to numbers.
func (r *rowSplitter) split(row []byte) {
	switch {
	case r.format < Half:
		quant.SplitRow(r.typ, r.codes, r.scales, r.offsets, row)
	case r.exactFloats():
		r.raw = row
	default:
		quant.DequantRow(r.typ, r.values, row)
		r.raw = r.raw[:0]
		for _, v := range r.values {
			r.raw = binary.LittleEndian.AppendUint16(r.raw, quant.F32ToF16(v))
		}
	}
}

// exactFloats reports whether the row already has the device's number format.
func (r *rowSplitter) exactFloats() bool {
	return r.typ == quant.F32 || r.typ == quant.F16 || r.typ == quant.BF16
}

// store writes the split row into the layout.
func (r *rowSplitter) store(m *matrixLayout, row int) {
	units := m.format.units()
	for b := range m.blocks() {
		for u := range units {
			to := m.codes[((b*units+u)*m.rows+row)*unitBytes:][:unitBytes]
			switch {
			case m.format >= Half:
				n := copy(to, r.raw[min((b*units+u)*unitBytes, len(r.raw)):])
				clear(to[n:])
			case units == 1:
				r.nibbles(to, b*blockElems)
			default:
				r.bytes(to, b*blockElems+u*unitBytes)
			}
		}
		if m.format < Half {
			r.storeScale(m.scales[(b*m.rows+row)*m.format.scaleBytes():], b)
		}
	}
}

// nibbles packs 32 codes: element 8i+j is nibble j of word i.
func (r *rowSplitter) nibbles(to []byte, from int) {
	codes := r.codes[from:][:blockElems]
	for i := range to {
		to[i] = byte(codes[2*i]-r.low) | byte(codes[2*i+1]-r.low)<<4
	}
}

// bytes stores 16 codes with a zero of 128.
func (r *rowSplitter) bytes(to []byte, from int) {
	for i, code := range r.codes[from:][:unitBytes] {
		to[i] = byte(int(code) + 128)
	}
}

func (r *rowSplitter) storeScale(to []byte, block int) {
	put := func(i int, v float32) { binary.LittleEndian.PutUint32(to[4*i:], math.Float32bits(v)) }
	switch r.format {
	case Codes4, Codes8:
		binary.LittleEndian.PutUint16(to, quant.F32ToF16(r.scales[block]))
	case Codes8Halves:
		put(0, r.scales[2*block])
		put(1, r.scales[2*block+1])
	default:
		put(0, r.scales[block])
		put(1, r.offsets[block])
	}
}
