package exec

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/internal/trace"
	"github.com/llmrun/llmrun/store/w8a8"
)

// W8A8 runs matmuls in 8-bit integers with one scale for all elements of an input, as neural
// processors do. The outlier path multiplies the excess over the scale's range in float32, with
// the columns of the calibration:
//
//	x·w = clamp(x/s)·s·w8 + (x - clamp(x/s)·s)·w
//
// The second sum is the outlier path; it has few terms. The CPU computes both halves at the same
// time. A device of a Split may compute rows of the first half if it accepts a given scale.
type W8A8 struct {
	Calibration *w8a8.File
	// Outliers chooses the inputs that have an outlier path. The others clip their outliers, with
	// a scale that the calibration chose for that.
	Outliers OutlierChoice
	Trace    *trace.Recorder // may be nil
}

// CheckDevice returns an error for a device that quantizes activations with scales of its own,
// because the outlier path needs the given scale.
func (o *W8A8) CheckDevice(name string, caps hetero.Capabilities) error {
	if o == nil || caps.FixedScale {
		return nil
	}
	return fmt.Errorf("%w: %s quantizes with its own scales, but W8A8 needs a device that accepts a given scale: leave W8A8 out, or split with an NPU or CPU cores", arch.ErrUnsupported, name)
}

// scaleOf returns the scale of an input with or without an outlier path.
func scaleOf(in *w8a8.Input, hasPath bool) float32 {
	if hasPath {
		return in.Scale
	}
	return in.ClippedScale
}

// scales returns the scale of each matrix's input, by the matrix's name.
func (o *W8A8) scales() map[string]float32 {
	if o == nil {
		return nil
	}
	scales := map[string]float32{}
	for in, hasPath := range o.Outliers.Of(o.Calibration.Inputs) {
		for i := range in.Matrices {
			scales[in.Matrices[i].Name] = scaleOf(in, hasPath)
		}
	}
	return scales
}

// usePerTensor gives the matrices of a calibration their scales and, to those with an outlier
// path, their hot columns.
func (m *Model) usePerTensor(o *W8A8) error {
	if o == nil {
		return nil
	}
	named := m.Matrices()
	s := &outlierPath{m: m, file: o.Calibration, recorder: o.Trace}
	m.outliers = s
	for in, hasPath := range o.Outliers.Of(o.Calibration.Inputs) {
		for j := range in.Matrices {
			w := named[in.Matrices[j].Name]
			if w == nil || !w.Tiled {
				continue // its rows are not a whole number of blocks
			}
			name := in.Matrices[j].Name
			w.PerTensor = &weights.PerTensorInput{Scale: scaleOf(in, hasPath), Spans: weights.SpanNames{Integers: "integers of " + name, Outliers: "shadow of " + name}}
			if !hasPath {
				continue
			}
			if w.Scale != nil {
				return fmt.Errorf("%w: %s has a scale of the whole matrix (NVFP4), which the outlier path lacks: leave W8A8 out", arch.ErrUnsupported, name)
			}
			if in.Matrices[j].ColumnsAt == 0 {
				return fmt.Errorf("%w: %s has no columns of %s: calibrate again and store more columns, or give fewer inputs an outlier path", arch.ErrUnsupported, o.Calibration.Path(), in.Matrices[j].Name)
			}
			w.PerTensor.Limit = weights.MagnitudeBits(weights.OutlierLimit(in.Scale))
			c, err := s.addColumns(in, &in.Matrices[j])
			if err != nil {
				return err
			}
			w.PerTensor.Outliers = c
		}
	}
	return nil
}

// OutlierChoice chooses the inputs that have an outlier path: a fraction of them, in descending
// order of their outliers' importance, and those whose quantization error would otherwise grow
// by more than the factor MostLoss, if the calibration stores their columns.
type OutlierChoice struct {
	Fraction float64
	MostLoss float64
}

// DefaultOutlierChoice takes the 15 % of the inputs that the llm.npu paper found sufficient, and
// each other input that would lose more than 2 of its 8 bits.
var DefaultOutlierChoice = OutlierChoice{Fraction: 0.15, MostLoss: 4}

// OutlierFraction chooses a fraction of the inputs.
func OutlierFraction(fraction float64) OutlierChoice { return OutlierChoice{fraction, math.Inf(1)} }

// Of iterates over inputs in descending order of their outliers' importance, and reports for
// each whether it has an outlier path.
func (c OutlierChoice) Of(inputs []w8a8.Input) iter.Seq2[*w8a8.Input, bool] {
	sorted := make([]*w8a8.Input, len(inputs))
	for i := range inputs {
		sorted[i] = &inputs[i]
	}
	slices.SortStableFunc(sorted, func(a, b *w8a8.Input) int { return cmp.Compare(b.Importance(), a.Importance()) })
	return func(yield func(*w8a8.Input, bool) bool) {
		for i, in := range sorted {
			// The product 0.15·20 may exceed the integer slightly.
			chosen := float64(i) < c.Fraction*float64(len(sorted))-1e-9
			if !yield(in, chosen || float64(in.ClippedErrorRatio) > c.MostLoss && in.HasColumns()) {
				return
			}
		}
	}
}

// Identity names the options that keys and values depend on.
func (o *W8A8) Identity() string {
	if o == nil {
		return ""
	}
	return fmt.Sprintf("w8a8 %x %v", o.Calibration.Checksum, o.Outliers)
}

// quantizeInto quantizes a row of input i, and marks it if an element exceeds the scale's range.
func (q *matmulQueue) quantizeInto(i, row int, x []float32 /* [cols] */) {
	in := &q.inputs[i]
	if in.perTensor == nil {
		in.acts.Set(row, x)
		return
	}
	most := in.acts.SetPerTensor(row, x, in.perTensor.Scale)
	if in.perTensor.Outliers != nil {
		mark := byte(0)
		if most > in.perTensor.Limit {
			mark = 1
		}
		q.outliers.marksOf(i)[row] = mark
	}
}
