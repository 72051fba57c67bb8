package llmrun

import (
	"context"
)

// Fork returns a session with the same tokens and messages, which goes on independently: several answers
// to one prompt, or several questions about one document. Nothing is computed again, and both sessions
// share the memory of their keys and values; each needs memory only for tokens behind the fork. Sessions
// that generate at the same time share passes over the weights. The fork is not saved; Save gives it a
// name of its own.
//
// Fork returns ErrBusy during a generation, ErrClosed if the session or the engine is closed, and an
// ErrBudget if there is no memory for what sessions do not share: recurrent state,
// summaries for MemoryOptions.KVSelect, and keys and values on a GPU.
func (s *Session) Fork() (*Session, error) {
	if _, err := s.begin(context.Background()); err != nil {
		return nil, err
	}
	defer s.end()
	return s.fork()
}

// fork is Fork for the goroutine that has claimed the session.
func (s *Session) fork() (*Session, error) {
	e := s.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, ErrClosed
	}
	seq, err := s.seq.Fork()
	if err != nil {
		return nil, err
	}
	f := &Session{engine: e, seq: seq, stores: s.stores, ids: s.tokens(), messages: s.Messages(), adapters: s.adapters}
	e.sessions[f] = struct{}{}
	return f, nil
}
