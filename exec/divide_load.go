package exec

import (
	"context"
	"fmt"

	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/internal/threadpool"
	"github.com/llmrun/llmrun/quant/tiled"
	"github.com/llmrun/llmrun/tiering"
)

// divider loads a model part by part: each as the file has it, of which the device
// takes its rows and the rest goes to a frame in the layout of this package's
// kernels. So at no time more than one part is in memory twice.
type divider struct {
	*loader
	*away
	exact   bool
	workers *threadpool.Workers // that put rows in tiles
	shares  map[*Matrix]Share
	// scales are those with which the inputs of matrices are rounded, see
	// Options.W8A8; of others nobody says how.
	scales map[*linear]float32
}

// loadWeights is loadWeights for a model that is divided.
func (a *away) loadWeights(ctx context.Context, ts *tensorSet, spec *Spec, o Options) (*weights, *loader, error) {
	ld := &loader{ts: ts, spec: spec, budget: o.Budget, exact: true, progress: o.Progress}
	w := &weights{layers: make([]layerWeights, len(spec.Layers))}
	d := &divider{loader: ld, away: a, exact: o.Exact, workers: threadpool.NewWorkers(o.Threads)}
	defer d.workers.Close()
	plans, err := ld.planAll(w)
	if err != nil {
		return nil, nil, err
	}
	d.findScales(w, o.W8A8)
	if err := ld.partByPart(ctx, plans, func(l *layout) error { return d.settle(l, w) }); err != nil {
		ld.free()
		return nil, nil, err
	}
	tiering.JoinPages(ld.frames)
	return w, ld, nil
}

// findScales finds the scale of each matrix's input.
func (d *divider) findScales(w *weights, o *W8A8) {
	scales := o.scales()
	d.scales = map[*linear]float32{}
	for l := range w.layers {
		w.layers[l].each(func(role string, m *linear) {
			if scale, known := scales[tensorName(role, l, ".weight")]; known {
				d.scales[m] = scale
			}
		})
	}
}

// settle divides a part that was just read.
func (d *divider) settle(l *layout, w *weights) error {
	if l.kind == embeddingLayout {
		return nil // it is only looked up in, and lies as it should
	}
	raw := d.frames[len(d.frames)-1]
	d.frames = d.frames[:len(d.frames)-1]
	defer raw.Free()
	d.shares = map[*Matrix]Share{}
	var matrices []namedLinear
	switch l.kind {
	case layerLayout:
		matrices = w.layers[l.layer].dense()
	case endsLayout:
		if w.tied = !w.head.present(); w.tied {
			w.head.Matrix = w.embed.Matrix
		}
		matrices = []namedLinear{{"output", &w.head}}
	}
	for _, m := range matrices {
		if m.matrix.present() {
			if err := d.give(m, l.kind == endsLayout); err != nil {
				return fmt.Errorf("%s: %w", m.name, err)
			}
		}
	}
	if err := d.keep(l); err != nil {
		return err
	}
	if l.kind == endsLayout && w.tied {
		w.head.Matrix = w.embed.Matrix
	}
	return nil
}

// give hands the device its rows of a matrix.
func (d *divider) give(m namedLinear, head bool) error {
	w := m.matrix
	product := Product{Name: m.name, Type: w.Type, Rows: w.Rows, Cols: w.Cols, OneToken: head}
	share := d.Of(product).rounded(w.Rows)
	tokens := d.chunk
	if head {
		tokens = headRows
	}
	op := hetero.Op{Tokens: tokens, Rows: w.Rows, Cols: w.Cols, Type: w.Type, Weights: w.Data, Streamed: true}
	if tiled.Fits(w.Type, w.Cols) { // others have no scale here either
		op.Scale = d.scales[w]
	}
	parts, err := d.prepare(op, share, d.copied)
	if err != nil {
		return err
	}
	w.away = &awayRows{Share: share, role: d.role(product, share), parts: parts}
	d.shares[&w.Matrix] = share
	return nil
}

// copied puts rows where they stay.
func (d *divider) copied(raw []byte) ([]byte, error) {
	frame, err := tiering.Alloc(d.budget, tiering.Pinned, len(raw))
	if err != nil {
		return nil, err
	}
	d.frames = append(d.frames, frame)
	copy(frame.Bytes(), raw)
	return frame.Bytes()[:len(raw)], nil
}

// keep moves what stays here of a part to a frame of its own. Of an output matrix
// that is the embedding as well all stays: rows are looked up in it.
func (d *divider) keep(l *layout) error {
	size := 0
	for i := range l.places {
		size += loadAligned(d.kept(&l.places[i]))
	}
	frame, err := tiering.Alloc(d.budget, tiering.Pinned, size)
	if err != nil {
		return err
	}
	d.frames = append(d.frames, frame)
	at := 0
	for i := range l.places {
		p := &l.places[i]
		memory := frame.Bytes()[at:][:d.kept(p)]
		at += loadAligned(len(memory))
		if p.matrix != nil {
			d.move(p, memory)
			continue
		}
		numbers, err := tiering.View[float32](memory, len(*p.vector))
		if err != nil {
			return err
		}
		copy(numbers, *p.vector)
		*p.vector = numbers
	}
	return nil
}

// rowsKept returns how many rows of a matrix stay here: the first ones.
func (d *divider) rowsKept(m *Matrix) int {
	if share, divided := d.shares[m]; divided {
		return max(share.One, share.Many)
	}
	return m.Rows
}

// kept returns how many bytes of a tensor stay here.
func (d *divider) kept(p *placement) int {
	if p.matrix == nil {
		return p.bytes()
	}
	m := d.laidOut(p)
	rows, bytes := m.unit()
	return (d.rowsKept(p.matrix) + rows - 1) / rows * bytes
}

// laidOut returns a matrix as this package's kernels want it, without its bytes.
func (d *divider) laidOut(p *placement) Matrix {
	m := *p.matrix
	m.Tiled = !d.exact && tiled.Fits(m.Type, m.Cols)
	m.Data = nil
	return m
}

// move puts the rows that stay here into their memory.
func (d *divider) move(p *placement, memory []byte) {
	m, raw := d.laidOut(p), p.matrix.Data
	rowBytes, kept := m.rowBytes(), d.rowsKept(p.matrix)
	unitRows, unit := m.unit()
	units := len(memory) / unit
	parts := min(units, partsPerWorker*d.workers.Count())
	d.workers.Run(parts, func(part, _ int) {
		lo, hi := threadpool.Span(units, parts, part)
		first, last := lo*unitRows, min(hi*unitRows, kept)
		if from := raw[first*rowBytes : last*rowBytes]; m.Tiled {
			tiled.Pack(memory[lo*unit:hi*unit], m.Type, from, last-first, m.Cols)
		} else {
			copy(memory[lo*unit:], from)
		}
	})
	m.Data = memory
	*p.matrix = m
}
