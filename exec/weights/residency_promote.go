package weights

import (
	"slices"

	"github.com/llmrun/llmrun/internal/threadpool"
	"github.com/llmrun/llmrun/tiering"
)

// canMapFirst decides whether weights are used where they lie in the file until the
// first pass is over: if all of them stay in memory, the system has them in its
// page cache, and the budget leaves room for what moving them takes.
func (ld *Loader) canMapFirst(plans []Layout, plan *tiering.Plan) bool {
	if ld.Residency == nil || !plan.Resident() {
		return false
	}
	if limit := ld.Budget.Limit(); limit != 0 && limit-plan.Total() < tiering.PromoteNeeds() {
		return false
	}
	return !slices.ContainsFunc(plans, func(l Layout) bool {
		return l.section != nil && l.Kind != expertLayout && !ld.Residency.File.SectionCached(l.index)
	})
}

// Promote moves a section.
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

// attach points the weights to where their section is now.
func (r *Residency) attach(l *Layout) error {
	if err := l.attach(l.Frame.Bytes()); err != nil {
		return err
	}
	if r.w.Tied && l.Kind == EndsLayout {
		r.w.Head.Matrix = r.w.Embed.Matrix
	}
	return nil
}

// promotePiece is how much of them one thread copies at a time.
const promotePiece = 2 << 20
