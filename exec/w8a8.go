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

// W8A8 asks for products in 8-bit integers with one scale for all elements of an
// input, which is what neural processors multiply. What lies beyond the scale is
// multiplied in float32 beside them, with the columns of the calibration:
//
//	x·w = clamp(x/s)·s·w8 + (x - clamp(x/s)·s)·w
//
// The second sum has few terms, and is called the shadow of the first. This package's
// kernels compute both halves, at the same time; of the first a device of a Division may
// have rows, if it rounds to a scale that is given.
type W8A8 struct {
	Calibration *w8a8.File
	// Outliers says which inputs have a shadow. The others have a scale that suits
	// them without one.
	Outliers OutlierChoice
	Trace    *trace.Recorder // may be nil
}

// CheckDevice refuses a device that rounds activations in its own way, and leaves
// nothing to be added.
func (o *W8A8) CheckDevice(name string, caps hetero.Capabilities) error {
	if o == nil || caps.FixedScale {
		return nil
	}
	return fmt.Errorf("%w: %s multiplies with no scale that is given, which W8A8 needs: leave W8A8 out, or divide with an NPU or with cores of the processor", arch.ErrUnsupported, name)
}

// scaleOf returns with which scale an input is rounded.
func scaleOf(in *w8a8.Input, shadow bool) float32 {
	if shadow {
		return in.Scale
	}
	return in.ClippedScale
}

// scales returns with which scale the input of each matrix is rounded, by the matrix's
// name.
func (o *W8A8) scales() map[string]float32 {
	if o == nil {
		return nil
	}
	scales := map[string]float32{}
	for in, kept := range o.Outliers.Of(o.Calibration.Inputs) {
		for i := range in.Matrices {
			scales[in.Matrices[i].Name] = scaleOf(in, kept)
		}
	}
	return scales
}

// usePerTensor gives the matrices of a calibration their scales, and those that have a
// shadow their hot columns.
func (m *Model) usePerTensor(o *W8A8) error {
	if o == nil {
		return nil
	}
	named := m.Matrices()
	s := &outlierPath{m: m, file: o.Calibration, recorder: o.Trace}
	m.outliers = s
	for in, kept := range o.Outliers.Of(o.Calibration.Inputs) {
		for j := range in.Matrices {
			w := named[in.Matrices[j].Name]
			if w == nil || !w.Tiled {
				continue // rows that are no whole number of blocks
			}
			name := in.Matrices[j].Name
			w.PerTensor = &weights.PerTensorInput{Scale: scaleOf(in, kept), Spans: weights.SpanNames{Integers: "integers of " + name, Shadow: "shadow of " + name}}
			if !kept {
				continue
			}
			if in.Matrices[j].ColumnsAt == 0 {
				return fmt.Errorf("%w: %s has no columns of %s: calibrate again and store more of them, or prune more here", arch.ErrModel, o.Calibration.Path(), in.Matrices[j].Name)
			}
			w.PerTensor.Limit = weights.MagnitudeBits(weights.LimitOf(in.Scale))
			c, err := s.addColumns(in, &in.Matrices[j])
			if err != nil {
				return err
			}
			w.PerTensor.Columns = c
		}
	}
	return nil
}

// OutlierChoice says which inputs have a shadow: a part of them, those whose outliers
// matter most, and those whose error would otherwise grow more than so many times, if
// the calibration has their columns.
type OutlierChoice struct {
	Fraction float64
	MostLoss float64
}

// DefaultOutlierChoice are those that were published to suffice, 15 % of the inputs, and
// whichever else would lose more than 2 of its 8 bits.
var DefaultOutlierChoice = OutlierChoice{Fraction: 0.15, MostLoss: 4}

// OutlierFraction chooses a part of the inputs.
func OutlierFraction(share float64) OutlierChoice { return OutlierChoice{share, math.Inf(1)} }

// Of goes through inputs, those first whose outliers matter most, and says which
// have a shadow.
func (c OutlierChoice) Of(inputs []w8a8.Input) iter.Seq2[*w8a8.Input, bool] {
	sorted := make([]*w8a8.Input, len(inputs))
	for i := range inputs {
		sorted[i] = &inputs[i]
	}
	slices.SortStableFunc(sorted, func(a, b *w8a8.Input) int { return cmp.Compare(b.Importance(), a.Importance()) })
	return func(yield func(*w8a8.Input, bool) bool) {
		for i, in := range sorted {
			// A product such as 0.15·20 may be a little above the whole number.
			most := float64(i) < c.Fraction*float64(len(sorted))-1e-9
			if !yield(in, most || float64(in.ClippedErrorRatio) > c.MostLoss && in.HasColumns()) {
				return
			}
		}
	}
}

// Identity is what keys and values of the model depend on.
func (o *W8A8) Identity() string {
	if o == nil {
		return ""
	}
	return fmt.Sprintf("w8a8 %x %v", o.Calibration.Checksum, o.Outliers)
}

// quantizeInto rounds a row of input i, and notes whether some of it lies beyond its
// scale.
func (q *matmulQueue) quantizeInto(i, row int, x []float32 /* [cols] */) {
	in := &q.inputs[i]
	if in.perTensor == nil {
		in.acts.Set(row, x)
		return
	}
	most := in.acts.SetWhole(row, x, in.perTensor.Scale)
	if in.perTensor.Columns != nil {
		mark := byte(0)
		if most > in.perTensor.Limit {
			mark = 1
		}
		q.outliers.marksOf(i)[row] = mark
	}
}
