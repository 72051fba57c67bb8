package weights

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/prefetch"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store/pack"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// loadReaders is the number of concurrent reads while weights are loaded. Disks of phones
// and servers reach their bandwidth at four.
const loadReaders = 4

// loadAlign is the alignment of every matrix in its frame: a cache line.
const loadAlign = 64

// AlignedSize returns the space that n bytes take in a frame.
func AlignedSize(n int) int { return (n + loadAlign - 1) &^ (loadAlign - 1) }

// Loader reads weights into frames, the bytes of a layer together. It first plans a layer,
// which checks every tensor against the Spec, and reads it afterwards, so that a malformed
// file allocates no memory.
type Loader struct {
	Tensors       *modelfile.TensorSet
	Spec          *arch.Spec
	Budget        *tiering.Budget
	pinFile       bool // see exec.Options.PinFile
	Exact         bool // keep rows untiled, for float32 matmuls
	Frames        []*tiering.Frame
	places        []Placement         // of the layer that is being planned
	experts       []Layout            // of the same layer
	Orders        []*columnOrder      // column orders of all matrices that have one
	Residency     *Residency          // of weights that follow a plan; otherwise nil
	Scheduler     *prefetch.Scheduler // admits the reads; nil admits all
	convert       *convertMemory      // nil: a pack stores all sections
	CachedExperts []Layout            // experts that an ExpertCache reads

	Progress    func(done, total int64)
	mu          sync.Mutex // guards Done, which concurrent readers update
	Done, Total int64
}

// Layout is the content of one frame, and of one section of a pack.
type Layout struct {
	Name   string // "embedding", "per-layer embeddings", "ends", "blk.N" or "blk.N.expert.E"
	Kind   layoutKind
	Layer  int // of a layer or expert; the number of layers for EndsLayout
	Places []Placement
	// section is set if a pack stores exactly this content, or if a conversion makes it.
	section io.ReaderAt
	// SectionSize is the length of the section. Its first Size bytes are in memory.
	SectionSize int
	Size        int // of the frame
	Frame       *tiering.Frame
	// drafts: the matrices are in planes, of which the high ones stay in memory.
	drafts bool
	// streamFrom is the offset in the section where its streamed part begins.
	streamFrom int
	// Mapped: the weights are used in the mapped file. index is the section's number in the
	// pack, and mapping all of its bytes.
	Mapped  bool
	index   int
	mapping *vfs.Mapping
}

// layoutKind is the part of a model that a layout contains.
type layoutKind int

// The parts of a model that are loaded separately.
const (
	LayerLayout     layoutKind = iota
	EmbeddingLayout            // an embedding that is not the output matrix
	EndsLayout                 // final norm and output matrix
	TableLayout                // the layers' own embeddings
	expertLayout               // one expert of a layer
)

// LoadOptions are the options of loading. They mean the same as in exec.Options.
type LoadOptions struct {
	Budget            *tiering.Budget
	Plan              *tiering.Plan
	PinFile, MapFirst bool
	Exact             bool
	// Nested loads the planes of a pack as it stores them; otherwise they are joined as they are read.
	Nested    bool
	Offloaded int // see PlanHost
	// Split is weights with the rows that another device computes, from OffloadRows; nil: none.
	Split     *Weights
	Progress  func(done, total int64)
	Scheduler *prefetch.Scheduler // admits the reads; nil admits all
}

// LoadWeights reads all weights of a model, or as much of them as the plan pins. It calls
// Progress, which may be nil, with the bytes read so far.
func LoadWeights(ctx context.Context, ts *modelfile.TensorSet, spec *arch.Spec, o LoadOptions) (*Weights, *Loader, error) {
	ld := &Loader{Tensors: ts, Spec: spec, Budget: o.Budget, Exact: o.Exact, pinFile: o.PinFile, Progress: o.Progress, Scheduler: o.Scheduler}
	w, layouts, err := ld.PlanHost(o.Offloaded)
	if err != nil {
		return nil, nil, err
	}
	if o.Nested {
		layouts = ld.InPlanes(layouts)
	}
	if o.Split != nil {
		w.shareOffload(o.Split)
		KeepHostRows(w, layouts)
	}
	for i := range layouts {
		ld.findSection(&layouts[i])
	}
	if o.Plan != nil {
		if err := ld.convertSections(layouts); err != nil {
			ld.Free()
			return nil, nil, err
		}
		if layouts, err = ld.applyPlan(w, layouts, o.Plan); err != nil {
			return nil, nil, err
		}
	}
	if o.MapFirst && ld.canMapFirst(layouts, o.Plan) {
		ld.pinFile, ld.Residency.MapFirst, ld.Residency.Promoting = true, true, true
	}
	if err := ld.readWeights(ctx, layouts); err != nil {
		ld.Free()
		return nil, nil, err
	}
	if !w.Head.Present() && o.Offloaded == 0 {
		w.Head.Matrix, w.Tied = w.Embed.Matrix, true
	}
	if ld.Residency != nil {
		ld.Residency.adopt(layouts)
	}
	return w, ld, nil
}

