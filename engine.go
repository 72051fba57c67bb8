package llmrun

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/exec/split"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/internal/ended"
	"github.com/llmrun/llmrun/internal/enginemodel"
	"github.com/llmrun/llmrun/internal/trace"
	"github.com/llmrun/llmrun/store/allowance"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/store/w8a8"
	"github.com/llmrun/llmrun/text/token"
	"github.com/llmrun/llmrun/tiering"
)

// Engine is an open model. Its methods are safe for concurrent use. The forward passes of its
// sessions take turns.
type Engine struct {
	description
	model  *exec.Model
	driver *driver          // of the device, closed after the model
	files  *modelfile.Files // the model's files if it streams from them, otherwise nil
	limit  int              // most tokens of a session
	drafts DraftOptions
	// adapters are the names of those that sessions choose; sessionAdapters are those of new sessions.
	adapters, sessionAdapters []string
	// draftModel guesses tokens; nil without one. mayDraft: sessions guess tokens.
	draftModel *draftModel
	mayDraft   bool
	guessing   guessing
	// branchesKept counts passes in which a branch was right where the first guesses were wrong
	branchesKept atomic.Int64
	// rewardModel scores answers; nil without one
	rewardModel *rewardModel
	mem         memory
	constraints constraints
	describer   describer
	fresh       freshFiles
	identify    func(ctx context.Context) (string, error) // what results follow from; see Options.identifier
	// calibration holds the columns of the outlier path; nil without Options.Lab.W8A8
	calibration *w8a8.File
	recorder    *trace.Recorder // nil without Options.Lab.Trace
	traceFile   string
	writes      *allowance.Allowance // nil without a directory or a limit
	flashRoom   func() flashRoom     // nil if keys and values stay in memory
	notify      func(string)         // nil: the user wants no messages
	repair      repair
	experts     *expertReuse  // nil if all experts are in memory or nothing is remembered
	guesses     *guessHistory // nil if nothing is remembered
	// store holds sessions and cached prefixes on flash; nil without a directory
	store    *sessionStore
	storeErr error // why the store could not be opened; nil if no directory is set

	// logits is the memory of the rows that Logits returned last.
	logits struct {
		sync.Mutex
		room *promptRoom
	}

	watcher        *watcher // nil without Options.Memory.WatchPressure
	processWatcher *watcher // nil without Options.Memory.WatchProcess
	watcherStopped sync.Once
	mu             sync.Mutex
	sessions       map[*Session]struct{}
	closed         bool
}

// enginemodel.Of gives benchmarks the model of an engine.
func init() {
	enginemodel.Of = func(engine any) *exec.Model { return engine.(*Engine).model }
}

// Open opens a model: a pack, a GGUF file (any part of a split one), a safetensors file
// beside its config.json, or a directory that holds one of the latter two. It loads as many
// of the weights as Options.Memory.RAM permits.
func Open(path string, opts Options) (*Engine, error) {
	return OpenContext(context.Background(), path, opts)
}

// OpenContext is Open with a context that cancels loading.
func OpenContext(ctx context.Context, path string, opts Options) (_ *Engine, err error) {
	defer ended.Say(ctx, &err)
	if err := opts.validate(); err != nil {
		return nil, err
	}
	if err := opts.checkCacheDirs(); err != nil {
		return nil, err
	}
	if err := opts.readKey(); err != nil {
		return nil, err
	}
	opts.shareSteps()
	opts.countProgramHeap()
	opts.opening = newOpening(&opts)
	defer func() { opts.opening.end() }()
	defer func() { _ = opts.closeBeside() }()
	f, err := opts.open(ctx, path)
	if err != nil {
		return nil, err
	}
	e, err := opts.openEngine(ctx, f, path)
	for errors.Is(err, ErrBudget) && opts.importLock != "" {
		if err := opts.awaitImport(ctx); err != nil {
			return nil, err
		}
		opts.reopen()
		opts.importRefused, opts.importLock = false, ""
		if f, err = opts.open(ctx, path); err != nil {
			return nil, err
		}
		e, err = opts.openEngine(ctx, f, path)
	}
	if err == nil || ctx.Err() != nil {
		return e, err
	}
	return opts.openAgain(ctx, f, path, err)
}

// importPoll is the time between two looks at an import of another process.
const importPoll = 200 * time.Millisecond

// awaitImport waits until no other process imports the model, which does not fit without its pack, and says once that it
// waits. Meanwhile it only tries the import's lock: the model stays closed. If the other process ends without a pack,
// this one imports the model.
func (o *Options) awaitImport(ctx context.Context) error {
	if !o.awaitsImport && o.Notify != nil {
		o.Notify("the model does not fit without its pack, which another process is writing: waiting for it")
	}
	o.awaitsImport = true
	err := vfs.AwaitFree(ctx, o.cacheFS(), o.importLock, importPoll)
	if ctx.Err() != nil {
		return endOf(ctx)
	}
	return err
}

