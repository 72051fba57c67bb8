package weights

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/modelfile"
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

// AlignedSize returns what so many bytes take in a frame.
func AlignedSize(n int) int { return (n + loadAlign - 1) &^ (loadAlign - 1) }

// Loader lays weights out in frames, a layer's bytes together, and reads them.
// A layer is first planned, which checks every tensor against the Spec, and
// only then read, so that a malformed file costs no memory.
type Loader struct {
	Tensors       *modelfile.TensorSet
	Spec          *arch.Spec
	Budget        *tiering.Budget
	pinFile       bool // see Options
	Exact         bool // keep rows as they are, for products in float32
	Frames        []*tiering.Frame
	plan          []Placement    // of the layer that is being planned
	experts       []Layout       // of the same layer
	Orders        []*columnOrder // of the columns of all matrices that have one
	Residency     *Residency     // of a pack of which a plan says what is kept; else nil
	CachedExperts []Layout       // experts that the plan's memory for experts takes in turn

	Progress    func(done, total int64)
	mu          sync.Mutex // guards done, which readers count up
	Done, Total int64
}

// Layout is what goes into one frame, and what a pack keeps as one section.
type Layout struct {
	Name   string // "embedding", "ends", "blk.N" or "blk.N.expert.E"
	Kind   layoutKind
	Layer  int // of a layer or expert; the ends come behind the last layer
	Places []Placement
	// section is set where a pack holds all of this as it is.
	section io.ReaderAt
	// sectionSize is the length of the section, of which size bytes from its start
	// are kept.
	SectionSize int
	Size        int // of the frame
	Frame       *tiering.Frame
	// streamFrom is where the part of the section begins that is streamed.
	streamFrom int
	// A mapped section is used where it lies in the file: index is its number in
	// the pack, and whole all of its bytes.
	Mapped  bool
	index   int
	mapping []byte
}

// layoutKind says which part of a model a layout holds.
type layoutKind int

// The parts of a model that are loaded separately.
const (
	LayerLayout     layoutKind = iota
	EmbeddingLayout            // rows that are only looked up
	EndsLayout                 // final norm and output matrix
	expertLayout               // one expert of a layer
)

// Placement is one tensor's place in a frame.
type Placement struct {
	name   string // as GGUF files name it, with fused tensors cut
	Slice  modelfile.TensorSlice
	off    int
	tile   bool         // rows are put in tiles
	Matrix *Matrix      // where to put it, or
	rest   streamedRows // of the matrix, where the rows are that are not kept
	Vector *[]float32   // where to put its elements as float32
}

// LoadOptions are what of the model's Options loading depends on, see there.
type LoadOptions struct {
	Budget            *tiering.Budget
	Plan              *tiering.Plan
	PinFile, MapFirst bool
	Exact             bool
	Progress          func(done, total int64)
}

// LoadWeights reads all weights of a model. progress, which may be nil, is
// called with the bytes read so far.
func LoadWeights(ctx context.Context, ts *modelfile.TensorSet, spec *arch.Spec, o LoadOptions) (*Weights, *Loader, error) {
	ld := &Loader{Tensors: ts, Spec: spec, Budget: o.Budget, Exact: o.Exact, pinFile: o.PinFile, Progress: o.Progress}
	w := &Weights{Layers: make([]LayerWeights, len(spec.Layers))}
	plans, err := ld.PlanAll(w)
	if err != nil {
		return nil, nil, err
	}
	for i := range plans {
		ld.findSection(&plans[i])
	}
	if o.Plan != nil {
		if plans, err = ld.applyPlan(w, plans, o.Plan); err != nil {
			return nil, nil, err
		}
	}
	if o.MapFirst && ld.canMapFirst(plans, o.Plan) {
		ld.pinFile, ld.Residency.MapFirst, ld.Residency.Promoting = true, true, true
	}
	ld.Total += ReadBytes(plans)
	queue := prefetch.New(loadReaders)
	err = ld.readAll(ctx, queue, plans)
	queue.Close() // nothing is written to frames from here on
	if err != nil {
		ld.Free()
		return nil, nil, err
	}
	if err := ld.applyOrders(); err != nil {
		ld.Free()
		return nil, nil, err
	}
	if !w.Head.Present() {
		w.Head.Matrix, w.Tied = w.Embed.Matrix, true
	}
	if ld.Residency != nil {
		ld.Residency.adopt(plans)
	}
	tiering.JoinPages(ld.Frames)
	return w, ld, nil
}

// PlanAll checks every tensor and returns what goes into each frame: one or two
// for the ends of the network and one for each layer.
func (ld *Loader) PlanAll(w *Weights) (plans []Layout, err error) {
	ends, err := ld.planEnds(w)
	if err != nil {
		return nil, err
	}
	layers, err := ld.planLayers(w)
	return append(ends, layers...), err
}

// planLayers is planAll without the ends.
func (ld *Loader) planLayers(w *Weights) (plans []Layout, err error) {
	for l := range w.Layers {
		ld.plan = nil
		if err := ld.planLayer(l, &w.Layers[l]); err != nil {
			return nil, err
		}
		plans = append(plans, Layout{Name: fmt.Sprintf("blk.%d", l), Layer: l, Places: ld.plan})
		plans = append(plans, ld.experts...)
		ld.experts = nil
	}
	return plans, nil
}

