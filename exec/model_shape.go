package exec

import (
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/store/pack"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// kvSlack bounds the unused end of KV memory, which grows in huge pages.
const kvSlack = 2 << 20

// ShapeOptions are the options that determine a model's memory.
type ShapeOptions struct {
	Threads int // compute threads
	KV      kv.Format
	KVPage  int  // see Options
	KVCold  bool // KV pages may spill to flash
	Select  Selection
	Exact   bool
	W8A8    *W8A8 // see Options
}

// MeasureShape returns the sizes from which package tiering makes a plan. It reads no weights and
// checks only that all tensors exist.
func MeasureShape(f *modelfile.Files, o ShapeOptions) (tiering.Shape, error) {
	m, layouts, err := outlineModel(f, o)
	if err != nil {
		return tiering.Shape{}, err
	}
	defer func() { _ = m.cache.Close() }()
	spec, w, cache := m.Spec, m.weights, m.cache
	s := tiering.Shape{RowBytes: int64(w.Embed.RowBytes()), Width: spec.Dim, ExpertsUsed: spec.ExpertsUsed, Experts: spec.Experts}
	for i := range layouts {
		layouts[i].AddTo(&s)
	}
	s.OpsPerToken -= 2 * prunedMulAdds(w, spec)
	if s.Embedding == 0 {
		s.Lookup = int64((weights.TiedLookupReaders - 1) * w.Embed.BufferBytes())
	}
	s.KVFixed, s.KVBytesPerToken, s.KVPageTokens = kvSlack, cache.Shape().TokenBytes(), cache.PageTokens()
	if !o.Select.Exact() {
		s.KVSummaryPerToken = cache.Shape().SummaryBytes()
	}
	for l := range spec.Layers {
		s.KVUnit = max(s.KVUnit, int64(cache.PageBytes(l)))
	}
	if o.W8A8 != nil {
		m.outliers = &outlierPath{m: m}
		s.OtherPinned += o.W8A8.residentBytes()
	}
	addScratch(&s, m, o.Threads)
	return s, nil
}

// outlineModel returns a model whose weights have sizes but no data, and the layouts of the
// weights. The caller closes its cache.
func outlineModel(f *modelfile.Files, o ShapeOptions) (*Model, []weights.Layout, error) {
	spec, err := f.Spec()
	if err != nil {
		return nil, nil, err
	}
	ld := &weights.Loader{Tensors: f.TensorSet(), Spec: spec, Exact: o.Exact}
	w := &weights.Weights{Layers: make([]weights.LayerWeights, len(spec.Layers))}
	layouts, err := ld.PlanAll(w)
	if err != nil {
		return nil, nil, err
	}
	for i := range layouts {
		layouts[i].Describe()
	}
	if !w.Head.Present() {
		w.Head.Matrix = w.Embed.Matrix
	}
	cache, err := kv.NewCache(spec.KVShape(o.KV), tiering.New(0), kv.Options{PageTokens: o.KVPage, MayBeCold: o.KVCold})
	if err != nil {
		return nil, nil, err
	}
	return &Model{Spec: spec, weights: w, cache: cache, selection: o.Select}, layouts, nil
}

// AttachedBytes returns the bytes of the pass's buffers that a device attaches when rows are
// offloaded to it (see Options.Split) and a chunk has the given tokens.
func AttachedBytes(f *modelfile.Files, o ShapeOptions, chunk int) (int64, error) {
	m, _, err := outlineModel(f, o)
	if err != nil {
		return 0, err
	}
	defer func() { _ = m.cache.Close() }()
	m.offload = &offloadDevice{}
	if o.W8A8 != nil {
		m.outliers = &outlierPath{m: m}
	}
	return scratchBytes(m, chunk, o.Threads, (*pass).carve), nil
}

// shapeChunks are the chunk sizes at which scratch memory is measured; between them it grows
// linearly.
var shapeChunks = [2]int{16, 1024}

// addScratch measures a pass's buffers by carving them from a probe.
func addScratch(s *tiering.Shape, m *Model, threads int) {
	slack := scratchSlack + lookupSlack + s.Unit
	s.Scratch = scratchLine(m, threads, slack, (*pass).carveLayer)
	s.Logits = scratchLine(m, threads, slack, (*pass).carveOutput)
}

// scratchLine measures the buffers of carveRows together with one of the parts that share memory.
func scratchLine(m *Model, threads int, slack int64, part func(*pass, *tiering.Arena)) (l tiering.Line) {
	var need [2]int64
	for i, chunk := range shapeChunks {
		need[i] = scratchBytes(m, chunk, threads, func(p *pass, a *tiering.Arena) {
			p.carveRows(a)
			part(p, a)
		})
	}
	step := int64(shapeChunks[1] - shapeChunks[0])
	l.PerToken = (need[1] - need[0] + step - 1) / step
	l.Fixed = max(0, need[0]-int64(shapeChunks[0])*l.PerToken) + slack
	return l
}

const (
	// scratchSlack bounds the deviation from linear growth: each buffer is rounded up.
	scratchSlack = 256 << 10
	// lookupSlack is the memory that the lookup of an embedding row on flash needs besides the
	// row's unit: the rest of the pack's blocks that contain it.
	lookupSlack = 2*pack.BlockBytes + vfs.DirectAlign
)

// scratchBytes returns the bytes of a pass's buffers.
func scratchBytes(m *Model, chunk, threads int, carve func(*pass, *tiering.Arena)) int64 {
	p := outlinePass(m, chunk, threads)
	var probe tiering.Arena
	carve(p, &probe)
	return int64(probe.Need())
}