// openEngine loads a model from open files. If its weights do not fit and it can be imported, it
// imports the model first.
func (o *Options) openEngine(ctx context.Context, f *modelfile.Files, path string) (*Engine, error) {
	e, err := openFiles(ctx, f, *o)
	if !errors.Is(err, errImportFirst) {
		return e, err
	}
	o.reopen()
	o.importRefused = true // if there is still no pack
	if f, err = o.openCached(ctx, path, true); err != nil {
		return nil, err
	}
	return openFiles(ctx, f, *o)
}

// openFiles loads a model from open files. It closes the files if the model does not stream
// from them.
func openFiles(ctx context.Context, f *modelfile.Files, opts Options) (*Engine, error) {
	e := &Engine{sessions: map[*Session]struct{}{}, limit: opts.Context, files: f, notify: opts.Notify, driver: opts.driver, drafts: opts.Drafts, adapters: opts.AdapterNames(), sessionAdapters: opts.SessionAdapters}
	if opts.Lab.Trace != "" {
		e.recorder, e.traceFile = trace.New(), opts.Lab.Trace
	}
	err := e.load(ctx, f, opts)
	if err == nil {
		e.fresh.files, err = f.CheckOpened()
	}
	if err == nil && !e.model.NeedsFiles() {
		e.files = nil
		err = f.Close()
	}
	if err != nil {
		e.recorder = nil // do not overwrite an older trace with an empty one
		return nil, errors.Join(err, e.release())
	}
	return e, nil
}

// load reads what the engine needs from the files. It reads the metadata first, so that
// errors there are found before gigabytes of weights are read.
func (e *Engine) load(ctx context.Context, f *modelfile.Files, opts Options) (err error) {
	reportNotices(f, opts.Notify)
	e.writes = opts.dailyWrites()
	if err := opts.changeWeights(f); err != nil {
		return err
	}
	perTensor, err := e.openCalibration(ctx, f, &opts)
	if err != nil {
		return err
	}
	a, err := opts.decide(ctx, f, perTensor, e.recorder) // before the tokenizer is built, which takes memory
	if err != nil {
		return err
	}
	if a.imports {
		return errImportFirst
	}
	if a.placed != nil {
		opts.Context = a.placed.requested // a long prompt may have raised it
	}
	if e.description, err = describe(f, opts.kvFormat(f)); err != nil {
		return err
	}
	e.chat.compiler = e.compiler
	if err := e.mem.plan(ctx, f, &a, &opts); err != nil {
		return err
	}
	e.limitContext(&opts)
	e.experts = newExpertReuse(&opts, f.Path, &e.mem.shape)
	makePlan := func(outcome split.Outcome) (*tiering.Plan, error) {
		return e.planOutcome(f, perTensor, &opts, &outcome)
	}
	if e.model, err = opts.loadModel(ctx, f, e.modelOptions(f, perTensor, &opts), makePlan); err != nil {
		return err
	}
	e.applyPlacement(&opts)
	e.mayDraft = opts.mayDraft(e.model.Spec.Experts > 0)
	if err := errors.Join(e.openDraftModel(ctx, &opts), e.openReward(ctx, &opts)); err != nil {
		return err
	}
	if err := e.describer.open(f, e.model.Spec, e.limit, e.mem.budget); err != nil {
		return err
	}
	e.identify = opts.identifier(f, perTensor)
	if opts.encoder {
		return nil
	}
	if err := e.openSessionStore(ctx, f, perTensor, &opts); err != nil {
		return err
	}
	e.guesses = newGuessHistory(ctx, &opts, f, &e.mem.shape)
	if opts.Memory.WatchProcess && opts.Memory.RAM > 0 {
		e.watchProcess(opts.Notify)
	}
	if opts.Memory.WatchPressure {
		e.watchPressure()
	}
	return nil
}

// openCalibration opens the calibration of the outlier path, or returns nil without
// Options.Lab.W8A8.
func (e *Engine) openCalibration(ctx context.Context, f *modelfile.Files, opts *Options) (*exec.W8A8, error) {
	if opts.Lab.W8A8 == nil {
		return nil, nil
	}
	perTensor, err := opts.Lab.W8A8.open(ctx, f, opts.fsys())
	if err != nil {
		return nil, err
	}
	e.calibration, perTensor.Trace = perTensor.Calibration, e.recorder
	return perTensor, nil
}

// limitContext limits sessions to the model's context and to what the plan has room for.
func (e *Engine) limitContext(opts *Options) {
	if e.limit == 0 || e.limit > e.info.MaxContext {
		e.limit = e.info.MaxContext
	}
	if opts.Memory.RAM > 0 || !e.mem.current.Resident() || opts.encoder {
		e.limit = e.mem.current.Context // a longer context does not fit
	}
	e.info.Context = e.limit
	if opts.Context == 0 && e.limit < e.info.MaxContext && opts.Notify != nil {
		opts.Notify(fmt.Sprintf("the context holds %d tokens, of %d that the model supports: the weights take the rest of the memory; a larger one must be asked for (--ctx)", e.limit, e.info.MaxContext))
	}
}

