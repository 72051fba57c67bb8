package exec

import (
	"context"
	"fmt"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/calib"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/quant/tiled"
	"github.com/llmrun/llmrun/store/w8a8"
)

// prefillAlone passes tokens through the model as a sequence of their own.
func prefillAlone(ctx context.Context, m *Model, ids []int32) error {
	s, err := m.NewSequence(len(ids))
	if err != nil {
		return err
	}
	defer s.Close()
	return m.Extend(ctx, s, ids, &ExtendOptions{})
}

// prefillWindows passes a text through the model in windows that do not attend to each other.
func prefillWindows(ctx context.Context, m *Model, ids []int32, progress func(done int)) error {
	window := min(calibrationWindow, m.Spec.Context)
	for done := 0; done < len(ids); done += window {
		progress(done)
		if err := prefillAlone(ctx, m, ids[done:min(done+window, len(ids))]); err != nil {
			return err
		}
	}
	progress(len(ids))
	return nil
}

// calibrationWindow is the number of tokens of a window.
const calibrationWindow = 512

// Calibrate measures the importance of the inputs of all layers' matrices by passing token ids
// through the model with its current weights. It calls progress, which may be nil, with the
// number of tokens done.
func Calibrate(ctx context.Context, f *modelfile.Files, ids []int32, o Options, progress func(done, total int64)) (modelfile.Importance, error) {
	if len(ids) == 0 {
		return nil, fmt.Errorf("%w: the calibration text has no tokens", arch.ErrModel)
	}
	m, err := Load(ctx, f, o)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	powers := &calib.InputPowers{Sums: map[*weights.Linear]*calib.InputPower{}}
	for name, w := range m.Matrices() {
		powers.Sums[w] = &calib.InputPower{Name: name}
	}
	m.Observe(powers.Observe)
	if err := prefillWindows(ctx, m, ids, func(done int) {
		if progress != nil {
			progress(int64(done), int64(len(ids)))
		}
	}); err != nil {
		return nil, err
	}
	importance := modelfile.Importance{}
	for _, p := range powers.Sums {
		if p.Rows > 0 { // the router may never have chosen some experts
			quant.Scale(p.Sum, 1/float32(p.Rows))
			importance[p.Name] = p.Sum
		}
	}
	return importance, nil
}

// planeProbe is a matrix that passes compute with its high plane alone; all others are whole.
type planeProbe struct {
	w     *weights.Linear
	plane tiled.Plane
}

// planeOps limits the multiply-adds of MeasurePlanes: the text is cut to what they suffice for, but not below leastPlaneTokens.
const (
	planeOps         = 10e12
	leastPlaneTokens = 16
	mostPlaneTokens  = 256
)

// MeasurePlanes measures how much each matrix needs its low bits: it passes the beginning of a text through the model with the
// high plane of one matrix at a time, and compares the distributions of the next token with those of the whole model.
func MeasurePlanes(ctx context.Context, f *modelfile.Files, ids []int32, o Options, progress func(done, total int64)) (*calib.Planes, error) {
	m, err := Load(ctx, f, o)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	if why := WhyNoDrafts(m.Spec, Selection{}); why != "" {
		return nil, fmt.Errorf("%w: planes of a model with %s cannot draft, so nothing is measured", arch.ErrModel, why)
	}
	named := m.Matrices()
	named[weights.HeadName(m.weights)] = &m.weights.Head
	planes := calib.NewPlanes(named)
	total := planes.Count()
	if len(ids) == 0 || total == 0 {
		return nil, fmt.Errorf("%w: %d tokens of calibration text, and %d planes of matrices", arch.ErrModel, len(ids), total)
	}
	traffic := m.Traffic()
	affords := int(planeOps / (float64(total) * float64(traffic.LayerMulAdds+traffic.HeadMulAdds)))
	planes.Tokens = min(len(ids), max(leastPlaneTokens, min(affords, mostPlaneTokens)), m.Spec.Context)
	whole, err := logProbs(ctx, m, ids[:planes.Tokens])
	if err != nil {
		return nil, err
	}
	done := int64(0)
	err = planes.Each(func(name string, plane tiled.Plane) (float64, error) {
		m.probe = planeProbe{named[name], plane}
		got, err := logProbs(ctx, m, ids[:planes.Tokens])
		if done++; progress != nil {
			progress(done, int64(total))
		}
		return calib.Divergence(whole, got), err
	})
	return planes, err
}

// logProbs returns the logarithms of the probabilities of the tokens behind each of a text.
func logProbs(ctx context.Context, m *Model, ids []int32) (all [][]float32, err error) {
	s, err := m.NewSequence(len(ids))
	if err != nil {
		return nil, err
	}
	defer s.Close()
	err = m.Extend(ctx, s, ids, &ExtendOptions{Want: func(int) bool { return true }, Each: func(_ int, logits []float32) error {
		all = append(all, calib.LogProbs(logits))
		return nil
	}})
	return all, err
}

