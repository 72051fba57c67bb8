package exec

import (
	"context"
	"errors"
	"sync"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/internal/threadpool"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/kv/fetch"
	"github.com/llmrun/llmrun/tiering"
)

// DefaultChunk is how many tokens of a prompt pass through the layers
// together, unless asked otherwise.
const DefaultChunk = tiering.DefaultChunk

// Options are what the owner of a model decides.
type Options struct {
	Threads  int             // 0 = the fast cores
	Chunk    int             // tokens in one pass; 0 = DefaultChunk
	Budget   *tiering.Budget // what memory is charged to; nil = a ledger without a limit
	Progress func(done, total int64)
	// KV is the precision in which keys and values are kept.
	KV kv.Format
	// KVPage is how many tokens a page of keys and values has, 0 for as few as
	// possible. KVSpill is where pages go when they take more than KVHot bytes (0: no
	// limit) or the budget has no room; nil: nowhere. The model closes it. They pass
	// through KVRing bytes on their way back; 0 means 8 MiB.
	KVPage        int
	KVHot, KVRing int64
	KVSpill       kv.Spiller
	// Select says how much of a long context new tokens look at.
	Select Selection
	// Exact multiplies quantized weights in float32. Otherwise activations are
	// rounded to 8 bits first, which is several times faster.
	Exact bool
	// Plan says what of a pack is kept in memory; nil keeps all. The files must
	// stay open as long as the model. The rest of the pack is read when it is used.
	Plan *tiering.Plan
	// PinFile keeps what stays of a pack as a mapping of the file instead of a
	// copy. It needs a Plan.
	PinFile bool
	// MapFirst begins with a mapping where the system has the whole pack in its page
	// cache, and makes the copy after the first pass. It needs a Plan.
	MapFirst bool
	// Experts says which of them stay in memory, if the plan does not keep all.
	Experts weights.ExpertPolicy
	// W8A8 asks for products in 8-bit integers as neural processors have them; nil:
	// for the usual ones. Files.UseWhole comes first, and the calibration must stay
	// open as long as the model.
	W8A8 *W8A8
	// Processor, if set, computes in place of this package's own kernels, all layers or
	// the last ones. Their weights, and what is remembered of texts, are in its memory
	// then, in its precision. Of the other options Chunk, Context, Budget and Progress
	// count, and for layers before its own Threads, KV, KVPage and Exact.
	Processor Processor
	// Context is how many tokens texts will have at most, 0 if nobody knows: what a
	// Processor leaves room for.
	Context int
	// Divide, if set, has another device compute part of the products. Plan, PinFile,
	// MapFirst and Experts do not go with it, and W8A8 with some devices only.
	Split *Split
}

// Model is a network that is ready to run. Its methods may be called from any
// goroutine; passes take turns.
type Model struct {
	Spec *arch.Spec

	weights   *weights.Weights
	frames    []*tiering.Frame
	residency *weights.Residency   // nil: all of the weights are in memory for good
	experts   *weights.ExpertCache // nil: all are in memory for good
	embedding *weights.RowLookup   // of the embedding
	cache     *kv.Cache
	kvReader  *fetch.Reader // of what is on flash of it
	// selectedPages reads the pages on flash that a selection takes.
	selectedPages fetch.PageReader
	outliers      *outlierPath   // nil: without Options.W8A8
	offload       *offloadDevice // nil: without Options.Divide
	// offloadedLayers is where passes are computed, or the last layers of them; nil: here
	offloadedLayers *offloadedLayers
	workers         *threadpool.Pool
	budget          *tiering.Budget

	selection Selection
	observe   Observer // nil: no caller observes matmuls

	mu     sync.Mutex // held for the length of a pass
	pass   *pass
	closed bool
	// selected counts what selection did.
	selected SelectionStats
}

// setDefaults fills in what was left to this package.
func (o *Options) setDefaults() {
	if o.Chunk <= 0 {
		o.Chunk = DefaultChunk
	}
	if o.Split != nil && o.Split.Chunk > 0 {
		o.Chunk = min(o.Chunk, o.Split.Chunk)
	}
	if o.Budget == nil {
		o.Budget = tiering.New(0)
	}
	if o.Threads <= 0 {
		o.Threads = threadpool.DefaultThreads()
	}
}

