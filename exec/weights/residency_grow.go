package weights

import (
	"context"

	"github.com/llmrun/llmrun/tiering"
)

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
