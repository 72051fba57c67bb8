package llmrun

import (
	"cmp"
	"errors"
	"slices"
)

// turn is a turn of a conversation: the messages with the prompt, and what becomes of them.
type turn struct {
	messages []Message // of the prompt; the last one has no answer yet
	before   []Message // of the session, if kept
	kept     bool      // the session has the messages since its prefill started
}

// keepPrompt makes the prompt part of the session if GenerateOptions.KeepPrompt is set. ids are the sequence with it,
// of which fresh tokens are to be computed: if they are many, a session with a name is saved, so that it survives
// if the process is killed.
func (g *generation) keepPrompt(ids []int32, fresh int) {
	if !g.options.KeepPrompt {
		return
	}
	s := g.session
	s.mu.Lock()
	s.ids = slices.Clip(ids)
	if t := g.turn; t != nil {
		t.before, t.kept = s.messages, true
		s.messages = slices.Clone(t.messages)
		last := &s.messages[len(s.messages)-1]
		last.Content = cmp.Or(g.options.KeepText, last.Content)
	}
	s.mu.Unlock()
	if store := s.engine.store; s.lock != nil && fresh >= minNewTokens {
		s.saves.failed = errors.Join(s.saves.failed, s.saveNow(store))
	}
}

// end makes the answer part of the conversation, if it has a token. computed tells whether the prompt was: what is
// kept of one that was not stays without an answer.
func (t *turn) end(s *Session, answer Message, tokens int, computed bool) {
	if t == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case tokens > 0:
		s.messages = append(t.messages, answer)
	case t.kept && computed:
		s.messages = t.before
	}
}
