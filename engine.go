package llmrun

import (
	"context"
	"errors"
	"sync"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/token"
	"github.com/llmrun/llmrun/tiering"
)

// Engine is an open model. Its methods may be called from many goroutines; the
// arithmetic of their sessions takes turns.
type Engine struct {
	info     Info
	model    *exec.Model
	tok      *Tokenizer // nil: the model has none
	chat     *chatFormat
	sampling Sampling
	ends     []int32 // ids that end a text
	context  int

	mu       sync.Mutex
	sessions map[*Session]struct{}
	closed   bool
}

// Open opens a model: a GGUF file (of a split one, any part), a safetensors
// file with config.json beside it, or a directory that holds either. The
// weights are read into memory.
func Open(path string, opts Options) (*Engine, error) {
	return OpenContext(context.Background(), path, opts)
}

// OpenContext is Open that can be cancelled.
func OpenContext(ctx context.Context, path string, opts Options) (_ *Engine, err error) {
	if err := opts.validate(); err != nil {
		return nil, err
	}
	f, err := exec.Open(opts.fsys(), path)
	if err != nil {
		return nil, err
	}
	// Weights are in memory once Open returns; the files are not needed then.
	defer func() { err = errors.Join(err, f.Close()) }()
	e := &Engine{sessions: map[*Session]struct{}{}, context: opts.Context}
	if err := e.readTexts(f); err != nil {
		return nil, err
	}
	load := exec.Options{Threads: opts.Threads, Chunk: opts.Chunk, Budget: tiering.New(0)}
	if opts.Progress != nil {
		load.Progress = func(done, total int64) { opts.Progress(Progress{done, total}) }
	}
	if e.model, err = exec.Load(ctx, f, load); err != nil {
		return nil, err
	}
	return e, nil
}

// readTexts reads all that is not weights, so that a fault there shows before
// gigabytes were read.
func (e *Engine) readTexts(f *exec.Files) error {
	spec, err := f.Spec()
	if err != nil {
		return err
	}
	t, err := f.Tokenizer()
	if err != nil && !errors.Is(err, exec.ErrNoTokenizer) {
		return err
	}
	if t != nil {
		e.tok = &Tokenizer{t}
	}
	if e.chat, err = newChatFormat(f, t); err != nil {
		return err
	}
	e.info = describe(f, spec, e.tok, e.chat.source)
	if e.ends, err = f.EndIDs(t); err != nil {
		return err
	}
	var ok bool
	if e.sampling, ok, err = f.Sampling(); !ok {
		e.sampling = Sampling{Temperature: 0.8, TopK: 40, TopP: 0.95, MinP: 0.05}
	}
	return err
}

// Info describes the model.
func (e *Engine) Info() Info { return e.info }

// Threads returns how many threads share the arithmetic.
func (e *Engine) Threads() int { return e.model.Threads() }

// Tokenizer returns the model's tokenizer, or nil if it has none.
func (e *Engine) Tokenizer() *Tokenizer { return e.tok }

// tokenizer returns the tokenizer or says that there is none.
func (e *Engine) tokenizer() (*token.Tokenizer, error) {
	if e.tok == nil {
		return nil, ErrNoTokenizer
	}
	return e.tok.t, nil
}

// DefaultSampling returns how the model asks for its tokens to be chosen, or
// what suits most models where it does not say.
func (e *Engine) DefaultSampling() Sampling { return e.sampling }

// MemoryUsed returns the bytes that the engine holds outside Go's heap now:
// weights, keys and values of its sessions, and scratch.
func (e *Engine) MemoryUsed() int64 {
	return e.model.Budget().Usage().Total
}

// Close ends all sessions and gives memory and threads back. A generation that
// is under way is cancelled, within one layer of the network; the last one to
// end gives the memory back.
func (e *Engine) Close() error {
	e.mu.Lock()
	e.closed = true
	sessions := make([]*Session, 0, len(e.sessions))
	for s := range e.sessions {
		sessions = append(sessions, s)
	}
	e.mu.Unlock()
	for _, s := range sessions {
		if err := s.Close(); err != nil {
			return err
		}
	}
	e.freeIfUnused()
	return nil
}

// add enters a session, unless the engine is closed.
func (e *Engine) add(s *Session) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return ErrClosed
	}
	e.sessions[s] = struct{}{}
	return nil
}

// drop removes a session that has given its memory back.
func (e *Engine) drop(s *Session) {
	e.mu.Lock()
	delete(e.sessions, s)
	e.mu.Unlock()
	e.freeIfUnused()
}

// freeIfUnused gives the model's memory back once the engine is closed and no
// session holds any.
func (e *Engine) freeIfUnused() {
	e.mu.Lock()
	free := e.closed && len(e.sessions) == 0
	e.mu.Unlock()
	if free {
		e.model.Close()
	}
}
