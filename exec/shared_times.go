package exec

import (
	"time"

	"github.com/llmrun/llmrun/exec/draft"
	"github.com/llmrun/llmrun/prefetch"
	"github.com/llmrun/llmrun/tiering"
)

// expect forgets what passes took, because the weights of a plan are used from now on; nil: all are resident.
func (q *sharedPasses) expect(plan *tiering.Plan) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.times = draft.PassesOf(plan)
}

// stalled returns how long passes have waited for weights on flash. The caller holds m.mu.
func (m *Model) stalled() time.Duration {
	if s := m.stream(); s != nil {
		return s.Stats(prefetch.Weights).Stalled
	}
	return 0
}

// learn learns from a pass that has ended without an error. The first one that tells anything has no prompt: prompts use
// kernels of their own, and their passes wait for flash less.
func (q *sharedPasses) learn(took, stalled time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var all draft.Others
	answers, ran := true, 0
	for _, p := range q.chosen {
		if p.tokens == 0 {
			continue // there was no memory for it
		}
		ran++
		own := p.part()
		all.Tokens += own.Tokens
		all.Gives += own.Gives
		all.Guesses += own.Guesses
		all.Right += own.Right
		answers = answers && p.options.Accepted != nil
	}
	if q.pretend != nil {
		took = q.pretend(int(all.Tokens))
	}
	if answers || q.times.Measured() {
		q.times.Took(int(all.Tokens), took, stalled)
	}
	for _, p := range q.chosen {
		own := p.part()
		p.others.Join(p.together != ran, draft.Others{
			Tokens: all.Tokens - own.Tokens, Gives: all.Gives - own.Gives, Guesses: all.Guesses - own.Guesses, Right: all.Right - own.Right,
		})
		p.together = ran
	}
}

// part returns what the last pass had of a piece. Of an answer, all tokens but the first are guesses.
func (p *piece) part() draft.Others {
	part := draft.Others{Tokens: float64(p.tokens), Gives: float64(p.gave)}
	if p.options.Accepted != nil && p.tokens > 0 {
		part.Guesses, part.Right = float64(p.tokens-1), float64(max(0, p.gave-1))
	}
	return part
}

// ExpectedPasses returns what the passes of a sequence are expected to take, of which the others are those of its last one.
func ExpectedPasses(s *Sequence) draft.Passes {
	q := &s.model.passes
	q.mu.Lock()
	defer q.mu.Unlock()
	times := q.times
	times.Others = s.piece.others
	return times
}