// modelOptions returns the options of the model for the current plan.
func (e *Engine) modelOptions(f *modelfile.Files, perTensor *exec.W8A8, opts *Options) exec.Options {
	plan := e.mem.current
	o := exec.Options{
		Threads: opts.Threads, Chunk: plan.Chunk, Context: opts.Context, Exact: opts.Exact, Nested: opts.nested,
		Budget: e.mem.budget, Plan: plan, PinFile: opts.pinFile(), MapFirst: opts.mapFirst(),
		KV: opts.kvFormat(f), Select: opts.selection(), W8A8: perTensor,
		Accelerator: opts.accelerator(e.recorder), Progress: progressFunc(opts.Progress),
		Repair: e.repairPack,
	}
	if dir := opts.kvDir(); dir != "" {
		o.KVHot, o.KVRing = plan.KVHot, plan.KVRing
		o.KVSpill = e.newScratch(dir, opts)
	}
	return o
}

// stopWatcher stops the watchers of memory pressure and of the process, once.
func (e *Engine) stopWatcher() {
	e.watcherStopped.Do(func() {
		e.watcher.shutdown()
		e.processWatcher.shutdown()
	})
}

// release releases all resources of the engine.
func (e *Engine) release() (err error) {
	e.stopWatcher()
	e.draftModel.close()
	e.rewardModel.close()
	e.draftModel, e.rewardModel = nil, nil
	e.describer.close()
	var shared weights.SharedSteps
	if e.model != nil {
		shared = e.model.ExpertStats().Shared
		e.model.Close()
	}
	err = e.driver.close()
	e.logits.room.release()
	e.constraints.close()
	err = errors.Join(err, e.repair.close(), e.fresh.close())
	e.mem.release()
	if e.files != nil {
		err = errors.Join(err, e.files.Close())
		e.files = nil
	}
	if e.calibration != nil {
		err = errors.Join(err, e.calibration.Close())
		e.calibration = nil
	}
	err = errors.Join(err, e.store.close(), e.closeWrites(), e.writeTrace(), e.experts.save(shared), e.guesses.save())
	e.store, e.storeErr = nil, ErrClosed
	return err
}

// writeTrace writes the recorded trace, once.
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

// Threads returns the number of worker threads.
func (e *Engine) Threads() int { return e.model.Threads() }

// Tokenizer returns the model's tokenizer, or nil if it has none.
func (e *Engine) Tokenizer() *Tokenizer { return e.tok }

// tokenizer returns the model's tokenizer, or ErrNoTokenizer.
func (e *Engine) tokenizer() (*token.Tokenizer, error) {
	if e.tok == nil {
		return nil, fmt.Errorf("%w: %s accepts only token ids; use GenerateIDs", ErrNoTokenizer, e.info.Path)
	}
	return e.tok.t, nil
}

// DefaultSampling returns the sampling parameters that the model's files recommend, or a
// general default if they recommend none.
func (e *Engine) DefaultSampling() Sampling { return e.sampling }

// MemoryUsed returns the bytes that the engine holds outside Go's heap: weights, keys and
// values, and scratch buffers. It includes the pages of closed sessions, which the engine
// reuses. After Close it returns 0.
func (e *Engine) MemoryUsed() int64 {
	u := e.model.Budget().Usage()
	return u.Total - u.By[tiering.Code] - u.By[tiering.Heap] - u.By[tiering.Driver]
}

// Close closes all sessions and releases memory and threads. A running generation ends with
// ErrClosed within one layer; the last one to end releases the memory. Close may be called
// more than once.
func (e *Engine) Close() error {
	e.stopWatcher()
	e.mu.Lock()
	e.closed = true
	sessions := make([]*Session, 0, len(e.sessions))
	for s := range e.sessions {
		sessions = append(sessions, s)
	}
	e.describer.cancelAll()
	e.mu.Unlock()
	var err error
	for _, s := range sessions {
		err = errors.Join(err, s.Close())
	}
	return errors.Join(err, e.releaseIfUnused())
}

// removeSession removes a closed session. If the engine was closed in the meantime, the last
// session to be removed releases the engine's resources.
func (e *Engine) removeSession(s *Session) error {
	e.mu.Lock()
	delete(e.sessions, s)
	e.mu.Unlock()
	return e.releaseIfUnused()
}

// releaseIfUnused releases the engine's resources if it is closed and has no sessions left.
func (e *Engine) releaseIfUnused() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed || len(e.sessions) > 0 || e.describer.running > 0 {
		return nil
	}
	return e.release()
}
