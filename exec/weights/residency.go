package weights

import (
	"context"
	"fmt"
	"slices"

	"github.com/llmrun/llmrun/internal/threadpool"
	"github.com/llmrun/llmrun/prefetch"
	"github.com/llmrun/llmrun/store/pack"
	"github.com/llmrun/llmrun/tiering"
)

// Residency holds the pinned part of the weights in memory and streams the rest. It follows a
// plan, which can be replaced while the model is in use.
type Residency struct {
	w       *Weights
	File    *pack.File // nil: the model is not a pack
	budget  *tiering.Budget
	Threads prefetch.Threads // of the model
	layers  int
	Mapped  bool // some weights are used in the mapped file
	// MapFirst: mapped weights move to anonymous memory after the first pass. Promoting:
	// that is not finished. Used: a pass has used the weights.
	MapFirst, Promoting, Used bool
	Plan                      *tiering.Plan // the current plan
	check                     mappingCheck
	damaged                   error // promoted weights do not match their checksums

	Sections []Layout     // the layers in order, then the ends
	MaxUnit  int          // bytes of the largest unit that a matrix can be cut into
	Experts  *ExpertCache // nil: the model has none
	ring     *tiering.Frame
	Stream   *prefetch.Stream // nil until something is streamed
	NoRing   bool             // the stream needs a ring, and its allocation failed
	interleaved
}

// Check returns an error if the plan was made for another model.
func (r *Residency) Check(plan *tiering.Plan) error {
	if len(plan.Pinned) != r.layers {
		return fmt.Errorf("weights: the plan is for %d layers, the model has %d", len(plan.Pinned), r.layers)
	}
	for i := range r.w.Layers {
		if len(r.w.Layers[i].Experts) > 0 && plan.ExpertSlots < 1 {
			return fmt.Errorf("%w: the plan has no expert slots", tiering.ErrBudget)
		}
	}
	return nil
}

// BypassCache makes reads of a pack bypass the page cache if a plan streams weights, or if reads
// use mappings, those of the embedding too.
func (r *Residency) BypassCache(plan *tiering.Plan) error {
	if r.File == nil || plan.Resident() && !r.File.ReadsMapped() {
		return nil
	}
	return r.File.BypassCache()
}

// adopt takes over the loaded sections.
func (r *Residency) adopt(loaded []Layout) {
	r.Sections = make([]Layout, r.layers+1)
	r.Sections[r.layers].Kind = EndsLayout // empty if an accelerator has the output matrix
	for _, l := range loaded {
		r.Mapped = r.Mapped || l.Mapped
		if l.SectionSize == 0 || l.Kind == expertLayout {
			continue
		}
		r.Sections[l.Layer] = l
		for i := range l.Places {
			_, unit := l.Places[i].unit()
			r.MaxUnit = max(r.MaxUnit, unit)
		}
	}
}

// Sequence returns the byte ranges to stream; ok is false if there are none.
func (r *Residency) Sequence() (seq prefetch.Sequence, ok bool) {
	for i := range r.Sections {
		l := &r.Sections[i]
		run := prefetch.Run{From: l.section, Off: int64(l.streamFrom), Size: int64(max(0, r.streamEnd(l)-l.streamFrom))}
		ok = ok || run.Size > 0
		if l.Kind == EndsLayout {
			seq.Tail = []prefetch.Run{run}
		} else {
			seq.Body = append(seq.Body, run)
		}
	}
	return seq, ok
}

// streamEnd returns the end of the weights in a section that the CPU multiplies. Behind them are rows
// of an output matrix that another device computes, but which are looked up.
func (r *Residency) streamEnd(l *Layout) int {
	end := l.matrixEnd()
	o := r.w.Head.Offload
	if l.Kind != EndsLayout || !r.w.Tied || o == nil {
		return end
	}
	for i := range l.Places {
		if p := &l.Places[i]; p.Matrix == &r.w.Embed.Matrix {
			rows, unit := p.unit()
			end = min(end, l.blockEnd(p.off+(max(o.Single, o.Batch)+rows-1)/rows*unit))
		}
	}
	return end
}

// matrixEnd returns the end of the last matrix in the section, rounded up to a block of the
// pack. The vectors that follow it are always in memory.
func (l *Layout) matrixEnd() int {
	end := 0
	for i := range l.Places {
		end = max(end, l.Places[i].off+l.Places[i].Bytes())
	}
	return l.blockEnd(end)
}

// blockEnd rounds an offset in the section up to a block of the pack.
func (l *Layout) blockEnd(off int) int {
	return min((off+pack.BlockBytes-1)/pack.BlockBytes*pack.BlockBytes, l.SectionSize)
}