// AddRead counts bytes that were read; readers call it at the same time.
func (ld *Loader) AddRead(n int) {
	ld.mu.Lock()
	defer ld.mu.Unlock()
	ld.Done += int64(n)
	if ld.Progress != nil {
		ld.Progress(ld.Done, ld.Total)
	}
}

// Free releases all frames.
func (ld *Loader) Free() {
	for _, f := range ld.Frames {
		f.Free()
	}
	ld.Frames = nil
}

// readAll fills a frame for each plan. Sections of packs are all asked for at
// once, so that the disk never waits, and then taken in turn.
func (ld *Loader) readAll(ctx context.Context, queue *prefetch.Queue, plans []Layout) error {
	tickets := make([]*prefetch.Ticket, len(plans))
	for i := range plans {
		plan := &plans[i]
		if plan.section == nil {
			plan.assignOffsets()
		}
		frame, err := ld.frameFor(plan)
		if err != nil {
			return fmt.Errorf("loading %s: %w", ld.Tensors.Path, err)
		}
		plan.Frame = frame
		ld.Frames = append(ld.Frames, frame)
		if plan.Mapped {
			if err := ld.useMapping(ctx, plan); err != nil {
				return err
			}
			continue
		}
		if plan.section != nil {
			tickets[i] = ld.submitSection(ctx, queue, plan, frame.Bytes())
		} else if err := ld.readPlacements(ctx, queue, plan.Places, frame.Bytes()); err != nil {
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
		if err := plans[i].attach(ld.Frames[i].Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// assignOffsets lays the placements out in a frame of their own.
func (l *Layout) assignOffsets() {
	l.Size = 0
	for i := range l.Places {
		p := &l.Places[i]
		p.off = l.Size
		l.Size += AlignedSize(p.Bytes())
	}
}

// readBytes returns how much is read to fill the frame.
func (l *Layout) readBytes() (n int64) {
	if l.section != nil {
		return int64(l.Size)
	}
	for i := range l.Places {
		n += l.Places[i].Slice.Bytes()
	}
	return n
}

// ReadBytes returns how much is read to fill the frames of layouts.
func ReadBytes(plans []Layout) (n int64) {
	for i := range plans {
		n += plans[i].readBytes()
	}
	return n
}

// Bytes returns the size of the placement in its frame.
func (p *Placement) Bytes() int {
	switch {
	case p.Vector != nil:
		return 4 * p.Slice.Cols * p.Slice.Rows
	case p.tile:
		rows := (p.Slice.Rows + tiled.TileRows - 1) / tiled.TileRows * tiled.TileRows
		return rows * int(p.Slice.Bytes()) / p.Slice.Rows
	}
	return int(p.Slice.Bytes())
}

// matrixOver returns the placement's matrix, whose first rows, or all, are in
// memory.
func (p *Placement) matrixOver(data []byte) Matrix {
	m := Matrix{Type: p.Slice.Type, Rows: p.Slice.Rows, Cols: p.Slice.Cols, Data: data, Tiled: p.tile, Order: p.Matrix.Order}
	rows, bytes := m.Unit()
	m.Streamed.Count = m.Rows - min(m.Rows, len(data)/bytes*rows)
	return m
}

func (ld *Loader) readPlacements(ctx context.Context, queue *prefetch.Queue, plan []Placement, mem []byte) error {
	var tickets []*prefetch.Ticket
	var failed error
	for i := range plan {
		p := &plan[i]
		if p.Vector != nil {
			if err := ld.readVector(p, mem[p.off:]); err != nil && failed == nil {
				failed = err
			}
			continue
		}
		dst := mem[p.off : p.off+p.Bytes()]
		*p.Matrix = p.matrixOver(dst)
		if p.tile {
			if err := ld.readTiled(ctx, &p.Slice, dst); err != nil && failed == nil {
				failed = err
			}
			continue
		}
		for _, g := range p.Slice.Ranges {
			tickets = append(tickets, queue.Submit(ctx, prefetch.Request{
				From: tensorReader{ld.Tensors.Source, g.Tensor}, Off: g.Offset, Dst: dst[:g.Size], Progress: ld.AddRead,
			}))
			dst = dst[g.Size:]
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
func (ld *Loader) readVector(p *Placement, mem []byte) error {
	out, err := tiering.View[float32](mem, p.Slice.Rows*p.Slice.Cols)
	if err != nil {
		return err
	}
	*p.Vector = out
	raw := make([]byte, p.Slice.Bytes())
	dst := raw
	for _, g := range p.Slice.Ranges {
		if _, err := ld.Tensors.Source.ReadAt(g.Tensor, dst[:g.Size], g.Offset); err != nil {
			return err
		}
		dst = dst[g.Size:]
	}
	quant.DequantRow(p.Slice.Type, out, raw)
	ld.AddRead(len(raw))
	return nil
}

// tensorReader reads within one tensor.
type tensorReader struct {
	src store.Source
	t   store.Tensor
}

func (r tensorReader) ReadAt(p []byte, off int64) (int, error) { return r.src.ReadAt(r.t, p, off) }
