package llmrun

import (
	"time"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/draft"
	"github.com/llmrun/llmrun/tiering"
)

// PassUse counts passes over the weights. Sessions that generate at the same time share them.
type PassUse struct {
	Passes int64 `json:"passes"`
	Tokens int64 `json:"tokens"` // of all passes: of prompts and answers, and guesses
}

// PassUse returns the passes since the engine was opened, of all sessions.
func (e *Engine) PassUse() PassUse { return PassUse(exec.Passes(e.model)) }

// passTimes is what passes took in the last answer, with a plan.
type passTimes struct {
	draft.Passes
	plan *tiering.Plan
}

// expectedPasses returns what passes took in earlier answers with the current plan, or what they are expected to take.
func (e *Engine) expectedPasses() draft.Passes {
	e.mem.mu.Lock()
	defer e.mem.mu.Unlock()
	if p := &e.mem.passes; p.Measured() && p.plan == e.mem.current {
		return p.Passes
	}
	return draft.NewPasses(passGrowth(e.mem.current), e.mem.current != nil && e.mem.current.StreamedPerToken > 0)
}

// keepPasses keeps what passes took for later sessions.
func (e *Engine) keepPasses(p *draft.Passes) {
	e.mem.mu.Lock()
	defer e.mem.mu.Unlock()
	e.mem.passes = passTimes{*p, e.mem.current}
}

// stalled returns how long passes have waited for weights on flash, for the first pass that is measured: only from that
// one is it learned. The count is read between passes, so later ones would not join those of other sessions in time.
func (g *generation) stalled() time.Duration {
	if d := g.session.guesser; d == nil || d.passes.Measured() {
		return 0
	}
	return g.session.engine.model.StreamStats().Stalled
}
