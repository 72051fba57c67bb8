package llmrun

import (
	"context"

	"github.com/llmrun/llmrun/exec"
)

// rereadTimes is how often a generation reads text again before it believes that
// the disk damages whatever it is given.
const rereadTimes = 3

// read lets the model read ids, with which g.ids ends. If that fails because of what
// was kept on flash, the text is read again from there on: nobody needs a cache as
// badly as an answer.
func (g *generation) read(ctx context.Context, ids []int32, r *exec.Reader) error {
	err := g.session.read(ctx, ids, r)
	for range rereadTimes {
		if err == nil || !g.dropDamaged(ctx) {
			break
		}
		err = g.session.read(ctx, g.ids[g.session.seq.Len():], r)
	}
	return err
}

// dropDamaged reports whether the session used something from flash that is not
// what was written. Then it is forgotten.
func (g *generation) dropDamaged(ctx context.Context) bool {
	s, k := g.session, g.session.engine.keeper
	if k == nil || ctx.Err() != nil {
		return false
	}
	damage := s.seq.DropDamaged(k.stores)
	if damage == nil {
		return false
	}
	k.report(damage)
	g.kept = min(g.kept, s.seq.Saved())
	if g.firstAt.IsZero() {
		g.stats.ReusedTokens = min(g.stats.ReusedTokens, s.seq.Len())
		g.stats.RecalledTokens = min(g.stats.RecalledTokens, s.seq.Len())
	}
	return true
}
