package llmrun

import (
	"context"

	"github.com/llmrun/llmrun/exec"
)

// maxRePrefills is how often a generation reads text again before it believes that
// the disk damages whatever it is given.
const maxRePrefills = 3

// extend lets the model read ids, with which g.ids ends. If that fails because of what
// was kept on flash, the text is read again from there on: nobody needs a cache as
// badly as an answer.
func (g *generation) extend(ctx context.Context, ids []int32, r *exec.ExtendOptions) error {
	err := g.session.extend(ctx, ids, r)
	for range maxRePrefills {
		if err == nil || !g.dropDamaged(ctx) {
			break
		}
		err = g.session.extend(ctx, g.ids[g.session.seq.Len():], r)
	}
	return err
}

// dropDamaged reports whether the session used something from flash that is not
// what was written. Then it is forgotten.
func (g *generation) dropDamaged(ctx context.Context) bool {
	s, k := g.session, g.session.engine.store
	if k == nil || ctx.Err() != nil {
		return false
	}
	damage := s.seq.DropDamaged(k.stores)
	if damage == nil {
		return false
	}
	k.report(damage)
	g.savedTokens = min(g.savedTokens, s.seq.Saved())
	if g.firstAt.IsZero() {
		g.stats.ReusedTokens = min(g.stats.ReusedTokens, s.seq.Len())
		g.stats.RestoredTokens = min(g.stats.RestoredTokens, s.seq.Len())
	}
	return true
}
