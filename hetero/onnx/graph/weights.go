package graph

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/tiering"
)

// Precision is the arithmetic of a matmul.
type Precision uint8

// The precisions.
const (
	// Auto is WeightOnly for 4-bit weights that it represents exactly, otherwise
	// Integer.
	Auto Precision = iota
	// WeightOnly multiplies floats by weights of 4 or 8 bits with a scale per 32
	// columns (W4A16, W8A16). Only Q4_0 and Q8_0 are stored in this form.
	WeightOnly
	// Integer multiplies 8 bits by 8 bits, with one scale for all weights (W8A8).
	// If each row already has one scale, it keeps that as a factor of the results.
	Integer
)

// String returns the name for options and tables.
func (p Precision) String() string { return [...]string{"auto", "weight-only", "integer"}[p] }

// ParsePrecision returns the precision with a name.
func ParsePrecision(name string) (Precision, error) {
	for p := Auto; p <= Integer; p++ {
		if p.String() == name {
			return p, nil
		}
	}
	return Auto, fmt.Errorf("unknown precision %q: use auto, weight-only or integer", name)
}

// blockCols is the number of columns per scale in [WeightOnly].
const blockCols = 32

// maxCols is how many products of 8-bit codes fit into a 32-bit sum.
const maxCols = math.MaxInt32 / (127 * 127)

// Weights are packed weights of a matmul, for graphs of any number of tokens.
type Weights struct {
	Precision Precision // never Auto
	Tensors   []Tensor  // their data is in frame
	// QuantError bounds the error from quantizing the weights, in the terms of
	// [hetero.Kernel]: max over rows of Σ|w - quantized| / Σ|w|.
	QuantError float64

	frame *tiering.Frame
	bits  int     // per weight, for WeightOnly
	scale float32 // per-tensor, for Integer
	// rowScales: rows have scales of their own, and scale is the largest.
	rowScales bool
}

// Pack converts the weights of a matmul to the graph's layout.
func Pack(budget *tiering.Budget, op hetero.Op, p Precision) (*Weights, error) {
	rowBytes, err := check(op)
	if err != nil {
		return nil, err
	}
	p, err = p.Resolve(op.Type)
	if err != nil {
		return nil, err
	}
	w := &Weights{Precision: p}
	if p == WeightOnly {
		err = w.packBlocks(budget, op, rowBytes)
	} else {
		err = w.packPerTensor(budget, op, rowBytes)
	}
	if err != nil {
		return nil, err
	}
	return w, nil
}

// Size predicts the bytes of packed weights without allocating them.
func Size(op hetero.Op, p Precision) (int64, error) {
	if _, err := check(op); err != nil {
		return 0, err
	}
	p, err := p.Resolve(op.Type)
	if err != nil {
		return 0, err
	}
	size := int64(0)
	for _, t := range tensors(op, p) {
		size += t.Size()
	}
	return size, nil
}

// Free frees the memory. No session may use the weights any more.
func (w *Weights) Free() { w.frame.Free() }

// Bytes returns the size of the weights.
func (w *Weights) Bytes() int64 { return int64(len(w.frame.Bytes())) }

// check rejects invalid shapes and returns the bytes of a row.
func check(op hetero.Op) (rowBytes int, err error) {
	if op.Tokens < 1 || op.Rows < 1 || op.Cols < 1 {
		return 0, fmt.Errorf("graph: invalid matmul of %d × %d × %d", op.Tokens, op.Rows, op.Cols)
	}
	if op.Cols > maxCols {
		return 0, fmt.Errorf("graph: %d columns overflow 32-bit sums; the limit is %d", op.Cols, maxCols)
	}
	if !(op.Scale >= 0) || math.IsInf(float64(op.Scale), 0) {
		return 0, fmt.Errorf("graph: invalid activation scale %g", op.Scale)
	}
	rowBytes, err = op.Type.RowBytes(op.Cols)
	if err != nil {
		return 0, err
	}
	if len(op.Weights)/rowBytes != op.Rows || len(op.Weights)%rowBytes != 0 {
		return 0, fmt.Errorf("graph: %d bytes of weights for %d rows of %d", len(op.Weights), op.Rows, rowBytes)
	}
	return rowBytes, nil
}

// Resolve replaces Auto and rejects unsupported combinations.
func (p Precision) Resolve(t quant.Type) (Precision, error) {
	switch {
	case p == WeightOnly && t != quant.Q4_0 && t != quant.Q8_0:
		return p, fmt.Errorf("graph: %v weights do not have one scale per %d columns, which precision weight-only needs: use integer", t, blockCols)
	case p == Auto && t == quant.Q4_0:
		return WeightOnly, nil
	case p == Auto:
		return Integer, nil
	}
	return p, nil
}

// tensors returns the packed tensors of a matmul, without data.
func tensors(op hetero.Op, p Precision) []Tensor {
	rows, cols := int64(op.Rows), int64(op.Cols)
	if p == WeightOnly {
		blocks, blockBytes := cols/blockCols, int64(blockCols*codeBits(op.Type)/8)
		return []Tensor{
			{Name: codesName, Element: Uint8, Dims: []int64{rows, blocks, blockBytes}},
			{Name: scalesName, Element: Float, Dims: []int64{rows, blocks}},
		}
	}
	codes := Tensor{Name: codesName, Element: Int8, Dims: []int64{cols, rows}}
	if op.Streamed {
		codes.Element, codes.Dims = Uint8, []int64{rows, cols}
	}
	if hasRowScales(op) {
		return []Tensor{codes, {Name: rowScalesName, Element: Float, Dims: []int64{rows}}}
	}
	return []Tensor{codes}
}

func codeBits(t quant.Type) int {
	if t == quant.Q4_0 {
		return 4
	}
	return 8
}

