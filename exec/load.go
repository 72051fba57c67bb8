package exec

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/llmrun/llmrun/prefetch"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/quant/tiled"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/tiering"
)

// loadReaders is how many reads are in flight while weights are loaded. Disks
// of phones and servers alike reach their bandwidth at four.
const loadReaders = 4

// loadAlign is the alignment of every matrix in its frame: a cache line.
const loadAlign = 64

// loadAligned returns what so many bytes take in a frame.
func loadAligned(n int) int { return (n + loadAlign - 1) &^ (loadAlign - 1) }

// loader lays weights out in frames, a layer's bytes together, and reads them.
// A layer is first planned, which checks every tensor against the Spec, and
// only then read, so that a malformed file costs no memory.
type loader struct {
	ts      *tensorSet
	spec    *Spec
	budget  *tiering.Budget
	pinFile bool // see Options
	exact   bool // keep rows as they are, for products in float32
	frames  []*tiering.Frame
	plan    []placement // of the layer that is being planned
	experts []layout    // of the same layer
	orders  []*ordered  // of the columns of all matrices that have one
	parts   *residency  // of a pack of which a plan says what is kept; else nil
	cold    []layout    // experts that the plan's memory for experts takes in turn

	progress    func(done, total int64)
	mu          sync.Mutex // guards done, which readers count up
	done, total int64
}

// layout is what goes into one frame, and what a pack keeps as one section.
type layout struct {
	name   string // "embedding", "ends", "blk.N" or "blk.N.expert.E"
	kind   layoutKind
	layer  int // of a layer or expert; the ends come behind the last layer
	places []placement
	// section is set where a pack holds all of this as it is.
	section io.ReaderAt
	// sectionSize is the length of the section, of which size bytes from its start
	// are kept.
	sectionSize int
	size        int // of the frame
	frame       *tiering.Frame
	// from is where the part of the section begins that is streamed.
	from int
	// A mapped section is used where it lies in the file: index is its number in
	// the pack, and whole all of its bytes.
	mapped bool
	index  int
	whole  []byte
}

// layoutKind says which part of a model a layout holds.
type layoutKind int

const (
	layerLayout     layoutKind = iota
	embeddingLayout            // rows that are only looked up
	endsLayout                 // final norm and output matrix
	expertLayout               // one expert of a layer
)

// placement is one tensor's place in a frame.
type placement struct {
	name   string // as GGUF files name it, with fused tensors cut
	slot   slot
	off    int
	tile   bool         // rows are put in tiles
	matrix *Matrix      // where to put it, or
	rest   streamedRows // of the matrix, where the rows are that are not kept
	vector *[]float32   // where to put its elements as float32
}

// loadWeights reads all weights of a model. progress, which may be nil, is
// called with the bytes read so far.
func loadWeights(ctx context.Context, ts *tensorSet, spec *Spec, o Options) (*weights, *loader, error) {
	ld := &loader{ts: ts, spec: spec, budget: o.Budget, exact: o.Exact, pinFile: o.PinFile, progress: o.Progress}
	w := &weights{layers: make([]layerWeights, len(spec.Layers))}
	plans, err := ld.planAll(w)
	if err != nil {
		return nil, nil, err
	}
	for i := range plans {
		ld.findSection(&plans[i])
	}
	if o.Plan != nil {
		if plans, err = ld.divide(w, plans, o.Plan); err != nil {
			return nil, nil, err
		}
	}
	if o.MapFirst && ld.mapFirst(plans, o.Plan) {
		ld.pinFile, ld.parts.mapFirst, ld.parts.settling = true, true, true
	}
	ld.total += readBytes(plans)
	queue := prefetch.New(loadReaders)
	err = ld.readAll(ctx, queue, plans)
	queue.Close() // nothing is written to frames from here on
	if err != nil {
		ld.free()
		return nil, nil, err
	}
	if err := ld.giveOrders(); err != nil {
		ld.free()
		return nil, nil, err
	}
	if !w.head.present() {
		w.head.Matrix, w.tied = w.embed.Matrix, true
	}
	if ld.parts != nil {
		ld.parts.keep(plans)
	}
	tiering.JoinPages(ld.frames)
	return w, ld, nil
}

// planAll checks every tensor and returns what goes into each frame: one or two
// for the ends of the network and one for each layer.
func (ld *loader) planAll(w *weights) (plans []layout, err error) {
	ends, err := ld.planEnds(w)
	if err != nil {
		return nil, err
	}
	layers, err := ld.planLayers(w)
	return append(ends, layers...), err
}

