package llmrun

import (
	"maps"
	"slices"
	"sync"

	"github.com/llmrun/llmrun/tiering"
)

// guessing are the sessions that have guessers. Between two answers a guesser holds nothing that the next answer
// cannot make again, so a budget that has no room for them takes their memory.
type guessing struct {
	mu sync.Mutex
	of map[*Session]struct{}
}

// add registers a session, which has a guesser.
func (g *guessing) add(s *Session) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.of == nil {
		g.of = map[*Session]struct{}{}
	}
	g.of[s] = struct{}{}
}

// remove forgets a session.
func (g *guessing) remove(s *Session) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.of, s)
}

// idle calls do for the guesser of each session that runs nothing. do may free it; it must not start an
// operation of the session.
func (g *guessing) idle(do func(s *Session)) {
	g.mu.Lock()
	sessions := slices.Collect(maps.Keys(g.of))
	g.mu.Unlock()
	for _, s := range sessions {
		s.mu.Lock()
		if s.idle() == nil && s.guesser != nil {
			do(s)
		}
		s.mu.Unlock()
	}
}

// heldDrafts returns the memory of guesses that stays at any budget: that of running answers, and of a draft
// model.
func (e *Engine) heldDrafts() int64 {
	held := e.mem.budget.Usage().By[tiering.Drafts]
	e.guessing.idle(func(s *Session) { held -= s.guesser.bytes })
	return max(0, held)
}

// freeDrafts frees guessers of sessions that run nothing until guesses hold at most a number of bytes.
func (e *Engine) freeDrafts(most int64) {
	held := e.mem.budget.Usage().By[tiering.Drafts]
	e.guessing.idle(func(s *Session) {
		if held <= most || s.guesser.bytes == 0 {
			return
		}
		held -= s.guesser.bytes
		s.closeGuesser()
	})
}

// closeGuesser frees the guesser; the next answer makes another one. The caller runs the session's operation,
// or holds s.mu while it has none.
func (s *Session) closeGuesser() {
	s.engine.guessing.remove(s)
	s.guesser.close()
	s.guesser = nil
}
