package weights

import (
	"context"

	"github.com/llmrun/llmrun/tiering"
)

// GrowSome reads about a step of what a plan keeps more. A rest that would be
// smaller than a step is read as well.
func (r *Residency) GrowSome(ctx context.Context, plan *tiering.Plan) error {
	left := r.ToGrow(plan)
	for i, began := 0, left; i < len(r.Sections) && (began-left < GrowStep || left < GrowStep); i++ {
		l := &r.Sections[i]
		if err := r.grow(ctx, l, r.pinned(plan, l)); err != nil {
			return err
		}
		left = r.ToGrow(plan)
	}
	return nil
}

// ToGrow returns how many bytes a plan keeps that are not in memory yet.
func (r *Residency) ToGrow(plan *tiering.Plan) (n int64) {
	for i := range r.Sections {
		l := &r.Sections[i]
		n += max(0, int64(l.keeps(r.pinned(plan, l))-l.from))
	}
	return n
}

// GrowStep is about how much is read at once when more is kept in memory. In
// between passes may run, through a ring for which what is not read yet leaves
// room.
const GrowStep = 16 << 20
