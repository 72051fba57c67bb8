package weights

import (
	"slices"

	"github.com/llmrun/llmrun/internal/threadpool"
	"github.com/llmrun/llmrun/tiering"
)

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
