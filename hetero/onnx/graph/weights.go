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

// Precision is the arithmetic of a product.
type Precision uint8

// The precisions of graphs.
const (
	// Auto is WeightOnly for weights of 4 bits that lose nothing by it, else
	// Integer.
	Auto Precision = iota
	// WeightOnly multiplies floats by weights of 4 or 8 bits with a scale for each
	// 32 (W4A16, W8A16). Only Q4_0 and Q8_0 are stored like that.
	WeightOnly
	// Integer multiplies 8 bits by 8 bits, with one scale for all weights (W8A8). Where
	// each row has one scale already, it keeps it: results are multiplied by its part of
	// the largest.
	Integer
)

// String returns the name that options and tables use.
func (p Precision) String() string { return [...]string{"auto", "weight-only", "integer"}[p] }

// ParsePrecision returns the precision with a name.
func ParsePrecision(name string) (Precision, error) {
	for p := Auto; p <= Integer; p++ {
		if p.String() == name {
			return p, nil
		}
	}
	return Auto, fmt.Errorf("there is no precision %q: it is auto, weight-only or integer", name)
}

// blockCols is how many weights of a row have one scale in [WeightOnly].
const blockCols = 32

// maxCols is how many products of two 8-bit codes a sum of 32 bits holds.
const maxCols = math.MaxInt32 / (127 * 127)

// Weights are the weights of a product in the layout of its graph. They serve
// graphs of any number of tokens.
type Weights struct {
	Precision Precision // never Auto
	Tensors   []Tensor  // their data lies in one frame, which Free gives back
	// QuantError bounds what rounding the weights does to a result, as
	// [hetero.Kernel] states tolerances: max over rows of Σ|w - rounded| / Σ|w|.
	QuantError float64

	frame *tiering.Frame
	bits  int     // of a weight, for WeightOnly
	scale float32 // of a step, for Integer
	// rowScales says that scale is the largest of the rows', which keep theirs.
	rowScales bool
}

// Pack puts the weights of a product into the layout that its graph needs.
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

// Size predicts the bytes of packed weights, before any are taken.
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

// Free gives the memory back. No session may use the weights any more.
func (w *Weights) Free() { w.frame.Free() }

// Bytes is what the weights take.
func (w *Weights) Bytes() int64 { return int64(len(w.frame.Bytes())) }

// check refuses products that are none and returns the bytes of a row.
func check(op hetero.Op) (rowBytes int, err error) {
	if op.Tokens < 1 || op.Rows < 1 || op.Cols < 1 {
		return 0, fmt.Errorf("graph: a product of %d × %d × %d", op.Tokens, op.Rows, op.Cols)
	}
	if op.Cols > maxCols {
		return 0, fmt.Errorf("graph: %d columns, and sums of 8-bit products hold %d", op.Cols, maxCols)
	}
	if !(op.Scale >= 0) || math.IsInf(float64(op.Scale), 0) {
		return 0, fmt.Errorf("graph: a scale of activations of %g", op.Scale)
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

// Resolve replaces Auto, and refuses what a format cannot do.
func (p Precision) Resolve(t quant.Type) (Precision, error) {
	switch {
	case p == WeightOnly && t != quant.Q4_0 && t != quant.Q8_0:
		return p, fmt.Errorf("graph: weights of %v are not codes with one scale for each %d: use the precision integer", t, blockCols)
	case p == Auto && t == quant.Q4_0:
		return WeightOnly, nil
	case p == Auto:
		return Integer, nil
	}
	return p, nil
}

// tensors describes the packed weights of a product.
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

// alloc takes memory for the packed weights and divides it among the tensors.
func (w *Weights) alloc(budget *tiering.Budget, op hetero.Op) error {
	w.Tensors = tensors(op, w.Precision)
	size := int64(0)
	for i := range w.Tensors {
		size += w.Tensors[i].Size()
	}
	if size > math.MaxInt {
		return fmt.Errorf("graph: %d bytes of weights are more than an address holds", size)
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

// packBlocks copies codes and scales, which loses nothing. Codes count from the
// middle of their range, which is what the operator takes for zero.
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

// reorderNibbles brings nibbles from the order of Q4_0, where a byte holds elements i and
// i+16, to that of ONNX, where it holds two that follow each other.
func reorderNibbles(dst, src []byte /* [16] */) {
	for i := range 8 {
		a, b := src[2*i], src[2*i+1]
		dst[i] = a&0xf | b<<4
		dst[8+i] = a>>4 | b&0xf0
	}
}

// packRows is how many rows are rounded together: as many bytes of a column are
// written at once where the weights are turned.
const packRows = 64

// packPerTensor rounds all weights to 127 steps of the largest, or to those that their
// rows have, and turns them so that they are the right operand, unless they are streamed.
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
		return errors.New("graph: a weight is no number, or none that has an end")
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

// maxAbs returns the largest of the numbers, without their signs, and one from
// before. What is no number counts as infinite.
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

// turnCols is how many columns are turned together: so many cache lines are
// written in turns.
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

// quantizeRow replaces weights by their codes and returns Σ|w - rounded| / Σ|w|.
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

// Tolerance bounds the error of a product, as [hetero.Kernel] states it, where
// the runtime adds floats of 32 bits.
func Tolerance(op hetero.Op, p Precision, rounding float64) float64 {
	sums := float64(op.Cols+2) * 0x1p-24
	if p == WeightOnly {
		return sums
	}
	// Sums of codes are exact; a code of an activation is half a step off, a step
	// is a 127th of the largest, and a few factors are rounded.
	return rounding + (1+rounding)*(0.5/127) + 0x1p-20
}
