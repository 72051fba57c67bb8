package exec

import (
	"context"
	"fmt"

	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/tiering"
)

// loadReaders is how many reads are in flight while weights are loaded. Disks
// of phones and servers alike reach their bandwidth at four.
const loadReaders = 4

// loadAlign is the alignment of every matrix in its frame: a cache line.
const loadAlign = 64

// loader lays weights out in frames, a layer's bytes together, and reads them.
// A layer is first planned, which checks every tensor against the Spec, and
// only then read, so that a malformed file costs no memory.
type loader struct {
	ts     *tensorSet
	spec   *Spec
	budget *tiering.Budget
	frames []*tiering.Frame
	plan   []placement // of the frame that is being planned
	size   int
}

// placement is one tensor's place in a frame.
type placement struct {
	slot   slot
	off    int
	matrix *Matrix    // where to put it, or
	vector *[]float32 // where to put its elements as float32
}

// loadWeights reads all weights of a model. progress, which may be nil, is
// called with the bytes read so far.
func loadWeights(ctx context.Context, ts *tensorSet, spec *Spec, budget *tiering.Budget, progress func(done, total int64)) (*weights, []*tiering.Frame, error) {
	ld := &loader{ts: ts, spec: spec, budget: budget}
	w := &weights{layers: make([]layerWeights, len(spec.Layers))}
	var plans [][]placement
	var total int64
	keep := func() {
		plans = append(plans, ld.plan)
		for _, p := range ld.plan {
			total += p.slot.bytes()
		}
		ld.plan = nil
	}
	if err := ld.planEnds(w); err != nil {
		return nil, nil, err
	}
	keep()
	for l := range w.layers {
		if err := ld.planLayer(l, &w.layers[l]); err != nil {
			return nil, nil, err
		}
		keep()
	}
	var done int64
	for _, plan := range plans {
		n, err := ld.read(ctx, plan)
		if err != nil {
			ld.free()
			return nil, nil, err
		}
		if done += n; progress != nil {
			progress(done, total)
		}
	}
	if !w.head.present() {
		w.head.Matrix = w.embed
	}
	return w, ld.frames, nil
}

func (ld *loader) free() {
	for _, f := range ld.frames {
		f.Free()
	}
	ld.frames = nil
}

// read fills one frame.
func (ld *loader) read(ctx context.Context, plan []placement) (int64, error) {
	size := 0
	for i := range plan {
		p := &plan[i]
		p.off = size
		n := int(p.slot.bytes())
		if p.vector != nil {
			n = 4 * p.slot.cols * p.slot.rows
		}
		size += (n + loadAlign - 1) &^ (loadAlign - 1)
	}
	frame, err := tiering.Alloc(ld.budget, tiering.Pinned, size)
	if err != nil {
		return 0, fmt.Errorf("loading %s: %w", ld.ts.path, err)
	}
	ld.frames = append(ld.frames, frame)
	return ld.fill(ctx, plan, frame.Bytes())
}

func (ld *loader) fill(ctx context.Context, plan []placement, mem []byte) (int64, error) {
	var read int64
	var failed error
	for i := range plan {
		p := &plan[i]
		read += p.slot.bytes()
		if p.vector != nil {
			if err := ld.readVector(p, mem[p.off:]); err != nil && failed == nil {
				failed = err
			}
			continue
		}
		dst := mem[p.off : p.off+int(p.slot.bytes())]
		*p.matrix = Matrix{p.slot.typ, p.slot.rows, p.slot.cols, dst}
		for _, g := range p.slot.segs {
			if _, err := ld.ts.src.ReadAt(g.tensor, dst[:g.size], g.off); err != nil && failed == nil {
				failed = err
			}
			dst = dst[g.size:]
		}
	}
	return read, failed
}

// readVector reads and decodes a norm's gain or a bias; they are small.
func (ld *loader) readVector(p *placement, mem []byte) error {
	out, err := tiering.View[float32](mem, p.slot.rows*p.slot.cols)
	if err != nil {
		return err
	}
	*p.vector = out
	raw := make([]byte, p.slot.bytes())
	dst := raw
	for _, g := range p.slot.segs {
		if _, err := ld.ts.src.ReadAt(g.tensor, dst[:g.size], g.off); err != nil {
			return err
		}
		dst = dst[g.size:]
	}
	quant.DequantRow(p.slot.typ, out, raw)
	return nil
}

// tensorReader reads within one tensor.
type tensorReader struct {
	src store.Source
	t   store.Tensor
}

func (r tensorReader) ReadAt(p []byte, off int64) (int, error) { return r.src.ReadAt(r.t, p, off) }
