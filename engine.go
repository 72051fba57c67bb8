package llmrun

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/internal/trace"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/store/w8a8"
	"github.com/llmrun/llmrun/text/token"
	"github.com/llmrun/llmrun/tiering"
)

// Engine is an open model. Its methods may be called from many goroutines; the
// arithmetic of their sessions takes turns.
type Engine struct {
	description
	model *exec.Model
	files *modelfile.Files // that the model reads while it is in use, or nil
	limit int              // tokens that a session reads at most
	mem   memory
	// calibration holds columns that shadows fetch; nil: without Options.W8A8
	calibration *w8a8.File
	recorder    *trace.Recorder // nil: without Options.Trace
	traceFile   string
	// store is where sessions and prompts are kept on flash; nil: nowhere
	store    *sessionStore
	storeErr error // why there is none, if not for want of a directory

	watcher        *watcher // nil unless Options.WatchPressure
	watcherStopped sync.Once
	mu             sync.Mutex
	sessions       map[*Session]struct{}
	closed         bool
}

// Open opens a model: a pack, a GGUF file (of a split one, any part), a safetensors
// file with config.json beside it, or a directory that holds one of the latter two.
// The weights are read into memory, as many as Options.RAM has room for.
func Open(path string, opts Options) (*Engine, error) {
	return OpenContext(context.Background(), path, opts)
}

// OpenContext is Open that can be cancelled.
func OpenContext(ctx context.Context, path string, opts Options) (*Engine, error) {
	if err := opts.validate(); err != nil {
		return nil, err
	}
	opts.countProgramHeap()
	f, err := opts.open(ctx, path)
	if err != nil {
		return nil, err
	}
	e, err := openFiles(ctx, f, opts)
	if errors.Is(err, errNeedsPack) && opts.mayCache() {
		if f, err = opts.openPacked(ctx, path); err != nil {
			return nil, err
		}
		return openFiles(ctx, f, opts)
	}
	if direct, ok := opts.openUnpacked(f, err); ok {
		return openFiles(ctx, direct, opts)
	}
	return e, err
}

// openFiles loads a model whose files are open, and closes them as soon as they
// are not needed any more.
func openFiles(ctx context.Context, f *modelfile.Files, opts Options) (*Engine, error) {
	e := &Engine{sessions: map[*Session]struct{}{}, limit: opts.Context, files: f}
	if opts.Lab.Trace != "" {
		e.recorder, e.traceFile = trace.New(), opts.Lab.Trace
	}
	err := e.load(ctx, f, opts)
	if err == nil && !e.model.NeedsFiles() {
		e.files = nil
		err = f.Close()
	}
	if err != nil {
		e.recorder = nil // nothing was computed, and an older trace may be there
		return nil, errors.Join(err, e.release())
	}
	return e, nil
}

// load reads everything that the engine needs of the files. What is not weights
// comes first, so that a fault there shows before gigabytes were read.
func (e *Engine) load(ctx context.Context, f *modelfile.Files, opts Options) (err error) {
	reportNotices(f, opts.Notify)
	if err := mergeAndQuantize(f, opts.fsys(), opts.Adapters, opts.Quantize); err != nil {
		return err
	}
	var perTensor *exec.W8A8
	if opts.Lab.W8A8 != nil {
		if perTensor, err = opts.Lab.W8A8.open(f, opts.fsys()); err != nil {
			return err
		}
		e.calibration, perTensor.Trace = perTensor.Calibration, e.recorder
	}
	if e.description, err = describe(f, opts.kvFormat(f)); err != nil {
		return err
	}
	if err := e.mem.plan(ctx, f, perTensor, &opts); err != nil {
		return err
	}
	if e.limit == 0 || e.limit > e.info.MaxContext {
		e.limit = e.info.MaxContext
	}
	if opts.Memory.RAM > 0 || !e.mem.current.Resident() {
		e.limit = e.mem.current.Context // more would not fit
	}
	o := exec.Options{Threads: opts.Threads, Chunk: e.mem.current.Chunk, Budget: e.mem.budget, Exact: opts.Exact, KV: opts.kvFormat(f), Select: opts.selection(), Plan: e.mem.current, PinFile: opts.pinFile(), MapFirst: opts.mapFirst(), W8A8: perTensor}
	o.Progress = progressFunc(opts.Progress)
	o.Processor, o.Context = opts.processor(e.recorder), opts.Context
	if dir := opts.kvDir(); dir != "" {
		o.KVHot, o.KVRing = e.mem.current.KVHot, e.mem.current.KVRing
		o.KVSpill = kv.NewScratch(opts.Lab.Disk.throttle(vfs.OS()), dir, e.mem.budget)
	}
	if e.model, err = opts.loadModel(ctx, f, o, e.recorder); err != nil {
		return err
	}
	e.applyPlacement(&opts)
	if !e.model.NeedsFiles() {
		e.mem.residencyErr = opts.residencyError(f)
	}
	if err := e.openSessionStore(f, perTensor, &opts); err != nil {
		return err
	}
	if opts.Memory.WatchPressure {
		e.watchPressure()
	}
	return nil
}