// Load reads the weights of a model that Open found and makes it ready to run.
func Load(ctx context.Context, f *modelfile.Files, o Options) (_ *Model, err error) {
	spec, err := f.Spec()
	if err != nil {
		return nil, errors.Join(err, o.Split.close())
	}
	o.setDefaults()
	if o.Processor != nil {
		return loadOffloaded(ctx, f, spec, o)
	}
	m := &Model{Spec: spec, budget: o.Budget, selection: o.Select}
	if err := load(ctx, m, f, &o); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// load reads the weights and takes all memory that a pass needs. After an error the caller
// closes the model.
func load(ctx context.Context, m *Model, f *modelfile.Files, o *Options) (err error) {
	ld, err := loadWeights(ctx, m, f, o)
	if err != nil {
		return err
	}
	m.frames, m.residency = ld.Frames, ld.Parts
	if err := openCache(m, o); err != nil {
		return err
	}
	m.workers = threadpool.New(o.Threads)
	if m.residency != nil {
		m.residency.User = m.streamUser()
		if err := m.residency.Start(o.Plan); err != nil {
			return err
		}
	}
	if err := openExperts(ctx, m, ld, o); err != nil {
		return err
	}
	if m.embedding, err = weights.NewRows(&m.weights.Embed, o.Budget, m.weights.RowMemory(o.Plan)); err != nil {
		return err
	}
	if err := m.usePerTensor(o.W8A8); err != nil {
		return err
	}
	m.pass, err = newPass(m, o.Chunk)
	return err
}

// loadWeights reads the weights: all of them here, or those that a split leaves here.
func loadWeights(ctx context.Context, m *Model, f *modelfile.Files, o *Options) (ld *weights.Loader, err error) {
	if o.Split != nil {
		m.offload = newOffloadDevice(o.Split, o.Chunk)
		if err := o.W8A8.CheckDevice(o.Split.Name, m.offload.caps); err != nil {
			return nil, err
		}
	}
	if err := checkKernels(o.KV, m.Spec.HeadDim); err != nil {
		return nil, err
	}
	ts, err := f.TensorsFor(o.Exact || o.Split != nil)
	if err != nil {
		return nil, err
	}
	if o.Split != nil {
		m.weights, ld, err = m.offload.loadWeights(ctx, ts, m.Spec, *o)
		return ld, err
	}
	m.weights, ld, err = weights.LoadWeights(ctx, ts, m.Spec, weights.LoadOptions{
		Budget: o.Budget, Plan: o.Plan, PinFile: o.PinFile, MapFirst: o.MapFirst, Exact: o.Exact, Progress: o.Progress,
	})
	return ld, err
}

// openCache makes the KV cache and the reader of its pages on flash.
func openCache(m *Model, o *Options) (err error) {
	m.cache, err = kv.NewCache(m.Spec.KVShape(o.KV), o.Budget, kv.Options{PageTokens: o.KVPage, Hot: o.KVHot, Spill: o.KVSpill})
	if err != nil {
		return err
	}
	m.kvReader = newReader(m, o.KVRing)
	if o.KVSpill == nil {
		return nil
	}
	if m.residency != nil {
		m.residency.Page = m.kvReader.LargestPage()
	}
	if o.KVHot == 0 {
		return nil
	}
	return m.kvReader.Reserve() // something will be on flash
}

// checkKernels proves that attention works on this processor. Tests replace it.
var checkKernels = kv.Format.Check

// Threads returns how many threads share the arithmetic.
func (m *Model) Threads() int { return m.workers.Count() }

// KVBytesPerToken returns the memory that one more token of context takes.
func (m *Model) KVBytesPerToken() int64 {
	return m.Spec.KVShape(m.cache.Shape().Format).TokenBytes()
}

// Budget returns the ledger that the model's memory is charged to.
func (m *Model) Budget() *tiering.Budget { return m.budget }

// Close waits for a pass that is under way and gives everything back.
// Sequences must have been closed before.
func (m *Model) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	m.closed = true
	if m.workers != nil {
		m.workers.Close()
	}
	if m.offloadedLayers != nil {
		_ = m.offloadedLayers.network.Close() // its memory is gone in any case
	}
	if m.residency != nil {
		m.residency.Close()
	}
	if m.experts != nil {
		m.experts.Close()
	}
	if m.offload != nil {
		_ = m.offload.close() // its memory is gone in any case
	}
	if m.pass != nil {
		m.pass.free()
	}
	if m.embedding != nil {
		m.embedding.Close()
	}
	if m.outliers != nil {
		m.outliers.close()
	}
	if m.kvReader != nil {
		m.kvReader.Close()
		m.selectedPages.Close()
	}
	if m.cache != nil {
		_ = m.cache.Close() // what is in the file that it closes is not needed
	}
	for _, f := range m.frames {
		f.Free()
	}
	m.weights, m.frames = nil, nil
}

// NeedsFiles reports whether the files that the model was loaded from are read
// while it is in use, and have to stay open as long.
func (m *Model) NeedsFiles() bool { return m.residency != nil }

// newReader returns the reader of pages on flash, with a ring of so many bytes.
func newReader(m *Model, ring int64) *fetch.Reader {
	windows := make([]int, len(m.Spec.Layers))
	for l := range windows {
		windows[l] = m.Spec.Layers[l].Window
	}
	return fetch.NewReader(fetch.Options{
		Cache: m.cache, Windows: windows, Budget: m.budget, Ring: ring, User: m.streamUser(), Weights: m.residency,
	})
}
