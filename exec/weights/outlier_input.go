package weights

import (
	"math"

	"github.com/llmrun/llmrun/store/w8a8"
	"github.com/llmrun/llmrun/tiering"
)

// PerTensorInput describes how the input of a matrix is quantized with one scale.
type PerTensorInput struct {
	Scale float32
	Limit uint32 // bits of the largest magnitude that is no outlier
	// columns of the matrix as floats; nil: it has no shadow
	Outliers *OutlierColumns
	Spans    SpanNames
}

// SpanNames are what the halves of a product are called in a trace.
type SpanNames struct{ Integers, Outliers string }

// OutlierColumns are those of one matrix as floats.
type OutlierColumns struct {
	Matrix *w8a8.Matrix
	Slots  []int32   // [cols] where a hot channel's column is, or -1
	Hot    []float32 // [hot channels, rows]
}

// Carve takes a matrix's hot columns and their slots from an arena.
func (c *OutlierColumns) Carve(a *tiering.Arena, in *w8a8.Input) {
	c.Hot, c.Slots = a.Floats(in.Hot*c.Matrix.Rows), a.Int32s(in.Cols)
}

// HasOutlierPath reports whether outlier channels are multiplied in float32.
func (w *Linear) HasOutlierPath() bool { return w.PerTensor != nil && w.PerTensor.Outliers != nil }

// SpanNames returns the names of the matmul's spans in a trace.
func (w *Linear) SpanNames() *SpanNames {
	if w.PerTensor == nil {
		return &SpanNames{Integers: "another product"}
	}
	return &w.PerTensor.Spans
}

// OutlierLimit returns the largest magnitude that a scale can express.
func OutlierLimit(scale float32) float32 { return 127.5 * scale }

// MagnitudeBits returns the bits of |v|, which order as the magnitudes do.
func MagnitudeBits(v float32) uint32 { return math.Float32bits(v) &^ (1 << 31) }
