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
		return l.section != nil && l.Kind != expertLayout && !ld.Residency.File.SectionCached(l.index)
	})
}

// Promote copies a mapped section to anonymous memory and closes the mapping.
func (r *Residency) Promote(l *Layout, workers *threadpool.Pool) (err error) {
	defer func() {
		if fault := FaultOf(recover()); fault != nil {
			err = fault
		}
	}()
	old := l.Frame
	frame, err := tiering.Promote(old, tiering.Pinned, l.SectionSize, func(dst, src []byte) {
		workers.Run((len(src)+promotePiece-1)/promotePiece, func(part, _ int) {
			lo := part * promotePiece
			hi := min(lo+promotePiece, len(src))
			copy(dst[lo:hi], src[lo:hi])
		})
	})
	if err != nil {
		return err
	}
	l.Frame, l.Mapped, l.mapping = frame, false, nil
	err = r.attach(l)
	old.Free()
	return err
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
