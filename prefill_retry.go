package llmrun

import (
	"context"
	"slices"

	"github.com/llmrun/llmrun/exec"
)

// maxRePrefills limits how often a generation re-prefills damaged pages. A disk that damages
// everything must not cause an endless loop.
const maxRePrefills = 3

// extend processes ids, the last of g.ids and guesses behind them. If that fails because saved pages are damaged, it
// drops them and re-prefills from there. A damaged cache must not prevent an answer.
func (g *generation) extend(ctx context.Context, ids []int32, r *exec.ExtendOptions) error {
	err := g.session.extend(ctx, ids, r)
	for range maxRePrefills {
		if err == nil || !g.dropDamaged(ctx) {
			break
		}
		r.Branches = nil // they begin behind the tokens that are computed again
		ids = g.ids[g.session.seq.Len():]
		if len(g.inputs) > 1 {
			ids = slices.Concat(ids, g.inputs[1:])
		}
		err = g.session.extend(ctx, ids, r)
	}
	return err
}

// dropDamaged drops the pages of the session that do not match their checksums, and reports
// whether there were any.
func (g *generation) dropDamaged(ctx context.Context) bool {
	s, store := g.session, g.session.engine.store
	if store == nil || ctx.Err() != nil {
		return false
	}
	damage := s.seq.DropDamaged(s.stores)
	if damage == nil {
		return false
	}
	store.report(damage)
	g.savedTokens = min(g.savedTokens, s.seq.Saved())
	if g.firstAt.IsZero() {
		g.stats.ReusedTokens = min(g.stats.ReusedTokens, s.seq.Len())
		g.stats.RestoredTokens = min(g.stats.RestoredTokens, s.seq.Len())
	}
	return true
}
