package weights

import (
	"math"

	"github.com/llmrun/llmrun/store/w8a8"
	"github.com/llmrun/llmrun/tiering"
)

// wholeInput is how the input of a matrix is rounded with one scale.
type PerTensorInput struct {
	Scale float32
	Limit uint32 // bits of the largest magnitude that is no outlier
	// columns of the matrix as floats; nil: it has no shadow
	Columns *Columns
	Spans   SpanNames
}

// spanNames are what the halves of a product are called in a trace.
type SpanNames struct{ Integers, Shadow string }

// columns are those of one matrix as floats.
type Columns struct {
	Matrix *w8a8.Matrix
	Slots  []int32   // [cols] where a hot channel's column is, or -1
	Hot    []float32 // [hot channels, rows]
}

// carve takes a matrix's hot columns and their slots from an arena.
func (c *Columns) Carve(a *tiering.Arena, in *w8a8.Input) {
	c.Hot, c.Slots = a.Floats(in.Hot*c.Matrix.Rows), a.Int32s(in.Cols)
}

func (w *Linear) HasShadow() bool { return w.PerTensor != nil && w.PerTensor.Columns != nil }

func (w *Linear) SpanNames() *SpanNames {
	if w.PerTensor == nil {
		return &SpanNames{Integers: "another product"}
	}
	return &w.PerTensor.Spans
}

// limitOf returns the largest magnitude that a scale can express.
func LimitOf(scale float32) float32 { return 127.5 * scale }

func MagnitudeBits(v float32) uint32 { return math.Float32bits(v) &^ (1 << 31) }
