package weights

import (
	"context"

	"github.com/llmrun/llmrun/tiering"
)

// GrowPartly reads about a step of what a plan keeps more. A rest that would be
// smaller than a step is read as well.
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

// BytesToGrow returns how many bytes a plan keeps that are not in memory yet.
func (r *Residency) BytesToGrow(plan *tiering.Plan) (n int64) {
	for i := range r.Sections {
		l := &r.Sections[i]
		n += max(0, int64(l.pinnedBytes(r.pinned(plan, l))-l.streamFrom))
	}
	return n
}

// GrowBytes is about how much is read at once when more is kept in memory. In
// between passes may run, through a ring for which what is not read yet leaves
// room.
const GrowBytes = 16 << 20
