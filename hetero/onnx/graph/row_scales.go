package graph

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/quant"
)

// hasRowScales reports whether weights are codes with one scale per row that differ
// between rows: quantizing them with one scale would add error.
func hasRowScales(op hetero.Op) bool {
	if op.Type != quant.Q8_0 {
		return false
	}
	n, alike := op.Type.BlockBytes(), true
	rowBytes := op.Cols / blockCols * n
	for at := 0; at < len(op.Weights); at += n {
		first := at / rowBytes * rowBytes
		if !bytes.Equal(op.Weights[at:][:scaleBytes], op.Weights[first:][:scaleBytes]) {
			return false
		}
		alike = alike && bytes.Equal(op.Weights[at:][:scaleBytes], op.Weights[:scaleBytes])
	}
	return !alike
}

// scaleBytes is the size of the scale at the start of a Q8_0 block.
const scaleBytes = 2

// packRowScales sets the per-tensor scale to the largest row scale and stores each
// row's scale relative to it. It returns the row scales.
func (w *Weights) packRowScales(op hetero.Op) func(row int) float32 {
	rowBytes := len(op.Weights) / op.Rows
	scale := func(row int) float32 {
		return quant.F16ToF32(binary.LittleEndian.Uint16(op.Weights[row*rowBytes:]))
	}
	w.rowScales, w.scale = true, minLargest
	for row := range op.Rows {
		w.scale = max(w.scale, float32(math.Abs(float64(scale(row)))))
	}
	parts := w.Tensors[1].Data
	for row := range op.Rows {
		binary.LittleEndian.PutUint32(parts[4*row:], math.Float32bits(scale(row)/w.scale))
	}
	return func(row int) float32 {
		if s := scale(row); s != 0 {
			return s
		}
		return w.scale // of an all-zero row
	}
}
