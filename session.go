package llmrun

import (
	"context"
	"sync"
	"time"

	"github.com/llmrun/llmrun/exec"
)

// Session is one text that grows: a story, a document with questions, or a
// conversation. What the model has read stays in memory, so that going on
// costs only the new tokens. A session does one thing at a time; several
// sessions of an engine may be used at once.
type Session struct {
	engine *Engine
	seq    *exec.Sequence

	mu      sync.Mutex
	running bool
	closed  bool
	cancel  context.CancelFunc // of what is running

	// The fields below belong to whoever set running.
	pending  []int32 // generated, but not yet read back by the model
	messages []Message
	stats    Stats
}

// Stats describes the last generation of a session.
type Stats struct {
	PromptTokens    int           // of the whole prompt
	ReusedTokens    int           // of those, how many the session had read before
	GeneratedTokens int           // the end-of-text token not counted
	Prefill         time.Duration // reading the rest of the prompt
	Decode          time.Duration // generating all tokens but the first
	FirstToken      time.Duration // from the call to the first token
	StopReason      string        // "eos", "stop", "length", "context", "cancelled" or "error"
	Seed            uint64        // of the random numbers
}

// PrefillTokPerS returns how many prompt tokens were read in a second.
func (s Stats) PrefillTokPerS() float64 { return rate(s.PromptTokens-s.ReusedTokens, s.Prefill) }

// DecodeTokPerS returns how many tokens were generated in a second. The first
// one comes out of reading the prompt and does not count.
func (s Stats) DecodeTokPerS() float64 { return rate(s.GeneratedTokens-1, s.Decode) }

// rate is 0 when nothing was done.
func rate(n int, d time.Duration) float64 {
	if n <= 0 || d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}

// NewSession returns an empty session.
func (e *Engine) NewSession() (*Session, error) {
	s := &Session{engine: e}
	if err := e.add(s); err != nil {
		return nil, err
	}
	seq, err := e.model.NewSequence(e.context)
	if err != nil {
		e.drop(s)
		return nil, err
	}
	s.seq = seq
	return s, nil
}

// Close gives the session's memory back. A generation that is under way is
// cancelled and gives it back when it ends.
func (s *Session) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	if s.running {
		s.cancel()
		return nil
	}
	s.release()
	return nil
}

// release gives the memory back; nothing runs any more.
func (s *Session) release() {
	s.seq.Close()
	s.engine.drop(s)
}

// begin claims the session for one piece of work. The context that it returns
// ends when the session is closed.
func (s *Session) begin(ctx context.Context) (context.Context, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, ErrClosed
	case s.running:
		return nil, ErrBusy
	}
	s.running = true
	ctx, s.cancel = context.WithCancel(ctx)
	return ctx, nil
}

// end gives up the claim.
func (s *Session) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancel()
	s.running = false
	if s.closed {
		s.release()
	}
}

// quietly runs fn while nothing generates; it reports false, without running
// fn, if something does or the session is closed.
func (s *Session) quietly(fn func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running || s.closed {
		return false
	}
	fn()
	return true
}

// Len returns the number of tokens that the session holds. While it generates,
// ask the pieces instead: Len is then 0.
func (s *Session) Len() (n int) {
	s.quietly(func() { n = s.seq.Len() + len(s.pending) })
	return n
}

// Stats describes the last generation that ended.
func (s *Session) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}

// Reset forgets everything, the messages of a conversation included. It does
// nothing while the session generates.
func (s *Session) Reset() {
	s.quietly(func() {
		s.seq.Truncate(0)
		s.pending, s.messages = nil, nil
	})
}

// Messages returns the conversation so far.
func (s *Session) Messages() (m []Message) {
	s.quietly(func() { m = append(m, s.messages...) })
	return m
}

// SetSystem sets the message that tells the model how to behave; "" removes
// it. It takes effect with the next turn.
func (s *Session) SetSystem(text string) {
	s.quietly(func() {
		if len(s.messages) > 0 && s.messages[0].Role == "system" {
			s.messages = s.messages[1:]
		}
		if text != "" {
			s.messages = append([]Message{{Role: "system", Content: text}}, s.messages...)
		}
	})
}
