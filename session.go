package llmrun

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/kv/segment"
)

// Session is one sequence of tokens: a story, a document with questions, or a conversation.
// It keeps the keys and values of its tokens, so that a continuation processes only new
// tokens. A session runs one operation at a time; several sessions of an engine may run
// concurrently, and then share passes over the weights. Sessions that begin with the same tokens share the
// memory of their keys and values. That changes their speed, not their tokens.
type Session struct {
	engine *Engine

	// seq holds the keys and values. It may contain fewer tokens than ids, or the beginning
	// of a prompt whose prefill was interrupted. The goroutine that set running owns it.
	seq *exec.Sequence
	// restored is how many tokens of seq came from flash when the session was opened. The
	// first generation reports them and resets it.
	restored int

	// lock is the session's name in the store, nil without one. created is when it was first
	// saved. The goroutine that set running owns both.
	lock    *segment.SessionLock
	created time.Time
	saves   sessionSaves

	// guesser guesses tokens; nil: none, or not started. The goroutine that set running owns it; see guessing.
	guesser *guesser

	// answers is the memory of the texts of the session's answers.
	answers heldText

	// stores are those of the session's adapters. The goroutine that set running owns it.
	stores exec.Stores

	// branch: the session is a candidate of another one, which saves the prompt.
	branch bool

	mu       sync.Mutex // guards the fields below
	running  bool
	closed   bool
	cancel   context.CancelCauseFunc // cancels the running operation
	ids      []int32                 // the session's tokens
	messages []Message
	stats    Stats
	offered  *offered // nil without candidates
	adapters []exec.AdapterWeight
}

// StopReason is why a generation ended. It is "" before the first one.
type StopReason string

// Values of Stats.StopReason.
const (
	StopEOS       StopReason = "eos"       // the model generated its end-of-text token
	StopString    StopReason = "stop"      // a stop string was generated
	StopLength    StopReason = "length"    // MaxTokens tokens were generated
	StopContext   StopReason = "context"   // the session reached its Limit, or what was said before the answer
	StopRepeats   StopReason = "repeats"   // the answer repeats itself, see GenerateOptions.StopRepeats
	StopCancelled StopReason = "cancelled" // the caller left the loop, the context ended, or Close was called
	StopError     StopReason = "error"     // an error ended the loop
)

// Stats describes one generation.
type Stats struct {
	PromptTokens    int           // tokens of the whole sequence before the answer
	ReusedTokens    int           // of those, tokens that were not processed because their keys and values existed
	RestoredTokens  int           // of those, tokens whose keys and values came from flash; see CacheOptions.KVDir
	GeneratedTokens int           // without the end-of-text token
	Prefill         time.Duration // time to prefill the rest of the prompt
	Decode          time.Duration // time from the first to the last token, including the caller's loop and slides
	FirstToken      time.Duration // time from the call to the first token
	PrefillFlash    FlashUse      // weights read from flash during prefill
	DecodeFlash     FlashUse      // weights read from flash during decode
	PrefillKV       KVUse         // page counts after prefill, transfers during prefill
	DecodeKV        KVUse         // page counts after decode, transfers during decode
	SavedBytes      int64         // keys and values written to the prefix cache, see Flush, and by Save since
	Slides          int           // how often OverflowSlide dropped old tokens
	ForgottenTokens int           // tokens that OverflowSlide dropped
	Selection       SelectionUse  // effect of MemoryOptions.KVSelect
	StopReason      StopReason    // one of the Stop constants
	StopText        string        // the stop string that was generated, with StopString
	ShortestTokens  int           // tokens that are enough for the shortest answer within Schema, Regexp or Grammar; 0 without them
	Passes          int           // passes of the whole model after the prompt
	Drafters        []DrafterUse  // guesses of each of the session's drafters; empty if it has none
	Seed            uint64        // seed of the random number generator; it reproduces the text
}

// FlashUse counts weights that were streamed from flash, and the time that computation waited
// for them. It covers all sessions of the engine.
type FlashUse struct {
	Bytes   int64 // includes experts
	Stalled time.Duration
	Stalls  int // number of waits
	Experts ExpertUse
	// EmbeddingStalled is the time that computation waited for embedding rows; Stalled does not
	// include it.
	EmbeddingStalled time.Duration
	Classes          TransferClasses
}

// TransferClasses counts all transfers between flash and the engine, by their urgency.
type TransferClasses struct {
	Awaited  ClassUse `json:"awaited"`  // what a matmul or attention waited for
	Streamed ClassUse `json:"streamed"` // weights, keys and values, read in the order of a pass
	Guessed  ClassUse `json:"guessed"`  // what later layers may need
	Written  ClassUse `json:"written"`  // spilled and saved keys and values
}

// ClassUse counts the transfers of one class.
type ClassUse struct {
	Transfers int64 `json:"transfers"`
	Bytes     int64 `json:"bytes"`
	// Waits counts, for the class Awaited, how often computation waited, and for the others how
	// often their transfers waited for more urgent ones. Waited is the time of these waits.
	Waits  int64         `json:"waits"`
	Waited time.Duration `json:"waited_ns"`
	// MovedUp counts transfers that came from a less urgent class, because they would have missed
	// their deadline.
	MovedUp int64 `json:"moved_up"`
}