// Start allocates the ring of a plan and begins to stream.
func (r *Residency) Start(plan *tiering.Plan) error {
	r.Plan = plan
	seq, ok := r.Sequence()
	r.NoRing = ok // until the ring is allocated
	if !ok {
		return nil
	}
	piece, size := int(plan.Piece), int(plan.Ring)
	if size == 0 { // the plan pins everything, but not everything is read yet
		piece = tiering.DefaultPiece
		size = 4*piece + r.MaxUnit
	}
	slots := size / max(1, piece)
	if piece <= 0 || (slots-1)*piece < r.MaxUnit {
		return fmt.Errorf("weights: a ring of %d bytes in pieces of %d bytes is too small for units of %d bytes", plan.Ring, piece, r.MaxUnit)
	}
	frame, err := tiering.AllocForReads(r.budget, tiering.Ring, slots*piece+max(r.MaxUnit, r.MaxPage))
	if err != nil {
		return err
	}
	r.ring, r.NoRing = frame, false
	ring := prefetch.Ring{Memory: frame.Bytes(), Piece: piece, Slots: slots}
	r.reset(ring)
	if r.Stream == nil {
		r.Stream = prefetch.NewStream(r.Threads, ring, seq)
	} else {
		r.Stream.Reconfigure(ring, seq)
	}
	return nil
}

// Restart is Start with the first of some plans whose ring the budget holds, and otherwise with the smallest ring.
// The error is that of the first plan, also if another one started.
func (r *Residency) Restart(plans ...*tiering.Plan) error {
	first := r.Start(plans[0])
	for _, plan := range plans[1:] {
		if !r.NoRing {
			return first
		}
		_ = r.Start(plan)
	}
	if r.NoRing {
		_ = r.Start(r.smallestRing(plans[0]))
		r.Plan = plans[0]
	}
	return first
}

// smallestPiece is the size of a read through the smallest ring.
const smallestPiece = 4 * pack.BlockBytes

// smallestRing returns a plan with the smallest ring that the weights can pass through.
func (r *Residency) smallestRing(plan *tiering.Plan) *tiering.Plan {
	small := *plan
	small.Piece = smallestPiece
	slots := max(2, 1+(int64(r.MaxUnit)+small.Piece-1)/small.Piece)
	small.Ring = slots * small.Piece
	return &small
}

// Stop stops all reads and frees the ring.
func (r *Residency) Stop() {
	if r.Experts != nil {
		r.Experts.stopReads()
	}
	if r.Stream != nil {
		r.Stream.Reconfigure(prefetch.Ring{}, prefetch.Sequence{})
	}
	r.reset(prefetch.Ring{})
	if r.ring != nil {
		r.ring.Free()
		r.ring = nil
	}
}

// Close stops the stream and frees the ring.
func (r *Residency) Close() {
	if r.Stream != nil {
		r.Stream.Close()
	}
	if r.ring != nil {
		r.ring.Free()
	}
}

// Shrink frees pinned weights and expert slots that a plan does not include.
func (r *Residency) Shrink(plan *tiering.Plan) error {
	if r.Experts != nil && plan.ExpertSlots < r.Experts.Slots() {
		if err := r.Experts.Resize(plan.ExpertSlots); err != nil {
			return err
		}
	}
	for i := range r.Sections {
		l := &r.Sections[i]
		if pinned := r.pinned(plan, l); pinned < int64(l.streamFrom) {
			if err := r.resizeSection(l, pinned); err != nil {
				return err
			}
		}
	}
	return nil
}

// pinned returns how many bytes of a section a plan pins.
func (r *Residency) pinned(plan *tiering.Plan, l *Layout) int64 {
	if l.Kind == EndsLayout {
		return plan.HeadPinned
	}
	return plan.Pinned[l.Layer]
}

// resizeSection changes how many bytes of a section are in memory. Added bytes are not read
// yet.
func (r *Residency) resizeSection(l *Layout, pinned int64) error {
	l.pinPrefix(pinned)
	if err := l.Frame.Resize(l.Size); err != nil {
		return err
	}
	return r.attach(l)
}

