package exec

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/internal/trace"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store"
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
	// Shadows says which inputs have a shadow. The others have a scale that suits
	// them without one.
	Shadows ShadowChoice
	Trace   *trace.Recorder // may be nil
}

// wholeInput is how the input of a matrix is rounded with one scale.
type wholeInput struct {
	scale float32
	limit uint32 // bits of the largest magnitude that is no outlier
	// columns of the matrix as floats; nil: it has no shadow
	columns *columns
	spans   spanNames
}

// spanNames are what the halves of a product are called in a trace.
type spanNames struct{ integers, shadow string }

func (w *linear) spanNames() *spanNames {
	if w.whole == nil {
		return &spanNames{integers: "another product"}
	}
	return &w.whole.spans
}

// UseWhole makes the matrices of a calibration appear in 8 bits with one scale for
// each row. It refuses a calibration of another model.
func (f *Files) UseWhole(c *w8a8.File) error {
	identity, err := f.calibrationIdentity()
	if err != nil {
		return err
	}
	if identity != c.Model {
		return &store.FormatError{
			Path: c.Path(), Off: store.NoOffset, Field: "model", Reason: "the calibration belongs to another model, or to this one with other weights",
			Hint: "calibrate this one with llmrun calibrate", Kind: ErrModel,
		}
	}
	ld, named, err := f.layerMatrices()
	if err != nil {
		return err
	}
	if len(ld.orders) > 0 {
		return fmt.Errorf("%w: W8A8 of a model whose columns are not in the order of its inputs (%s)", ErrUnsupported, f.Path)
	}
	whole := &wholeRows{newOverlay(f.Source), map[string]bool{}}
	for i := range c.Inputs {
		in := &c.Inputs[i]
		for j := range in.Matrices {
			s := named[in.Matrices[j].Name]
			if s == nil || s.cols != in.Cols || s.rows != in.Matrices[j].Rows {
				return fmt.Errorf("%w: %s: inputs[%d]: the model has no matrix %s of %d rows and %d columns", ErrModel, c.Path(), i, in.Matrices[j].Name, in.Matrices[j].Rows, in.Cols)
			}
			for _, g := range s.segs {
				whole.change(g.tensor.Name)
			}
		}
	}
	f.Source = whole
	return nil
}

// wholeRows is a model some of whose matrices have 8 bits and one scale for each
// row.
type wholeRows struct {
	overlay
	changed map[string]bool // tensors
}

// change rounds a tensor, if rows of its length can be.
func (w *wholeRows) change(name string) {
	t := &w.tensors[w.index[name]]
	rowBytes, err := quant.Q8_0.RowBytes(t.Cols())
	if err == nil {
		t.Type, t.Size = quant.Q8_0, int64(t.Rows())*int64(rowBytes)
		w.changed[name] = true
	}
}

// ReadAt reads a tensor; the rows of a changed one are computed.
func (w *wholeRows) ReadAt(t store.Tensor, p []byte, off int64) (int, error) {
	base, ok := w.Source.Tensor(t.Name)
	if !ok || !w.changed[t.Name] {
		return w.Source.ReadAt(t, p, off)
	}
	row := make([]float32, t.Cols())
	out := make([]byte, t.Size/int64(t.Rows()))
	return readComputed(t, p, off, func(i int) ([]byte, error) {
		if err := readRow(w.Source, base, row, i); err != nil {
			return nil, err
		}
		return out, quant.QuantizeRowWhole(out, row)
	})
}

// CheckDevice refuses a device that rounds activations in its own way, and leaves
// nothing to be added.
func (o *W8A8) CheckDevice(name string, caps hetero.Capabilities) error {
	if o == nil || caps.Scaled {
		return nil
	}
	return fmt.Errorf("%w: %s multiplies with no scale that is given, which W8A8 needs: leave W8A8 out, or divide with an NPU or with cores of the processor", ErrUnsupported, name)
}

