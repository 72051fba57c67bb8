package exec

import (
	"context"
	"fmt"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/prefetch"
	"github.com/llmrun/llmrun/quant/tiled"
	"github.com/llmrun/llmrun/tiering"
)

// splitLoader prepares a device's rows layout by layout, so that only one layout at a time is in
// memory twice. It reads the rows in the file's layout. The host's rows are loaded afterwards, as
// those of any model.
type splitLoader struct {
	*weights.Loader
	*offloadDevice
	// scales holds the per-tensor scale of each matrix's input, see Options.W8A8. Inputs without
	// an entry have no fixed scale.
	scales map[*weights.Linear]float32
}

// loadRows loads the device's rows. It returns the weights with these rows only, and the memory that
// kernels read in place, also after an error.
func (a *offloadDevice) loadRows(ctx context.Context, ts *modelfile.TensorSet, spec *arch.Spec, o *Options, scheduler *prefetch.Scheduler) (*weights.Weights, *weights.Loader, error) {
	ld := &weights.Loader{Tensors: ts, Spec: spec, Budget: o.Budget, Exact: true, Progress: o.Progress, Scheduler: scheduler}
	d := &splitLoader{Loader: ld, offloadDevice: a}
	w, layouts, err := ld.PlanHost(0)
	if err != nil {
		return nil, ld, err
	}
	for i := range layouts {
		layouts[i].Describe()
	}
	weights.OffloadRows(w, layouts, a.RowsOf)
	a.countStats(w, layouts)
	d.findScales(w, o.W8A8)
	rows := weights.DeviceRows(w, layouts)
	weights.KeepHostRows(w, layouts)
	ld.Total = weights.ReadBytes(layouts) // is read afterwards
	err = ld.LoadSequentially(ctx, rows, func(l *weights.Layout) error { return d.prepareLayout(l, w) })
	return w, ld, err
}

// findScales finds the scale of each matrix's input.
func (d *splitLoader) findScales(w *weights.Weights, o *W8A8) {
	scales := o.scales()
	d.scales = map[*weights.Linear]float32{}
	for l := range w.Layers {
		w.Layers[l].Each(func(role string, m *weights.Linear) {
			if scale, known := scales[modelfile.TensorName(role, l, ".weight")]; known {
				d.scales[m] = scale
			}
		})
	}
}

// prepareLayout prepares the device's rows of a layout that was just read, and frees them.
func (d *splitLoader) prepareLayout(l *weights.Layout, w *weights.Weights) error {
	raw := d.Frames[len(d.Frames)-1]
	d.Frames = d.Frames[:len(d.Frames)-1]
	defer raw.Free()
	for _, m := range w.Splittable(l) {
		if err := d.prepareMatrix(m.Matrix); err != nil {
			return fmt.Errorf("%s: %w", m.Name, err)
		}
	}
	return nil
}

// prepareMatrix prepares the device's rows of a matrix, which are its data.
func (d *splitLoader) prepareMatrix(w *weights.Linear) (err error) {
	kind := &w.Offload.Matmul.Matmul
	tokens := d.chunk
	if kind.LastTokenOnly {
		tokens = headRows
	}
	op := hetero.Op{Tokens: tokens, Rows: kind.Rows, Cols: w.Cols, Type: w.Type, Weights: w.Data, Streamed: true}
	if tiled.Fits(w.Type, w.Cols) { // matrices that do not fit tiles have no scale on the CPU either
		op.Scale = d.scales[w]
	}
	w.Offload.Ranges, err = d.prepare(op, w.Offload.RowSplit, d.copyRows)
	return err
}

// copyRows copies rows to a frame that lives as long as the model.
func (d *splitLoader) copyRows(raw []byte) ([]byte, error) {
	frame, err := tiering.Alloc(d.Budget, tiering.Pinned, len(raw))
	if err != nil {
		return nil, err
	}
	d.Frames = append(d.Frames, frame)
	copy(frame.Bytes(), raw)
	return frame.Bytes()[:len(raw)], nil
}
