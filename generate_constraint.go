package llmrun

import (
	"sync"

	"github.com/llmrun/llmrun/text/constrain"
)

// constraint holds an answer to a language. The text that the user reads is held to it: what the model thinks before is free.
type constraint struct {
	matcher *keptMatcher
	cursor  *constrain.Cursor
	calls   bool           // it is a call of a tool, which the prompt has begun
	ahead   sync.WaitGroup // computes a mask while a pass runs; nothing else makes masks meanwhile
	forced  []int32        // certain tokens of the running pass
}

// constrain begins to hold the answer to what the options say. The prompt is known.
func (g *generation) constrain() error {
	s, err := g.options.constraint()
	if how := g.options.reading; err == nil && how != nil && how.required { // the answer is a call, to which its other constraint does not apply
		s = source{}
		if how.calls != nil {
			s = source{kind: "calls", calls: how.calls}
		}
	}
	if how := g.options.reading; err == nil && s.kind == "" && how != nil && how.decided != nil {
		return g.holdDecided(how)
	}
	if err != nil || s.kind == "" {
		return err
	}
	if g.held, err = g.session.engine.constrain(&s); err != nil {
		return err
	}
	g.stats.ShortestTokens = g.held.cursor.Needs()
	return nil
}

// constrain begins to hold something to a source.
func (e *Engine) constrain(s *source) (*constraint, error) {
	k, err := e.matcher(s)
	if err != nil {
		return nil, err
	}
	return &constraint{matcher: k, cursor: k.Begin(), calls: s.calls != nil}, nil
}

// endConstraint frees what holds the answer.
func (g *generation) endConstraint() {
	h := g.held
	if d := g.decided; d != nil {
		d.watch.Close()
		h, g.decided = d.arguments, nil
	}
	if h != nil {
		h.ahead.Wait()
		h.cursor.Close()
		g.session.engine.constraints.done(h.matcher)
		g.held = nil
	}
}

// holdsNext reports whether the next token is held to the language.
func (g *generation) holdsNext() bool {
	if g.held == nil || g.calling.waits() {
		return false
	}
	return g.held.calls || g.channel.Shows() && g.channel.Answers() && !g.reader.thinks() // of a call, the name may be held too, in a header
}

// passed moves the constraint behind a token, and reports whether the answer is complete: nothing may follow, or the last token
// that it may have ends it where it may end. held tells whether the token was held to the language.
func (g *generation) passed(id int32, held bool) (complete bool, err error) {
	if g.decided != nil {
		return g.passedDecided(id, held)
	}
	if !held {
		return false, nil
	}
	if err := g.held.cursor.Accept(id); err != nil {
		return false, constraintError(err)
	}
	if g.tokensLeft() == 1 && g.held.cursor.Accepts() {
		return true, nil
	}
	complete, err = g.held.cursor.Done()
	return complete, constraintError(err)
}

// tokensLeft returns how many tokens may follow those that the running pass has given; 0 is no limit.
func (g *generation) tokensLeft() int {
	left, given := 0, len(g.got)
	if most := g.options.MaxTokens; most > 0 {
		left = most - g.stats.GeneratedTokens - given
	}
	if g.options.Overflow != OverflowSlide || g.limit < g.session.seq.Limit() {
		if room := g.limit + 1 - len(g.ids) - given; left == 0 || room < left {
			left = room
		}
	}
	return max(left, 0)
}

// allow makes the sampler choose among the tokens that may follow. certain is the only one, or -1. done tells that the answer
// is complete.
func (g *generation) allow() (certain int32, done bool, err error) {
	if !g.holdsNext() {
		g.sampler.Allow(nil)
		return noToken, false, nil
	}
	g.held.ahead.Wait() // it computes in the memory of the mask, if it begins late behind other tokens
	mask, err := g.held.cursor.Mask(g.tokensLeft())
	if err != nil {
		return noToken, false, constraintError(err)
	}
	g.sampler.Allow(mask.Bits)
	return mask.Only, mask.Done, nil
}

// certain returns tokens that must follow the last one, for the next pass.
func (g *generation) certain() ([]int32, error) {
	must := g.mustFollow()
	if len(must) == 0 && !g.holdsNext() {
		return nil, nil
	}
	room := g.session.seq.DraftRoom(draftMax)
	if left := g.tokensLeft(); left > 0 {
		room = min(room, left-1)
	}
	h := g.held
	if room <= 0 {
		return nil, nil
	}
	if len(must) > 0 {
		return must[:min(len(must), room)], nil
	}
	var err error
	h.forced, err = h.cursor.Forced(h.forced[:0], room, g.tokensLeft())
	return h.forced, constraintError(err)
}

// lookAhead computes the mask behind the last token while the pass runs that it belongs to.
func (g *generation) lookAhead() {
	h := g.held
	left := g.tokensLeft()
	if h == nil || !g.holdsNext() || h.cursor.Prepared(left) {
		return
	}
	h.ahead.Add(1)
	go func() {
		defer h.ahead.Done()
		h.cursor.Prepare(left)
	}()
}

// chooseAmong makes the sampler choose a drafter's token among those that may follow.
func (g *generation) chooseAmong() error {
	_, done, err := g.allow()
	if done {
		g.sampler.Allow(nil) // the guess is wrong, whatever it is
	}
	return err
}

// branch begins a draft, behind which the language is followed from the same place.
func (h *constraint) branch() {
	if h != nil {
		h.cursor.Branch()
	}
}

// leave ends a draft.
func (h *constraint) leave() {
	if h != nil {
		h.cursor.Return()
	}
}

// guessed moves behind a guess. One that is not in the language is wrong, and so are those behind it.
func (h *constraint) guessed(id int32) {
	if h != nil {
		_ = h.cursor.Accept(id)
	}
}