// MeasureOutliers passes token ids through the model with its current weights. It measures the
// per-tensor scale of each input, and the elements that exceed it. The scales are known only at
// the end, so the first pass collects candidates: elements that may exceed them. A second pass
// counts the elements if the text is too long to collect candidates, or if more elements exceed a
// scale than there are candidates.
func MeasureOutliers(ctx context.Context, f *modelfile.Files, ids []int32, o Options, opts OutlierOptions) (*w8a8.Index, error) {
	if len(ids) == 0 {
		return nil, fmt.Errorf("%w: the calibration text has no tokens", arch.ErrModel)
	}
	identity, err := calib.CalibrationIdentity(ctx, f)
	if err != nil {
		return nil, err
	}
	m, err := Load(ctx, f, o)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	measurement := newOutlierMeasurement(m, ids, opts)
	if err := measurement.run(ctx); err != nil {
		return nil, err
	}
	index := &w8a8.Index{Model: identity, CreatedBy: opts.Made, Tokens: len(ids), OutlierFraction: opts.Fraction}
	for _, s := range measurement.inputs {
		in, err := s.Input()
		if err != nil {
			return nil, err
		}
		index.Inputs = append(index.Inputs, in)
	}
	return index, nil
}

// outlierMeasurement measures the magnitudes of all inputs of a model.
type outlierMeasurement struct {
	m    *Model
	ids  []int32
	opts OutlierOptions

	inputs   []*calib.InputMagnitudes                   // in order of use
	byMatrix map[*weights.Linear]*calib.InputMagnitudes // by the first matrix that reads the input
	passes   int64                                      // expected passes over the text
}

// newOutlierMeasurement prepares the measurement of each input of the model.
func newOutlierMeasurement(m *Model, ids []int32, opts OutlierOptions) *outlierMeasurement {
	o := &outlierMeasurement{m: m, ids: ids, opts: opts, byMatrix: map[*weights.Linear]*calib.InputMagnitudes{}}
	named := m.Matrices()
	for _, group := range calib.InputGroups(len(m.Spec.Layers), func(name string) bool { return named[name] != nil }) {
		first := named[group[0]]
		s := &calib.InputMagnitudes{Name: group[0], OutlierCounts: make([]int64, first.Cols)}
		for _, name := range group {
			s.Matrices = append(s.Matrices, w8a8.Matrix{Name: name, Rows: named[name].Rows, Type: calib.ColumnType(named[name].Type).String()})
		}
		o.inputs, o.byMatrix[first] = append(o.inputs, s), s
	}
	return o
}

// run chooses the scales of all inputs and counts their outliers, in one pass over the text or two.
func (o *outlierMeasurement) run(ctx context.Context) error {
	o.passes = 1
	if !calib.CollectCandidates(o.inputs, len(o.ids), o.opts.Fraction) {
		o.passes = 2
	}
	if err := o.pass(ctx, 0, (*calib.InputMagnitudes).Observe); err != nil {
		return err
	}
	for _, s := range o.inputs {
		if s.ChooseScale(o.opts.Fraction); !s.CountCandidates(s.Limit, s.OutlierCounts) {
			o.passes = 2
		}
	}
	if o.passes == 1 {
		return nil
	}
	return o.pass(ctx, len(o.ids), (*calib.InputMagnitudes).CountOutliers)
}

// pass passes the text through the model and calls observe with each row of each input. before is
// the number of tokens of earlier passes.
func (o *outlierMeasurement) pass(ctx context.Context, before int, observe func(*calib.InputMagnitudes, []float32)) error {
	o.m.Observe(func(w *weights.Linear, rows int, row func(int) []float32) {
		if s := o.byMatrix[w]; s != nil {
			for i := range rows {
				observe(s, row(i))
			}
		}
	})
	return prefillWindows(ctx, o.m, o.ids, func(done int) {
		if o.opts.Progress != nil {
			o.opts.Progress(int64(before+done), o.passes*int64(len(o.ids)))
		}
	})
}

// OutlierOptions are the options of MeasureOutliers.
type OutlierOptions struct {
	Made string // program and version that the calibration names as its maker
	// Fraction is the fraction of an input's elements that may exceed its scale and take the
	// outlier path. 0 means the default of package calib, or more for an input with many elements
	// far larger than all others.
	Fraction float64
	Progress func(done, total int64) // in tokens; a second pass doubles total
}

// Observer is called with each matmul before it runs: its matrix, how many rows its
// input has, and a function that returns one of them.
type Observer func(w *weights.Linear, rows int, row func(i int) []float32 /* [Cols] */)

// measurement is what measurements change of passes.
type measurement struct {
	observe Observer   // nil: no observer is set
	probe   planeProbe // see MeasurePlanes
}

// Observe makes the model call an observer before every matmul; nil ends that. It must not
// be called while a pass runs.
func (m *Model) Observe(o Observer) { m.observe = o }

// Matrices returns the matrices of all layers that quantization may change, by their
// names in GGUF files.
func (m *Model) Matrices() map[string]*weights.Linear {
	named := map[string]*weights.Linear{}
	for l := range m.weights.Layers {
		m.weights.Layers[l].Each(func(role string, w *weights.Linear) {
			if w.Present() {
				named[modelfile.TensorName(role, l, ".weight")] = w
			}
		})
	}
	return named
}