// readWeights reads each layout into a frame and assigns the column orders. The caller
// frees the frames, even after an error.
func (ld *Loader) readWeights(ctx context.Context, layouts []Layout) error {
	ld.Total += ReadBytes(layouts)
	queue := prefetch.New(loadReaders)
	queue.Scheduler = ld.Scheduler
	err := ld.readAll(ctx, queue, layouts)
	queue.Close() // no read writes to a frame after this
	if err != nil {
		return err
	}
	tiering.JoinPages(ld.Frames)
	return ld.applyOrders()
}

// PlanAll checks every tensor and returns the content of each frame: one or two for the
// ends of the network and one for each layer and expert.
func (ld *Loader) PlanAll(w *Weights) (layouts []Layout, err error) {
	ends, err := ld.planEnds(w)
	if err != nil {
		return nil, err
	}
	layers, err := ld.planLayers(w)
	if err == nil && len(w.Layers) == len(ld.Spec.Layers) {
		err = ld.checkUnread(ends, layers)
	}
	return append(ends, layers...), err
}

// checkUnread refuses a model with tensors in its layers, or at the ends of an encoder, that no layout has.
func (ld *Loader) checkUnread(ends, layers []Layout) error {
	names := map[string]struct{}{}
	for _, list := range [][]Layout{ends, layers} {
		for i := range list {
			for j := range list[i].Places {
				for _, r := range list[i].Places[j].Slice.Ranges {
					names[r.Tensor.Name] = struct{}{}
				}
			}
		}
	}
	read := func(name string) bool {
		_, is := names[name]
		return is
	}
	return cmp.Or(ld.Tensors.CheckUnread(ld.Spec, read), ld.Tensors.CheckUnreadEnds(ld.Spec, read))
}

// planLayers is PlanAll without the ends.
func (ld *Loader) planLayers(w *Weights) (layouts []Layout, err error) {
	for l := range w.Layers {
		ld.places = nil
		if err := ld.planLayer(l, &w.Layers[l]); err != nil {
			return nil, err
		}
		layouts = append(layouts, Layout{Name: fmt.Sprintf("blk.%d", l), Layer: l, Places: ld.places})
		layouts = append(layouts, ld.experts...)
		ld.experts = nil
	}
	return layouts, nil
}

// AddRead counts n bytes read. It may be called concurrently.
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