// growSection reads the bytes of a section that a plan pins in addition. It verifies them
// in place if the section is mapped.
func (r *Residency) growSection(ctx context.Context, l *Layout, pinned int64) error {
	before := l.streamFrom
	if l.pinnedBytes(pinned) <= before {
		return nil
	}
	if err := r.resizeSection(l, pinned); err != nil {
		_ = r.resizeSection(l, int64(before)) // restore; shrinking never fails
		return err
	}
	var err error
	if l.Mapped {
		err = r.verifyMapping(ctx, l, before)
	} else {
		queue := prefetch.New(loadReaders)
		queue.Scheduler = r.Threads.Scheduler
		defer queue.Close()
		err = queue.Submit(ctx, prefetch.Request{
			From: l.section, Off: int64(before), Dst: l.Frame.Bytes()[before:], Piece: sectionPiece,
		}).Wait(ctx)
	}
	if err != nil {
		if back := r.resizeSection(l, int64(before)); back != nil {
			return back
		}
	}
	return err
}

// GrowPartly reads about GrowBytes of the weights that a plan pins in addition. It also
// reads a smaller remainder.
func (r *Residency) GrowPartly(ctx context.Context, plan *tiering.Plan) error {
	left := r.BytesToGrow(plan)
	for i, began := 0, left; i < len(r.Sections) && (began-left < GrowBytes || left < GrowBytes); i++ {
		l := &r.Sections[i]
		if err := r.growSection(ctx, l, r.pinned(plan, l)); err != nil {
			return err
		}
		left = r.BytesToGrow(plan)
	}
	return nil
}

// BytesToGrow returns how many pinned bytes of a plan are not in memory yet.
func (r *Residency) BytesToGrow(plan *tiering.Plan) (n int64) {
	for i := range r.Sections {
		l := &r.Sections[i]
		n += max(0, int64(l.pinnedBytes(r.pinned(plan, l))-l.streamFrom))
	}
	return n
}

// GrowBytes is roughly how many bytes one call of GrowPartly reads. Passes may run between
// calls, with a ring in the memory that is not filled yet.
const GrowBytes = 16 << 20

// canMapFirst reports whether the first pass can use the weights in the mapped file: the plan
// pins all of them, they are in the page cache, and the budget has memory for the promotion.
func (ld *Loader) canMapFirst(layouts []Layout, plan *tiering.Plan) bool {
	if ld.Residency == nil || !plan.Resident() {
		return false
	}
	if limit := ld.Budget.Limit(); limit != 0 && limit-plan.Total() < tiering.PromoteNeeds() {
		return false
	}
	return !slices.ContainsFunc(layouts, func(l Layout) bool {
		return l.section != nil && l.Kind != expertLayout && !(l.stored() && ld.Residency.File.SectionCached(l.index))
	})
}

// Promote copies a mapped section to anonymous memory and closes the mapping.
func (r *Residency) Promote(l *Layout, workers *threadpool.Pool) (err error) {
	defer func() {
		if fault := r.FaultOf(recover()); fault != nil {
			err = fault
		}
	}()
	err = r.moveMapped(l, func(dst, src []byte) {
		workers.Run((len(src)+promotePiece-1)/promotePiece, func(part, _ int) {
			lo := part * promotePiece
			hi := min(lo+promotePiece, len(src))
			copy(dst[lo:hi], src[lo:hi])
		})
	})
	if err == nil {
		err = r.checkPromoted(l)
	}
	return err
}

// moveMapped replaces a mapped section by anonymous memory that copyStep fills, and closes the
// mapping.
func (r *Residency) moveMapped(l *Layout, copyStep func(dst, src []byte)) error {
	old := l.Frame
	frame, err := tiering.Promote(old, tiering.Pinned, l.SectionSize, copyStep)
	if err != nil {
		return err
	}
	l.Frame, l.Mapped, l.mapping = frame, false, nil
	err = r.attach(l)
	old.Free()
	return err
}

// checkPromoted verifies a promoted section if the file may have changed while it was mapped.
// After an error ScanMapped fails.
func (r *Residency) checkPromoted(l *Layout) error {
	if stamp, ok, err := r.File.Stamp(); err != nil || !ok || stamp == r.check.stamp {
		return err
	}
	if l.Size < l.SectionSize { // its last block is not whole; a read verifies the file's
		_, r.damaged = l.section.ReadAt(l.Frame.Bytes()[:l.Size], 0)
		return r.damaged
	}
	r.damaged = r.File.CheckSection(l.index, l.Frame.Bytes()[:l.SectionSize], 0, int64(l.SectionSize))
	return r.damaged
}

// attach points the weights into the current frame of their section.
func (r *Residency) attach(l *Layout) error {
	if err := l.attach(l.Frame.Bytes()); err != nil {
		return err
	}
	if r.w.Tied && l.Kind == EndsLayout {
		r.w.Head.Matrix = r.w.Embed.Matrix
	}
	return nil
}

// promotePiece is how many bytes one thread copies at a time.
const promotePiece = 2 << 20
