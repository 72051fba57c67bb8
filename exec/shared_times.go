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
		all.Tokens += float64(p.tokens)
		all.Gives += float64(p.gave)
		answers = answers && p.options.Accepted != nil
	}
	if q.pretend != nil {
		took = q.pretend(int(all.Tokens))
	}
	if answers || q.times.Measured() {
		q.times.Took(int(all.Tokens), took, stalled)
	}
	for _, p := range q.chosen {
		p.others.Join(p.together != ran, draft.Others{Tokens: all.Tokens - float64(p.tokens), Gives: all.Gives - float64(p.gave)})
		p.together = ran
	}
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
