package llmrun

import (
	"errors"
	"fmt"
	"sort"

	"github.com/llmrun/llmrun/tiering"
)

// answerStep is for how many more tokens keys and values get memory when an answer has used up the room on
// flash.
const answerStep = 512

// shortAnswer is the length of an answer for which there must be room before it begins.
const shortAnswer = 256

// limitAnswer decides before the prefill where the answer must end, at the latest: at the session's
// limit, or where what may be written to flash and the memory that weights can leave for keys and values
// are used up. An answer of at most shortAnswer tokens is refused if there is no room for all of it.
func (g *generation) limitAnswer() error {
	e, s, most := g.session.engine, g.session.seq, g.options.MaxTokens
	g.limit = s.Limit()
	if e.flashRoom == nil {
		return nil
	}
	prompt, longest, least := len(g.ids), g.limit, shortAnswer
	if most > 0 {
		longest, least = min(longest, prompt+most-1), min(least, most) // the last token is not processed
	}
	least = min(prompt+least-1, longest)
	if g.holds(longest) == nil {
		return nil
	}
	if err := g.holds(least); err != nil {
		return err
	}
	g.limit = least + sort.Search(longest-least, func(i int) bool { return g.holds(least+i+1) != nil })
	if e.notify != nil {
		e.notify(fmt.Sprintf("the answer may have up to %d tokens: more keys and values do not fit in memory, and may not be written to flash (--ram, --cache-writes)", g.limit+1-prompt))
	}
	return nil
}

// holds returns the refusal of a sequence of so many tokens, nil if what must be written of it can be, or
// fits in memory that the weights can leave.
func (g *generation) holds(tokens int) error {
	room, written, over := g.exceedsFlash(tokens)
	if !over {
		return nil
	}
	m := &g.session.engine.mem
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.need.Budget <= 0 {
		return nil
	}
	trial := m.need
	trial.KVPrompt = min(tokens, m.current.Context)
	room.limitNeed(&trial, written)
	_, err := makePlan(m.shape, trial, tiering.Rates{})
	if errors.Is(err, ErrBudget) {
		err = room.refuse(fmt.Sprintf("a prompt of %d tokens with an answer of %d", len(g.ids), tokens+1-len(g.ids)), err, written)
	}
	return err
}

// exceedsFlash reports whether a sequence of so many tokens must write more to flash than there is room for.
func (g *generation) exceedsFlash(tokens int) (room flashRoom, written int64, over bool) {
	e := g.session.engine
	if e.flashRoom == nil {
		return room, 0, false
	}
	need, written := g.session.seq.SpillNeed(tokens)
	if need == 0 {
		return room, written, false
	}
	room = e.flashRoom()
	n, limited := room.bytes()
	return room, written, limited && need > n
}

// roomForAnswer is roomOnFlash for the next tokens of an answer. Without memory the next pass says what is
// missing.
func (g *generation) roomForAnswer() {
	if g.roomOnFlash(answerStep) != nil {
		_ = g.roomOnFlash(0)
	}
}

// roomOnFlash makes sure that what must be written to flash for the sequence can be written: if there is
// no room, keys and values get more memory, for more tokens besides. The error is that of PlanMemory for a
// prompt of this length.
func (g *generation) roomOnFlash(more int) error {
	room, written, over := g.exceedsFlash(len(g.ids))
	if !over {
		return nil
	}
	e := g.session.engine
	m := &e.mem
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.need.Budget <= 0 {
		return nil // there is memory
	}
	before := m.need
	m.need.KVPrompt = min(len(g.ids)+more, m.current.Context)
	room.limitNeed(&m.need, written)
	err := e.applyBudget(m.need.Budget)
	if err == nil {
		return nil
	}
	m.need = before
	if errors.Is(err, ErrBudget) {
		err = room.refuse(fmt.Sprintf("a prompt of %d tokens", len(g.ids)), err, written)
	}
	return err
}
