package weights

import (
	"math"

	"github.com/llmrun/llmrun/store/w8a8"
	"github.com/llmrun/llmrun/tiering"
)

// PerTensorInput describes the W8A8 quantization of a matmul's input, with one scale for
// all of its elements.
type PerTensorInput struct {
	Scale float32
	Limit uint32 // bits of the largest magnitude that is not an outlier
	// Outliers are the columns for the outlier path; nil: the matmul has none.
	Outliers *OutlierColumns
	Spans    SpanNames
}

// SpanNames are the trace spans of a matmul's integer path and outlier path.
type SpanNames struct{ Integers, Outliers string }

// OutlierColumns are the columns of a matrix that the outlier path multiplies in float32.
type OutlierColumns struct {
	Matrix *w8a8.Matrix
	Slots  []int32   // [cols] index of the column in Hot; -1: it is not in memory
	Hot    []float32 // [hot channels, rows]
}

// Carve allocates Hot and Slots in an arena.
func (c *OutlierColumns) Carve(a *tiering.Arena, in *w8a8.Input) {
	c.Hot, c.Slots = a.Floats(in.Hot*c.Matrix.Rows), a.Int32s(in.Cols)
}

// HasOutlierPath reports whether outlier channels are multiplied in float32.
func (w *Linear) HasOutlierPath() bool { return w.PerTensor != nil && w.PerTensor.Outliers != nil }

// SpanNames returns the names of the matmul's spans in a trace.
func (w *Linear) SpanNames() *SpanNames {
	if w.PerTensor == nil {
		return &SpanNames{Integers: "other matmul"}
	}
	return &w.PerTensor.Spans
}

// OutlierLimit returns the largest magnitude that a scale can express.
func OutlierLimit(scale float32) float32 { return 127.5 * scale }

// MagnitudeBits returns the bits of |v|. Their integer order is that of the magnitudes.
func MagnitudeBits(v float32) uint32 { return math.Float32bits(v) &^ (1 << 31) }