// PrefillTokPerS returns the prefill speed in tokens per second.
func (s Stats) PrefillTokPerS() float64 { return rate(s.PromptTokens-s.ReusedTokens, s.Prefill) }

// DecodeTokPerS returns the decode speed in tokens per second. It excludes the first token,
// which is a result of prefill.
func (s Stats) DecodeTokPerS() float64 { return rate(s.GeneratedTokens-1, s.Decode) }

// TokensPerPass returns the generated tokens for each pass after the prompt.
func (s Stats) TokensPerPass() float64 {
	if s.Passes == 0 {
		return 0
	}
	return float64(s.GeneratedTokens) / float64(s.Passes)
}

// rate returns n per second, 0 if nothing was done.
func rate(n int, d time.Duration) float64 {
	if n <= 0 || d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}

// NewSession returns an empty session with the adapters of Options.SessionAdapters.
func (e *Engine) NewSession() (*Session, error) {
	s, err := e.newSession()
	if err != nil || len(e.sessionAdapters) == 0 {
		return s, err
	}
	if err := s.UseAdapters(e.sessionAdapters...); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// newSession returns an empty session without adapters.
func (e *Engine) newSession() (*Session, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, ErrClosed
	}
	if err := e.generates(); err != nil {
		return nil, err
	}
	seq, err := e.model.NewSequence(e.limit)
	if err != nil {
		return nil, err
	}
	s := &Session{engine: e, seq: seq, stores: e.store.plainStores()}
	e.sessions[s] = struct{}{}
	return s, nil
}

// Close releases the session's memory. A running generation ends with ErrClosed within one
// layer and then releases the memory. Close waits for keys and values that are being written to the
// prefix cache. It may be called more than once, from any goroutine,
// and from inside the loop over a generation.
func (s *Session) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	running := s.running
	if running {
		s.cancel(ErrClosed)
	}
	s.mu.Unlock()
	if running {
		return nil
	}
	return s.release()
}

// release releases the memory when everything that is being saved is written. The session is closed,
// and no operation is running.
func (s *Session) release() error {
	s.finishSave()
	err := s.takeUnsaved()
	s.seq.Close()
	s.closeGuesser()
	s.answers.close()
	if s.lock != nil {
		_ = s.lock.Close() // the lock is released in any case
	}
	return errors.Join(err, s.engine.removeSession(s))
}

// begin claims the session for one operation. The returned context ends when the session is
// closed.
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

// isClosed reports whether Close was called.
func (s *Session) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// idle returns nil if the session can start an operation. The caller holds s.mu.
func (s *Session) idle() error {
	switch {
	case s.closed:
		return ErrClosed
	case s.running:
		return ErrBusy
	}
	return nil
}

// end releases the claim.
func (s *Session) end() {
	s.mu.Lock()
	s.cancel(nil)
	s.running = false
	closed, store := s.closed, s.engine.store
	s.mu.Unlock()
	if closed {
		s.finishSave()
		store.report(s.takeUnsaved())
		_ = s.release() // no caller can receive the error
	}
}

// extend processes ids behind the sequence. If ctx ended, the error is that of endOf.
func (s *Session) extend(ctx context.Context, ids []int32, r *exec.ExtendOptions) error {
	if n := s.seq.Len() + len(ids); n > s.seq.Limit() {
		return &ContextFullError{Tokens: n, Limit: s.seq.Limit(), Prompt: true}
	}
	err := s.engine.model.Extend(ctx, s.seq, ids, r)
	if err != nil && ctx.Err() != nil {
		return endOf(ctx)
	}
	if err == nil {
		return s.engine.fresh.check()
	}
	return s.engine.discardDamagedPack(err)
}

// Len returns the number of tokens of the session: prompts, and answers up to the last token
// that the caller received. A prompt counts once its prefill is complete.
func (s *Session) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.ids)
}

// Limit returns the most tokens that the session can process. It can generate one more token.
func (s *Session) Limit() int { return s.engine.limit }

// Stats describes the last generation that ended, or of one that goes on its seed and the tokens of its prompt.
func (s *Session) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}

// beginStats shows what is known of a generation that has a prompt.
func (s *Session) beginStats(stats *Stats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats = *stats
}

// Reset removes all tokens and messages. During a generation it returns ErrBusy and changes
// nothing.
func (s *Session) Reset() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.idle(); err != nil {
		return err
	}
	s.seq.Truncate(0)
	s.ids, s.messages, s.offered = nil, nil, nil
	return nil
}

// Messages returns the conversation. It contains a turn once its answer has ended.
func (s *Session) Messages() []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return cloneMessages(s.messages)
}

// SetSystem sets the system message; "" removes it. It takes effect with the next turn, for
// which the engine re-prefills the conversation. During a generation it returns ErrBusy and
// changes nothing.
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

// Tokens returns the tokens that the session holds: those of the prompts and of the answers.
func (s *Session) Tokens() []int32 { return slices.Clone(s.tokens()) }

// tokens returns the session's tokens, which are not modified in place.
func (s *Session) tokens() []int32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ids
}

// setTokens sets the session's tokens.
func (s *Session) setTokens(ids []int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ids = ids
}

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