// readAll reads each layout into a frame. It submits all sections of packs at once, so that
// the disk stays busy, and then waits for one after the other.
func (ld *Loader) readAll(ctx context.Context, queue *prefetch.Queue, layouts []Layout) error {
	tickets := make([]*prefetch.Ticket, len(layouts))
	for i := range layouts {
		var err error
		if tickets[i], err = ld.startReading(ctx, queue, &layouts[i]); err != nil {
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
		if err := layouts[i].attach(layouts[i].Frame.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// startReading allocates the frame of a layout. It submits the read of a section and
// returns its ticket, and reads any other content at once.
func (ld *Loader) startReading(ctx context.Context, queue *prefetch.Queue, l *Layout) (*prefetch.Ticket, error) {
	if l.section == nil {
		l.assignOffsets()
	}
	frame, err := ld.frameFor(l)
	if err != nil {
		return nil, fmt.Errorf("loading %s: %w", ld.Tensors.Path, err)
	}
	l.Frame = frame
	ld.Frames = append(ld.Frames, frame)
	switch {
	case l.Mapped:
		return nil, ld.useMapping(ctx, l)
	case l.section != nil:
		return ld.submitSection(ctx, queue, l, frame.Bytes()), nil
	}
	return nil, ld.readPlacements(ctx, queue, l.Places, frame.Bytes())
}

// assignOffsets gives the tensors consecutive places in a frame.
func (l *Layout) assignOffsets() {
	l.Size = 0
	for i := range l.Places {
		p := &l.Places[i]
		p.off = l.Size
		l.Size += AlignedSize(p.Bytes())
	}
}

// readBytes returns the bytes that filling the frame reads.
func (l *Layout) readBytes() (n int64) {
	if l.section != nil {
		return int64(l.Size)
	}
	for i := range l.Places {
		n += l.Places[i].Slice.Bytes()
	}
	return n
}

// ReadBytes returns the bytes that filling the frames of layouts reads.
func ReadBytes(layouts []Layout) (n int64) {
	for i := range layouts {
		n += layouts[i].readBytes()
	}
	return n
}

// readPlacements reads the tensors of a layout that no section stores.
func (ld *Loader) readPlacements(ctx context.Context, queue *prefetch.Queue, places []Placement, mem []byte) error {
	var tickets []*prefetch.Ticket
	var failed error
	for i := range places {
		p := &places[i]
		if p.Vector != nil {
			if err := ld.readVector(p, mem[p.off:]); err != nil && failed == nil {
				failed = err
			}
			continue
		}
		dst := mem[p.off : p.off+p.Bytes()]
		*p.Matrix = p.matrixOver(dst)
		if len(dst) == 0 { // another device has all rows
			continue
		}
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

// readVector reads and decodes the gain of a norm or a bias.
func (ld *Loader) readVector(p *Placement, mem []byte) error {
	out, err := tiering.View[float32](mem, p.Slice.Rows*p.Slice.Cols)
	if err != nil {
		return err
	}
	*p.Vector = out
	raw := make([]byte, p.Slice.Bytes())
	grant, _ := ld.Scheduler.Admit(prefetch.Awaited, ld.storedBytes(p))
	defer ld.Scheduler.Done(grant)
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

// applyPlan changes the layouts so that they follow a plan: the first part of each section
// stays in memory and the rest is streamed. Norms and biases move to a layout of their own,
// which always stays in memory. An embedding that is not the output matrix is not loaded.
func (ld *Loader) applyPlan(w *Weights, layouts []Layout, plan *tiering.Plan) ([]Layout, error) {
	file, _ := ld.Tensors.Source.(*pack.File)
	ld.Residency = &Residency{w: w, File: file, budget: ld.Budget, layers: len(w.Layers)}
	if err := ld.Residency.Check(plan); err != nil {
		return nil, err
	}
	if err := ld.Residency.BypassCache(plan); err != nil {
		return nil, err
	}
	return ld.pinSections(w, layouts, plan), nil
}

// pinSections limits each layout to the part that a plan pins, and returns the layouts to
// load: an ExpertCache loads the experts, and an EmbeddingLookup reads the embedding.
func (ld *Loader) pinSections(w *Weights, layouts []Layout, plan *tiering.Plan) []Layout {
	vectors := Layout{Name: "norms and biases"}
	loaded := layouts[:0]
	for _, l := range layouts {
		switch {
		case l.Kind == expertLayout:
			ld.CachedExperts = append(ld.CachedExperts, l)
			continue
		case l.Kind == EmbeddingLayout:
			w.Embed.leaveOnFlash(&l)
			continue
		case l.Kind == TableLayout:
			w.Table.leaveOnFlash(&l)
			continue
		case l.Kind == EndsLayout:
			w.Embed.noteSection(&l)
			l.moveVectors(&vectors)
			l.pinPrefix(plan.HeadPinned)
		default:
			l.moveVectors(&vectors)
			l.pinPrefix(plan.Pinned[l.Layer])
		}
		loaded = append(loaded, l)
	}
	return append(loaded, vectors)
}

// moveVectors moves the layout's vectors to another layout, which stays in memory when the
// matrices are streamed.
func (l *Layout) moveVectors(vectors *Layout) {
	places := l.Places[:0:0]
	for _, p := range l.Places {
		if p.Vector != nil {
			vectors.Places = append(vectors.Places, p)
		} else {
			places = append(places, p)
		}
	}
	l.Places = places
}

// pinPrefix limits the layout to the first pinned bytes of its section, in whole blocks,
// plus the rest of the unit in which they end. It records the streamed rows of each matrix.
func (l *Layout) pinPrefix(pinned int64) {
	l.streamFrom = l.pinnedBytes(pinned)
	l.Size = l.streamFrom
	for i := range l.Places {
		p := &l.Places[i]
		if p.off+p.Bytes() <= l.streamFrom {
			p.rest = streamedRows{}
			continue
		}
		_, unit := p.unit()
		held := min((max(0, l.streamFrom-p.off)+unit-1)/unit*unit, p.Bytes())
		if held > 0 {
			l.Size = max(l.Size, p.off+held)
		}
		p.rest = streamedRows{Run: l.Layer, Offset: int64(p.off + held - l.streamFrom)}
	}
}

// pinnedBytes rounds the pinned bytes of a section down to whole blocks, unless they cover
// it.
func (l *Layout) pinnedBytes(pinned int64) int {
	if pinned >= int64(l.SectionSize) {
		return l.SectionSize
	}
	return int(pinned / pack.BlockBytes * pack.BlockBytes)
}

// frameFor returns memory for a layout: a mapping of the file if pinFile is set, otherwise
// anonymous memory.
func (ld *Loader) frameFor(l *Layout) (*tiering.Frame, error) {
	if ld.pinFile && ld.Residency != nil && l.stored() && l.Kind != expertLayout {
		if err := ld.Residency.noteStamp(); err != nil {
			return nil, err
		}
		m, err := ld.Residency.File.MapSection(l.index)
		if err != nil {
			return nil, err
		}
		l.Mapped = true
		frame, err := tiering.Adopt(ld.Budget, tiering.Mapped, m.Bytes(), l.Size, func() { _ = m.Close() })
		if err != nil {
			return nil, errors.Join(err, m.Close())
		}
		l.mapping = m
		return frame, nil
	}
	// A later plan may pin more of the section.
	return tiering.AllocRoom(ld.Budget, tiering.Pinned, l.Size, l.SectionSize)
}

// useMapping verifies the block checksums of a mapping and points the weights into it.
func (ld *Loader) useMapping(ctx context.Context, l *Layout) error {
	if err := l.verifyMapping(ctx, mappingReads{ld.Residency.File, ld.Scheduler, ld.AddRead}, 0, l.Size); err != nil {
		return err
	}
	return l.attach(l.Frame.Bytes())
}

// stored reports whether a pack stores the bytes of the section, so that it can be mapped.
func (l *Layout) stored() bool {
	_, converted := l.section.(*conversion)
	return l.section != nil && !converted
}

// columnOrder is a matrix with the order of its columns.
type columnOrder struct {
	matrix *Matrix
	name   string
	order  []float32 // [Cols]
}

// planOrder plans the column order of a matrix that was planned as s, if the file has one.
func (ld *Loader) planOrder(m *Matrix, role string, layer int, s *modelfile.TensorSlice) error {
	name := modelfile.OrderName(s.Ranges[0].Tensor.Name)
	t, ok := ld.Tensors.Source.Tensor(name)
	if !ok {
		return nil
	}
	if modelfile.Elems(t.Shape) != s.Cols {
		return ld.Tensors.ShapeError(t, 1, s.Cols)
	}
	o := &columnOrder{matrix: m, name: name}
	ld.Orders = append(ld.Orders, o)
	ld.places = append(ld.places, Placement{
		name: modelfile.TensorName(role, layer, modelfile.OrderSuffix), Slice: modelfile.TensorSlice{Type: t.Type, Rows: 1, Cols: s.Cols, Ranges: []modelfile.ByteRange{{Tensor: t, Size: t.Size}}}, Vector: &o.order,
	})
	return nil
}

// applyOrders checks the column orders and assigns them to their matrices. Consecutive
// matrices with equal orders share one slice, so that the forward pass quantizes their
// input once.
func (ld *Loader) applyOrders() error {
	for i, o := range ld.Orders {
		if err := modelfile.CheckOrder(o.name, o.order); err != nil {
			return fmt.Errorf("%s: %w", ld.Tensors.Path, err)
		}
		if i > 0 && slices.Equal(ld.Orders[i-1].order, o.order) {
			o.order = ld.Orders[i-1].order
		}
		o.matrix.Order = o.order
	}
	return nil
}
