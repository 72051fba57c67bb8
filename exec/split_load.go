package exec

import (
	"context"
	"fmt"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/internal/threadpool"
	"github.com/llmrun/llmrun/quant/tiled"
	"github.com/llmrun/llmrun/tiering"
)

// splitLoader loads a model part by part, so that only one part at a time is in memory twice. It
// reads a part in the file's layout, prepares the device's rows of it, and packs the CPU's rows
// into a frame in the layout of the CPU's kernels.
type splitLoader struct {
	*weights.Loader
	*offloadDevice
	exact   bool
	workers *threadpool.Pool // threads that pack rows into tiles
	splits  map[*weights.Matrix]weights.RowSplit
	// scales holds the per-tensor scale of each matrix's input, see Options.W8A8. Inputs without
	// an entry have no fixed scale.
	scales map[*weights.Linear]float32
}

// loadWeights is loadWeights for a split model.
func (a *offloadDevice) loadWeights(ctx context.Context, ts *modelfile.TensorSet, spec *arch.Spec, o Options) (*weights.Weights, *weights.Loader, error) {
	ld := &weights.Loader{Tensors: ts, Spec: spec, Budget: o.Budget, Exact: true, Progress: o.Progress}
	w := &weights.Weights{Layers: make([]weights.LayerWeights, len(spec.Layers))}
	d := &splitLoader{Loader: ld, offloadDevice: a, exact: o.Exact, workers: threadpool.New(o.Threads)}
	defer d.workers.Close()
	layouts, err := ld.PlanAll(w)
	if err != nil {
		return nil, nil, err
	}
	d.findScales(w, o.W8A8)
	if err := ld.LoadSequentially(ctx, layouts, func(l *weights.Layout) error { return d.split(l, w) }); err != nil {
		ld.Free()
		return nil, nil, err
	}
	tiering.JoinPages(ld.Frames)
	return w, ld, nil
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

// split splits a part that was just read.
func (d *splitLoader) split(l *weights.Layout, w *weights.Weights) error {
	if l.Kind == weights.EmbeddingLayout {
		return nil // it serves only lookups, in its present layout
	}
	raw := d.Frames[len(d.Frames)-1]
	d.Frames = d.Frames[:len(d.Frames)-1]
	defer raw.Free()
	d.splits = map[*weights.Matrix]weights.RowSplit{}
	var matrices []weights.NamedLinear
	switch l.Kind {
	case weights.LayerLayout:
		matrices = w.Layers[l.Layer].Dense()
	case weights.EndsLayout:
		if w.Tied = !w.Head.Present(); w.Tied {
			w.Head.Matrix = w.Embed.Matrix
		}
		matrices = []weights.NamedLinear{{Name: "output", Matrix: &w.Head}}
	}
	for _, m := range matrices {
		if m.Matrix.Present() {
			if err := d.offloadRows(m, l.Kind == weights.EndsLayout); err != nil {
				return fmt.Errorf("%s: %w", m.Name, err)
			}
		}
	}
	if err := d.packResident(l); err != nil {
		return err
	}
	if l.Kind == weights.EndsLayout && w.Tied {
		w.Head.Matrix = w.Embed.Matrix
	}
	return nil
}

// offloadRows prepares the device's rows of a matrix.
func (d *splitLoader) offloadRows(m weights.NamedLinear, head bool) error {
	w := m.Matrix
	kind := weights.Matmul{Name: m.Name, Type: w.Type, Rows: w.Rows, Cols: w.Cols, LastTokenOnly: head}
	split := d.RowsOf(kind).AlignTiles(w.Rows)
	tokens := d.chunk
	if head {
		tokens = headRows
	}
	op := hetero.Op{Tokens: tokens, Rows: w.Rows, Cols: w.Cols, Type: w.Type, Weights: w.Data, Streamed: true}
	if tiled.Fits(w.Type, w.Cols) { // matrices that do not fit tiles have no scale on the CPU either
		op.Scale = d.scales[w]
	}
	ranges, err := d.prepare(op, split, d.copyRows)
	if err != nil {
		return err
	}
	w.Offload = &weights.OffloadedRows{RowSplit: split, Matmul: d.statsOf(kind, split), Ranges: ranges}
	d.splits[&w.Matrix] = split
	return nil
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

// packResident moves the CPU's rows of a part to a frame of their own. An output matrix that is
// also the embedding stays whole, because lookups read all rows.
func (d *splitLoader) packResident(l *weights.Layout) error {
	size := 0
	for i := range l.Places {
		size += weights.AlignedSize(d.residentBytes(&l.Places[i]))
	}
	frame, err := tiering.Alloc(d.Budget, tiering.Pinned, size)
	if err != nil {
		return err
	}
	d.Frames = append(d.Frames, frame)
	at := 0
	for i := range l.Places {
		p := &l.Places[i]
		memory := frame.Bytes()[at:][:d.residentBytes(p)]
		at += weights.AlignedSize(len(memory))
		if p.Matrix != nil {
			d.packRows(p, memory)
			continue
		}
		numbers, err := tiering.View[float32](memory, len(*p.Vector))
		if err != nil {
			return err
		}
		copy(numbers, *p.Vector)
		*p.Vector = numbers
	}
	return nil
}

// residentRows returns how many rows of a matrix stay on the CPU: the first ones.
func (d *splitLoader) residentRows(m *weights.Matrix) int {
	if split, ok := d.splits[m]; ok {
		return max(split.Single, split.Batch)
	}
	return m.Rows
}

// residentBytes returns how many bytes of a tensor stay on the CPU.
func (d *splitLoader) residentBytes(p *weights.Placement) int {
	if p.Matrix == nil {
		return p.Bytes()
	}
	m := d.cpuLayout(p)
	rows, bytes := m.Unit()
	return (d.residentRows(p.Matrix) + rows - 1) / rows * bytes
}

// cpuLayout returns a matrix in the layout of the CPU's kernels, without its data.
func (d *splitLoader) cpuLayout(p *weights.Placement) weights.Matrix {
	m := *p.Matrix
	m.Tiled = !d.exact && tiled.Fits(m.Type, m.Cols)
	m.Data = nil
	return m
}

// packRows packs the CPU's rows of a matrix into their memory.
func (d *splitLoader) packRows(p *weights.Placement, memory []byte) {
	m, raw := d.cpuLayout(p), p.Matrix.Data
	rowBytes, resident := m.RowBytes(), d.residentRows(p.Matrix)
	unitRows, unit := m.Unit()
	units := len(memory) / unit
	parts := min(units, partsPerThread*d.workers.Count())
	d.workers.Run(parts, func(part, _ int) {
		lo, hi := threadpool.Span(units, parts, part)
		first, last := lo*unitRows, min(hi*unitRows, resident)
		if from := raw[first*rowBytes : last*rowBytes]; m.Tiled {
			tiled.Pack(memory[lo*unit:hi*unit], m.Type, from, last-first, m.Cols)
		} else {
			copy(memory[lo*unit:], from)
		}
	})
	m.Data = memory
	*p.Matrix = m
}