// alloc allocates the packed tensors.
func (w *Weights) alloc(budget *tiering.Budget, op hetero.Op) error {
	w.Tensors = tensors(op, w.Precision)
	size := int64(0)
	for i := range w.Tensors {
		size += w.Tensors[i].Size()
	}
	if size > math.MaxInt {
		return fmt.Errorf("graph: %d bytes of weights exceed the address space", size)
	}
	frame, err := tiering.Alloc(budget, tiering.Pinned, int(size))
	if err != nil {
		return err
	}
	w.frame = frame
	rest := frame.Bytes()
	for i := range w.Tensors {
		n := w.Tensors[i].Size()
		w.Tensors[i].Data, rest = rest[:n:n], rest[n:]
	}
	return nil
}

// packBlocks copies codes and scales without loss. Zero is the middle of the code
// range, as the operator expects.
func (w *Weights) packBlocks(budget *tiering.Budget, op hetero.Op, rowBytes int) error {
	w.bits = codeBits(op.Type)
	if err := w.alloc(budget, op); err != nil {
		return err
	}
	codes, scales := w.Tensors[0].Data, w.Tensors[1].Data
	blockBytes := op.Type.BlockBytes()
	for block := range op.Rows * rowBytes / blockBytes {
		src := op.Weights[block*blockBytes:][:blockBytes]
		scale := quant.F16ToF32(binary.LittleEndian.Uint16(src))
		binary.LittleEndian.PutUint32(scales[4*block:], math.Float32bits(scale))
		if src = src[2:]; w.bits == 4 {
			reorderNibbles(codes[block*len(src):][:len(src)], src)
		} else {
			for i, b := range src {
				codes[block*len(src)+i] = b ^ 0x80
			}
		}
	}
	return nil
}

// reorderNibbles converts from Q4_0's order, where a byte holds elements i and
// i+16, to ONNX's, where it holds two consecutive elements.
func reorderNibbles(dst, src []byte /* [16] */) {
	for i := range 8 {
		a, b := src[2*i], src[2*i+1]
		dst[i] = a&0xf | b<<4
		dst[8+i] = a>>4 | b&0xf0
	}
}

// packRows is the number of rows that are quantized together: transposing writes as
// many consecutive bytes of a column.
const packRows = 64

// packPerTensor quantizes all weights with one scale, or with those of their rows,
// and transposes them to the right operand unless they are streamed.
func (w *Weights) packPerTensor(budget *tiering.Budget, op hetero.Op, rowBytes int) error {
	if err := w.alloc(budget, op); err != nil {
		return err
	}
	codes := w.Tensors[0].Data
	rows := make([]float32, min(packRows, op.Rows)*op.Cols)
	row := func(r, i int) []float32 {
		to := rows[i*op.Cols:][:op.Cols]
		quant.DequantRow(op.Type, to, op.Weights[r*rowBytes:][:rowBytes])
		return to
	}
	largest := float32(0)
	for r := range op.Rows {
		largest = maxAbs(row(r, 0), largest)
	}
	if largest > math.MaxFloat32 {
		w.Free()
		return errors.New("graph: a weight is NaN or infinite")
	}
	w.scale = max(largest, minLargest) / 127
	scale := func(int) float32 { return w.scale }
	if len(w.Tensors) > 1 {
		scale = w.packRowScales(op)
	}
	for first := 0; first < op.Rows; first += packRows {
		n := min(packRows, op.Rows-first)
		for i := range n {
			w.QuantError = max(w.QuantError, quantizeRow(row(first+i, i), scale(first+i)))
		}
		if op.Streamed {
			for i, v := range rows[:n*op.Cols] {
				codes[first*op.Cols+i] = byte(int8(v)) + zeroCode
			}
		} else {
			transpose(codes[first:], op.Rows, rows[:n*op.Cols], n)
		}
	}
	return nil
}

// maxAbs returns the largest absolute value in the row, or largest if that is
// larger. NaN counts as infinite.
func maxAbs(row []float32, largest float32) float32 {
	for _, v := range row {
		if v < 0 {
			v = -v
		}
		if v <= largest {
			continue
		}
		if largest = v; v != v {
			return float32(math.Inf(1))
		}
	}
	return largest
}

// turnCols is the number of columns transposed together, to as many cache lines.
const turnCols = 8

// transpose writes codes of n rows as columns of a matrix with longer rows.
func transpose(dst []byte, stride int, codes []float32 /* [n, cols] */, n int) {
	cols := len(codes) / n
	for c0 := 0; c0 < cols; c0 += turnCols {
		for i := range n {
			for c, v := range codes[i*cols:][c0:min(c0+turnCols, cols)] {
				dst[(c0+c)*stride+i] = byte(int8(v))
			}
		}
	}
}

// quantizeRow replaces weights by their codes and returns Σ|w - quantized| / Σ|w|.
func quantizeRow(row []float32, scale float32) float64 {
	lost, sum, steps := 0.0, 0.0, 1/float64(scale)
	for i, v := range row {
		code := math.RoundToEven(float64(v) * steps)
		lost += math.Abs(float64(v) - code*float64(scale))
		sum += math.Abs(float64(v))
		row[i] = float32(code)
	}
	if sum == 0 {
		return 0
	}
	return lost / sum
}

// Tolerance bounds the error of a matmul, in the terms of [hetero.Kernel], for
// runtimes that add in float32.
func Tolerance(op hetero.Op, p Precision, rounding float64) float64 {
	sums := float64(op.Cols+2) * 0x1p-24
	if p == WeightOnly {
		return sums
	}
	// Sums of codes are exact. A code of an activation is off by up to half a step,
	// 1/127 of the largest; a few factors are rounded.
	return rounding + (1+rounding)*(0.5/127) + 0x1p-20
}
