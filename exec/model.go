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
	"github.com/llmrun/llmrun/prefetch"
	"github.com/llmrun/llmrun/tiering"
)

// DefaultChunk is the default number of tokens of a prefill chunk.
const DefaultChunk = tiering.DefaultChunk

// Options configure the loading of a model.
type Options struct {
	Threads  int             // 0: the fast cores
	Chunk    int             // tokens of a prefill chunk; 0: DefaultChunk
	Budget   *tiering.Budget // ledger that memory is charged to; nil: a ledger without a limit
	Progress func(done, total int64)
	// KV is the format of keys and values in the cache.
	KV kv.Format
	// KVPage is the number of tokens of a KV page; 0 is the smallest possible. KVSpill receives
	// pages when they exceed KVHot bytes (0: no limit) or the budget has no room; nil: no page
	// spills. The model closes it. Reads of spilled pages use a ring of KVRing bytes; 0 means 8
	// MiB, and up to 32 MiB with page selection.
	KVPage        int
	KVHot, KVRing int64
	KVSpill       kv.Spiller
	// Select is the page selection of long contexts.
	Select Selection
	// Exact multiplies quantized weights in float32. Otherwise activations are quantized to 8
	// bits first, which is several times faster.
	Exact bool
	// Plan decides which bytes of the weights are resident; nil: all. The model streams the other
	// bytes when it uses them, so the files must stay open as long as the model.
	Plan *tiering.Plan
	// PinFile maps the resident bytes of a pack from the file instead of copying them. It needs
	// a Plan.
	PinFile bool
	// MapFirst maps the pack first if the system's page cache holds all of it, and copies it
	// after the first pass. It needs a Plan.
	MapFirst bool
	// Experts is the policy of the expert cache, used if the plan does not keep all experts.
	Experts weights.ExpertPolicy
	// W8A8, if set, runs matmuls in 8-bit integers with one scale for a whole input, as neural
	// processors do. calib.UsePerRowInt8 must be called first, and the calibration must stay
	// open as long as the model.
	W8A8 *W8A8
	// Accelerator, if set, computes all layers or the last ones with its own kernels. The weights
	// and KV of these layers are in its memory and in its precision. Of the other options only
	// Chunk, Context, Budget and Progress apply to it; Threads, KV, KVPage, Exact, Plan, PinFile
	// and MapFirst apply to the layers before its own, whose KV does not spill. A Plan is for
	// these layers; see ShapeOptions.Offloaded.
	Accelerator Accelerator
	// Context is the maximum length of a sequence in tokens; 0: unknown. An Accelerator plans its
	// memory for a sequence of this length.
	Context int
	// Repair, if set, is called after a pass failed. It returns true if the pass can be repeated,
	// because damaged weights caused the error and are rebuilt; see RebuildFrom.
	Repair func(ctx context.Context, failed error) bool
	// Nested uses the planes of a pack: passes compute with both, and [Draft] with the high ones,
	// which are resident. It needs a Plan of a shape with ShapeOptions.Nested, and excludes Exact, Split
	// and Accelerator.
	Nested bool
	// Split, if set, offloads rows of matmuls to another device. It excludes PinFile and MapFirst,
	// and allows W8A8 only with devices that accept a given scale. A Plan is for the other rows; see
	// ShapeOptions.RowsOf.
	Split *Split
}

// Model is a loaded model. Its methods may be called from any goroutine; one pass runs at a time.
type Model struct {
	Spec *arch.Spec

	weights     *weights.Weights
	frames      []*tiering.Frame
	residency   *weights.Residency       // nil: all weights are resident
	experts     *weights.ExpertCache     // nil: all experts are resident
	embedding   *weights.EmbeddingLookup // decodes the embedding rows of tokens
	cache       *kv.Cache
	kvReader    *fetch.Reader      // reads the cache's pages on flash
	pickedPages *fetch.PickedPages // pages on flash that the page selector picks
	outliers    *outlierPath       // nil without Options.W8A8
	offload     *offloadDevice     // nil without Options.Split
	// offloadedLayers is the accelerator that computes the last layers, or all; nil: none
	offloadedLayers *offloadedLayers
	workers         *threadpool.Pool
	budget          *tiering.Budget
	scheduler       *prefetch.Scheduler // admits all transfers between flash and the model

	selection Selection
	measurement
	repair func(ctx context.Context, failed error) bool // see Options.Repair

	passes sharedPasses

	mu     sync.Mutex // held during a pass
	pass   *pass
	closed bool
	nested bool // see Options.Nested
	// selectionStats counts the work of the page selector.
	selectionStats SelectionStats
	coldBytes      int64 // see KVStats.Cold
}