// planLayers is planAll without the ends.
func (ld *loader) planLayers(w *weights) (plans []layout, err error) {
	for l := range w.layers {
		ld.plan = nil
		if err := ld.planLayer(l, &w.layers[l]); err != nil {
			return nil, err
		}
		plans = append(plans, layout{name: fmt.Sprintf("blk.%d", l), layer: l, places: ld.plan})
		plans = append(plans, ld.experts...)
		ld.experts = nil
	}
	return plans, nil
}

// arrived counts bytes that were read; readers call it at the same time.
func (ld *loader) arrived(n int) {
	ld.mu.Lock()
	defer ld.mu.Unlock()
	ld.done += int64(n)
	if ld.progress != nil {
		ld.progress(ld.done, ld.total)
	}
}

func (ld *loader) free() {
	for _, f := range ld.frames {
		f.Free()
	}
	ld.frames = nil
}

// readAll fills a frame for each plan. Sections of packs are all asked for at
// once, so that the disk never waits, and then taken in turn.
func (ld *loader) readAll(ctx context.Context, queue *prefetch.Queue, plans []layout) error {
	tickets := make([]*prefetch.Ticket, len(plans))
	for i := range plans {
		plan := &plans[i]
		if plan.section == nil {
			plan.place()
		}
		frame, err := ld.frameFor(plan)
		if err != nil {
			return fmt.Errorf("loading %s: %w", ld.ts.path, err)
		}
		plan.frame = frame
		ld.frames = append(ld.frames, frame)
		if plan.mapped {
			if err := ld.useMapping(ctx, plan); err != nil {
				return err
			}
			continue
		}
		if plan.section != nil {
			tickets[i] = ld.askForSection(ctx, queue, plan, frame.Bytes())
		} else if err := ld.fill(ctx, queue, plan.places, frame.Bytes()); err != nil {
			return err
		}
	}
	for i, t := range tickets {
		if t == nil {
			continue
		}
		if err := t.Wait(ctx); err != nil {
			return err
		}
		if err := plans[i].attach(ld.frames[i].Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// place lays the placements out in a frame of their own.
func (l *layout) place() {
	l.size = 0
	for i := range l.places {
		p := &l.places[i]
		p.off = l.size
		l.size += loadAligned(p.bytes())
	}
}

// readBytes returns how much is read to fill the frame.
func (l *layout) readBytes() (n int64) {
	if l.section != nil {
		return int64(l.size)
	}
	for i := range l.places {
		n += l.places[i].slot.bytes()
	}
	return n
}

// readBytes returns how much is read to fill the frames of layouts.
func readBytes(plans []layout) (n int64) {
	for i := range plans {
		n += plans[i].readBytes()
	}
	return n
}

// bytes returns the size of the placement in its frame.
func (p *placement) bytes() int {
	switch {
	case p.vector != nil:
		return 4 * p.slot.cols * p.slot.rows
	case p.tile:
		rows := (p.slot.rows + tiled.TileRows - 1) / tiled.TileRows * tiled.TileRows
		return rows * int(p.slot.bytes()) / p.slot.rows
	}
	return int(p.slot.bytes())
}

// matrixOver returns the placement's matrix, whose first rows, or all, are in
// memory.
func (p *placement) matrixOver(data []byte) Matrix {
	m := Matrix{Type: p.slot.typ, Rows: p.slot.rows, Cols: p.slot.cols, Data: data, Tiled: p.tile, Order: p.matrix.Order}
	rows, bytes := m.unit()
	m.rest.count = m.Rows - min(m.Rows, len(data)/bytes*rows)
	return m
}

func (ld *loader) fill(ctx context.Context, queue *prefetch.Queue, plan []placement, mem []byte) error {
	var tickets []*prefetch.Ticket
	var failed error
	for i := range plan {
		p := &plan[i]
		if p.vector != nil {
			if err := ld.readVector(p, mem[p.off:]); err != nil && failed == nil {
				failed = err
			}
			continue
		}
		dst := mem[p.off : p.off+p.bytes()]
		*p.matrix = p.matrixOver(dst)
		if p.tile {
			if err := ld.fillTiles(ctx, &p.slot, dst); err != nil && failed == nil {
				failed = err
			}
			continue
		}
		for _, g := range p.slot.segs {
			tickets = append(tickets, queue.Submit(ctx, prefetch.Request{
				From: tensorReader{ld.ts.src, g.tensor}, Off: g.off, Dst: dst[:g.size], Progress: ld.arrived,
			}))
			dst = dst[g.size:]
		}
	}
	for _, t := range tickets {
		if err := t.Wait(ctx); err != nil && failed == nil {
			failed = err
		}
	}
	return failed
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
	ld.arrived(len(raw))
	return nil
}

// tensorReader reads within one tensor.
type tensorReader struct {
	src store.Source
	t   store.Tensor
}

func (r tensorReader) ReadAt(p []byte, off int64) (int, error) { return r.src.ReadAt(r.t, p, off) }