// stopWatcher ends what watches the system's memory.
func (e *Engine) stopWatcher() {
	e.watcherStopped.Do(func() { e.watcher.shutdown() })
}

// release gives everything back.
func (e *Engine) release() (err error) {
	e.stopWatcher()
	if e.model != nil {
		e.model.Close()
	}
	e.mem.release()
	if e.files != nil {
		err = e.files.Close()
		e.files = nil
	}
	if e.calibration != nil {
		err = errors.Join(err, e.calibration.Close())
		e.calibration = nil
	}
	err = errors.Join(err, e.store.close(), e.writeTrace())
	e.store, e.storeErr = nil, ErrClosed
	return err
}

// writeTrace writes what was recorded, once.
func (e *Engine) writeTrace() error {
	r := e.recorder
	if r == nil {
		return nil
	}
	e.recorder = nil
	return vfs.WriteAtomic(vfs.OS(), e.traceFile, func(w io.Writer) error {
		_, err := r.WriteTo(w)
		return err
	})
}

// Info describes the model.
func (e *Engine) Info() Info { return e.info.clone() }

// Threads returns how many threads share the arithmetic.
func (e *Engine) Threads() int { return e.model.Threads() }

// Tokenizer returns the model's tokenizer, or nil if it has none.
func (e *Engine) Tokenizer() *Tokenizer { return e.tok }

// tokenizer returns the tokenizer or says that there is none.
func (e *Engine) tokenizer() (*token.Tokenizer, error) {
	if e.tok == nil {
		return nil, fmt.Errorf("%w: %s takes token ids only, see GenerateIDs", ErrNoTokenizer, e.info.Path)
	}
	return e.tok.t, nil
}

// DefaultSampling returns how the model asks for its tokens to be chosen, or
// what suits most models where it does not say.
func (e *Engine) DefaultSampling() Sampling { return e.sampling }

// MemoryUsed returns the bytes that the engine holds outside Go's heap now:
// weights, keys and values of its sessions, and scratch. Pages of sessions that
// were closed are kept for the next ones and count too; after Close it is 0.
func (e *Engine) MemoryUsed() int64 {
	u := e.model.Budget().Usage()
	return u.Total - u.By[tiering.Code] - u.By[tiering.Heap]
}

// Close closes all sessions and gives memory and threads back. A generation
// that is under way ends with ErrClosed within one layer of the network; the
// last one to end gives the memory back. Close may be called more than once.
func (e *Engine) Close() error {
	e.stopWatcher()
	e.mu.Lock()
	e.closed = true
	sessions := make([]*Session, 0, len(e.sessions))
	for s := range e.sessions {
		sessions = append(sessions, s)
	}
	e.mu.Unlock()
	var err error
	for _, s := range sessions {
		err = errors.Join(err, s.Close())
	}
	return errors.Join(err, e.releaseIfUnused())
}

// removeSession removes a session that has given its memory back. Of an engine that was
// closed meanwhile the last one has to do the rest.
func (e *Engine) removeSession(s *Session) error {
	e.mu.Lock()
	delete(e.sessions, s)
	e.mu.Unlock()
	return e.releaseIfUnused()
}

// releaseIfUnused gives the model's memory back once the engine is closed and no
// session holds any.
func (e *Engine) releaseIfUnused() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed || len(e.sessions) > 0 {
		return nil
	}
	return e.release()
}