// setDefaults replaces zero values by defaults.
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

// Load loads the weights of a model and allocates all that a pass needs.
func Load(ctx context.Context, f *modelfile.Files, o Options) (_ *Model, err error) {
	spec, err := f.Spec()
	if err != nil {
		return nil, errors.Join(err, o.Split.close())
	}
	o.setDefaults()
	m := &Model{Spec: spec, budget: o.Budget, selection: o.Select, scheduler: prefetch.NewScheduler(), repair: o.Repair, nested: o.Nested}
	m.passes.open(o.Plan)
	if o.Accelerator != nil {
		err = openAccelerator(ctx, m, f, &o)
	}
	if err == nil {
		err = load(ctx, m, f, &o)
	}
	if err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// load loads the weights and allocates what a pass needs. After an error the caller closes the
// model.
func load(ctx context.Context, m *Model, f *modelfile.Files, o *Options) (err error) {
	ld, err := loadWeights(ctx, m, f, o)
	if err != nil {
		return err
	}
	m.frames, m.residency = append(m.frames, ld.Frames...), ld.Residency
	if err := openCache(m, o); err != nil {
		return err
	}
	m.workers = threadpool.New(m.offloadedLayers.hostThreads(o.Threads))
	if m.residency != nil {
		m.residency.Threads = m.streamThreads()
		if err := m.residency.Start(o.Plan); err != nil {
			return err
		}
	}
	if err := openExperts(ctx, m, ld, o); err != nil {
		return err
	}
	if err := openLookups(m, o); err != nil {
		return err
	}
	if err := m.usePerTensor(o.W8A8); err != nil {
		return err
	}
	if err := keepBeside(f, m.weights); err != nil {
		return err
	}
	if m.offloadedLayers.all() {
		m.passes.chunkTokens.Store(int64(m.offloadedLayers.chunk))
		return nil
	}
	pass, err := newPass(m, o.Chunk)
	if err != nil {
		return err
	}
	setPass(m, pass)
	return nil
}

// setPass replaces the pass. The caller holds m.mu, or no other goroutine knows the model.
func setPass(m *Model, p *pass) {
	m.pass = p
	m.passes.chunkTokens.Store(int64(p.chunk))
}

// loadWeights loads the weights: all of them, or the rows that a Split leaves to the CPU.
func loadWeights(ctx context.Context, m *Model, f *modelfile.Files, o *Options) (ld *weights.Loader, err error) {
	if o.Split != nil {
		m.offload = newOffloadDevice(o.Split, o.Chunk)
		if err := o.W8A8.CheckDevice(o.Split.Name, m.offload.caps); err != nil {
			return nil, err
		}
	}
	for l := range m.Spec.Layers {
		if dim := m.Spec.Layers[l].HeadDim; dim > 0 && (l == 0 || dim != m.Spec.Layers[l-1].HeadDim) {
			if err := checkKernels(o.KV, dim); err != nil {
				return nil, err
			}
		}
	}
	ts, err := f.TensorsFor(o.Exact || o.Split != nil)
	if err != nil {
		return nil, err
	}
	var split *weights.Weights
	if o.Split != nil {
		if split, err = loadSplitRows(ctx, m, ts, o); err != nil {
			return nil, err
		}
	}
	m.weights, ld, err = weights.LoadWeights(ctx, ts, m.Spec, weights.LoadOptions{
		Budget: o.Budget, Plan: o.Plan, PinFile: o.PinFile && split == nil, MapFirst: o.MapFirst && split == nil, Exact: o.Exact, Nested: o.Nested, Progress: o.Progress,
		Offloaded: m.offloadedLayers.count(), Split: split, Scheduler: m.scheduler,
	})
	return ld, err
}

// loadSplitRows loads the rows of another device. It returns the weights that have them.
func loadSplitRows(ctx context.Context, m *Model, ts *modelfile.TensorSet, o *Options) (*weights.Weights, error) {
	w, ld, err := m.offload.loadRows(ctx, ts, m.Spec, o, m.scheduler)
	m.frames = append(m.frames, ld.Frames...)
	o.Progress = continued(ld, o.Progress)
	return w, err
}

// spillContext returns the number of tokens for whose spills saves leave room on flash.
func (o *Options) spillContext() int {
	if o.Plan == nil {
		return o.Context
	}
	return o.Plan.Context
}

// openCache creates the KV cache and the reader of its pages on flash.
func openCache(m *Model, o *Options) (err error) {
	m.cache, err = kv.NewCache(hostKV(m, o.KV), o.Budget, kv.Options{PageTokens: o.KVPage, Hot: o.KVHot, Context: o.spillContext(), Spill: o.KVSpill, Scheduler: m.scheduler, ReserveWriter: threadpool.ReserveForReaders})
	if err != nil {
		return err
	}
	openReaders(m, o.KVRing)
	if o.KVSpill == nil {
		return nil
	}
	if m.residency != nil {
		m.residency.MaxPage = m.kvReader.LargestPage()
	}
	if o.KVHot == 0 || o.Plan != nil && o.Plan.KVInStream {
		return nil
	}
	return m.kvReader.Reserve() // pages will spill, so the reader needs its ring
}

// checkKernels verifies that the attention kernels compute correctly on this machine. Tests
// replace it.
var checkKernels = kv.Format.Check

// Threads returns the number of compute threads.
func (m *Model) Threads() int { return m.workers.Count() }

// KVBytesPerToken returns the KV bytes of one more token of context.
func (m *Model) KVBytesPerToken() int64 {
	return m.Spec.KVTokenBytes(m.cache.Shape().Format)
}

// Budget returns the ledger that the model's memory is charged to.
func (m *Model) Budget() *tiering.Budget { return m.budget }

// Close waits for the running pass and frees all memory. The caller closes all sequences first.
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
		_ = m.offloadedLayers.network.Close() // its memory is released in any case
	}
	if m.residency != nil {
		m.residency.Close()
	}
	if m.experts != nil {
		m.experts.Close()
	}
	if m.offload != nil {
		_ = m.offload.close() // its memory is released in any case
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
		m.pickedPages.Close()
		m.kvReader.Close()
	}
	if m.cache != nil {
		_ = m.cache.Close() // the content of the spill file is not needed
	}
	for _, f := range m.frames {
		f.Free()
	}
	m.weights, m.frames = nil, nil
}

