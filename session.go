package llmrun

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/kv/segment"
)

// Session is one text that grows: a story, a document with questions, or a
// conversation. What the model has read stays in memory, so that going on
// costs only the new tokens. A session does one thing at a time; several
// sessions of an engine may be used at once.
type Session struct {
	engine *Engine

	// seq is what the layers remember. It is a cache of text: it may have read
	// less, or the beginning of a prompt whose reading broke off. It belongs to
	// whoever set running.
	seq *exec.Sequence
	// restored is how many tokens of it came from flash when the session was opened,
	// until a generation has reported them.
	restored int

	// lock is the session's name on flash, nil without one; created is when it was
	// kept first. They belong to whoever set running, too.
	lock    *segment.SessionLock
	created time.Time

	mu       sync.Mutex // guards all below
	running  bool
	closed   bool
	cancel   context.CancelCauseFunc // of what is running
	ids      []int32                 // the tokens that the session holds
	messages []Message
	stats    Stats
}

// Why a generation ended, as Stats.StopReason says it.
const (
	StopEOS       = "eos"       // the model ended its text
	StopString    = "stop"      // a stop string was generated
	StopLength    = "length"    // MaxTokens were generated
	StopContext   = "context"   // the session holds as many tokens as it may
	StopCancelled = "cancelled" // the loop was left, the context ended, or Close was called
	StopError     = "error"     // something failed; the loop got the error
)

// Stats describes one generation.
type Stats struct {
	PromptTokens    int           // of the whole text before the answer
	ReusedTokens    int           // of those, how many the session had read before, or another one
	RestoredTokens  int           // of those, how many came from flash, see Options.CacheDir
	GeneratedTokens int           // the end-of-text token not counted
	Prefill         time.Duration // reading the rest of the prompt
	Decode          time.Duration // all tokens but the first, with what the caller's loop does, and slides
	FirstToken      time.Duration // from the call to the first token
	PrefillFlash    FlashUse      // what was read from flash for the prompt
	DecodeFlash     FlashUse      // and for the tokens after the first
	PrefillKV       KVUse         // keys and values after the prompt, and their way for it
	DecodeKV        KVUse         // and after the last token
	SavedBytes      int64         // of keys and values that were written to flash to be kept, and by Save since
	Slides          int           // times that old text was forgotten, see OverflowSlide
	ForgottenTokens int           // of old text, in all
	Selection       SelectionUse  // what of a long context was looked at
	StopReason      string        // one of the Stop constants
	Seed            uint64        // of the random numbers; gives the same text again
}

// FlashUse is what was read of weights that are not in memory, and how long the
// arithmetic waited for them. It counts all sessions of the engine.
type FlashUse struct {
	Bytes   int64 // those of experts included
	Stalled time.Duration
	Stalls  int // times that it waited for other weights than experts
	Experts ExpertUse
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
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, ErrClosed
	}
	seq, err := e.model.NewSequence(e.limit)
	if err != nil {
		return nil, err
	}
	s := &Session{engine: e, seq: seq}
	e.sessions[s] = struct{}{}
	return s, nil
}

// Close gives the session's memory back. A generation that is under way ends
// with ErrClosed within one layer of the network and then gives it back. Close
// may be called more than once and from any goroutine, also from inside the
// loop over a generation.
func (s *Session) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	if s.running {
		s.cancel(ErrClosed)
		return nil
	}
	return s.release()
}

// release gives the memory back; nothing runs any more.
func (s *Session) release() error {
	s.seq.Close()
	if s.lock != nil {
		_ = s.lock.Close() // what stays is a lock that nobody holds
	}
	return s.engine.removeSession(s)
}

// begin claims the session for one piece of work. The context that it returns
// ends when the session is closed.
func (s *Session) begin(ctx context.Context) (context.Context, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.idle(); err != nil {
		return nil, err
	}
	s.running = true
	ctx, s.cancel = context.WithCancelCause(ctx)
	return ctx, nil
}

// isClosed reports whether somebody waits for the session to end.
func (s *Session) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// idle returns nil if the session may be used for something else; s.mu is held.
func (s *Session) idle() error {
	switch {
	case s.closed:
		return ErrClosed
	case s.running:
		return ErrBusy
	}
	return nil
}

// end gives up the claim.
func (s *Session) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancel(nil)
	s.running = false
	if s.closed {
		_ = s.release() // nobody is there to hear of it
	}
}

// extend lets the model read ids behind what the sequence holds. When ctx ended,
// the error is its cause and not how the model noticed.
func (s *Session) extend(ctx context.Context, ids []int32, r *exec.ExtendOptions) error {
	err := s.engine.model.Extend(ctx, s.seq, ids, r)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// Len returns the number of tokens that the session holds: prompts and answers
// up to the last token that was handed out. A prompt counts when it has been
// read as a whole.
func (s *Session) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.ids)
}

// Limit returns the greatest number of tokens that the session reads. One more
// can be generated behind them.
func (s *Session) Limit() int { return s.engine.limit }

// Stats describes the last generation that ended.
func (s *Session) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}

// Reset forgets everything, the messages of a conversation included. While the
// session generates it changes nothing and returns ErrBusy.
func (s *Session) Reset() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.idle(); err != nil {
		return err
	}
	s.seq.Truncate(0)
	s.ids, s.messages = nil, nil
	return nil
}

// Messages returns the conversation so far. A turn belongs to it once its
// answer has ended.
func (s *Session) Messages() []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.messages)
}

// SetSystem sets the message that tells the model how to behave; "" removes
// it. It takes effect with the next turn, for which the conversation is read
// again. While the session generates it changes nothing and returns ErrBusy.
func (s *Session) SetSystem(text string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.idle(); err != nil {
		return err
	}
	if len(s.messages) > 0 && s.messages[0].Role == "system" {
		s.messages = s.messages[1:]
	}
	if text != "" {
		s.messages = append([]Message{{Role: "system", Content: text}}, s.messages...)
	}
	return nil
}

// tokens returns the session's text; it is not changed in place.
func (s *Session) tokens() []int32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ids
}

// setTokens makes ids the session's text.
func (s *Session) setTokens(ids []int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ids = ids
}