// scaleOf returns with which scale an input is rounded.
func scaleOf(in *w8a8.Input, shadow bool) float32 {
	if shadow {
		return in.Scale
	}
	return in.Alone
}

// scales returns with which scale the input of each matrix is rounded, by the matrix's
// name.
func (o *W8A8) scales() map[string]float32 {
	if o == nil {
		return nil
	}
	scales := map[string]float32{}
	for in, kept := range o.Shadows.Of(o.Calibration.Inputs) {
		for i := range in.Matrices {
			scales[in.Matrices[i].Name] = scaleOf(in, kept)
		}
	}
	return scales
}

// useWhole gives the matrices of a calibration their scales, and those that have a
// shadow their hot columns.
func (m *Model) useWhole(o *W8A8) error {
	if o == nil {
		return nil
	}
	named := m.matricesByName()
	s := &shadow{m: m, file: o.Calibration, recorder: o.Trace}
	m.shadow = s
	for in, kept := range o.Shadows.Of(o.Calibration.Inputs) {
		for j := range in.Matrices {
			w := named[in.Matrices[j].Name]
			if w == nil || !w.Tiled {
				continue // rows that are no whole number of blocks
			}
			name := in.Matrices[j].Name
			w.whole = &wholeInput{scale: scaleOf(in, kept), spans: spanNames{"integers of " + name, "shadow of " + name}}
			if !kept {
				continue
			}
			if in.Matrices[j].At == 0 {
				return fmt.Errorf("%w: %s has no columns of %s: calibrate again and store more of them, or prune more here", ErrModel, o.Calibration.Path(), in.Matrices[j].Name)
			}
			w.whole.limit = magnitude(limitOf(in.Scale))
			c, err := s.addColumns(in, &in.Matrices[j])
			if err != nil {
				return err
			}
			w.whole.columns = c
		}
	}
	return nil
}

// ShadowChoice says which inputs have a shadow: a part of them, those whose outliers
// matter most, and those whose error would otherwise grow more than so many times, if
// the calibration has their columns.
type ShadowChoice struct {
	Share    float64
	MostLoss float64
}

// DefaultShadows are those that were published to suffice, 15 % of the inputs, and
// whichever else would lose more than 2 of its 8 bits.
var DefaultShadows = ShadowChoice{Share: 0.15, MostLoss: 4}

// ShadowsOf chooses a part of the inputs.
func ShadowsOf(share float64) ShadowChoice { return ShadowChoice{share, math.Inf(1)} }

// Of goes through inputs, those first whose outliers matter most, and says which
// have a shadow.
func (c ShadowChoice) Of(inputs []w8a8.Input) iter.Seq2[*w8a8.Input, bool] {
	sorted := make([]*w8a8.Input, len(inputs))
	for i := range inputs {
		sorted[i] = &inputs[i]
	}
	slices.SortStableFunc(sorted, func(a, b *w8a8.Input) int { return cmp.Compare(b.Importance(), a.Importance()) })
	return func(yield func(*w8a8.Input, bool) bool) {
		for i, in := range sorted {
			// A product such as 0.15·20 may be a little above the whole number.
			most := float64(i) < c.Share*float64(len(sorted))-1e-9
			if !yield(in, most || float64(in.Loss) > c.MostLoss && in.Stored()) {
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
	return fmt.Sprintf("w8a8 %x %v", o.Calibration.Sum, o.Shadows)
}

// setRow rounds a row of input i, and notes whether some of it lies beyond its
// scale.
func (p *pass) setRow(i, row int, x []float32 /* [cols] */) {
	in := &p.inputs[i]
	if in.whole == nil {
		in.acts.Set(row, x)
		return
	}
	most := in.acts.SetWhole(row, x, in.whole.scale)
	if in.whole.columns != nil {
		mark := byte(0)
		if most > in.whole.limit {
			mark = 1
		}
		p.shadow.marksOf(i)[row] = mark
	}
}