// NeedsFiles reports whether the model reads its files while it is in use, so that they must
// stay open.
func (m *Model) NeedsFiles() bool {
	return m.residency != nil || m.embedding != nil && m.embedding.ReadsFlash()
}

// openReaders creates the readers of pages on flash: exact reads pass through a ring of the given
// bytes, picked pages have memory of their own.
func openReaders(m *Model, ring int64) {
	if ring <= 0 && !m.selection.Exact() {
		ring = m.selection.shape().Ring(m.KVBytesPerToken())
	}
	windows, stored := make([]int, len(m.Spec.Layers)), make([]int, len(m.Spec.Layers))
	for l := range windows {
		windows[l], stored[l] = m.Spec.Layers[l].Window, m.Spec.Stored(l)
	}
	m.kvReader = fetch.NewReader(fetch.Options{
		Cache: m.cache, Windows: windows, Stored: stored, Budget: m.budget, Ring: ring, User: m.streamThreads(), Weights: m.residency,
	})
	m.pickedPages = fetch.NewPickedPages(m.kvReader, m.Spec.Context, threadpool.ReserveForReaders)
}

// SetThreads changes the number of compute threads; 0 means the fast cores. Results do not
// depend on it. It waits for the running pass, and no Extend may begin before it returns. On an
// error the model is unchanged. A model with offloaded rows or layers keeps its threads.
func (m *Model) SetThreads(n int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	if n <= 0 {
		n = threadpool.DefaultThreads()
	}
	if n == m.workers.Count() || m.offloadedLayers != nil || m.offload != nil {
		return nil
	}
	return replaceThreads(m, n)
}

// replaceThreads starts a pool of n threads and allocates a pass for it, then frees the old
// ones.
func replaceThreads(m *Model, n int) error {
	oldWorkers, oldPass := m.workers, m.pass
	m.workers = threadpool.New(n)
	pass, err := newPass(m, oldPass.chunk)
	if err != nil {
		m.workers.Close()
		m.workers = oldWorkers
		return err
	}
	setPass(m, pass)
	oldWorkers.Close()
	oldPass.free()
	return nil
}
