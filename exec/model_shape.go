package exec

import (
	"cmp"
	"slices"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/exec/recurrent"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/hetero/rates"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/quant"
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
	Nested  bool  // see Options
	W8A8    *W8A8 // see Options
	// Offloaded is how many layers, the last ones, an Options.Accelerator computes. The shape is
	// that of the others, without the accelerator's memory on the host.
	Offloaded int
	// RowsOf is that of an Options.Split; nil without one. The shape is that of the other rows,
	// without the device's memory on the host.
	RowsOf func(weights.Matmul) weights.RowSplit

	budget *tiering.Budget // of the cache; nil grants any memory
}

// MeasureShape returns the sizes from which package tiering makes a plan, and the kind of matmul that makes most operations in
// the layers, from whose speed a plan predicts. It reads no weights and checks only that all tensors exist.
func MeasureShape(f *modelfile.Files, o ShapeOptions) (tiering.Shape, rates.Matmul, error) {
	m, layouts, convert, err := outlineModel(f, o)
	if err != nil {
		return tiering.Shape{}, rates.Matmul{}, err
	}
	defer func() { _ = m.cache.Close() }()
	spec, w, cache := m.Spec, m.weights, m.cache
	s := tiering.Shape{RowBytes: int64(w.Embed.RowBytes()), Elements: passedElements(spec), ExpertsUsed: spec.ExpertsUsed, Experts: spec.Experts}
	s.KVInStream, s.HeadLookedUp = true, spec.Headless
	for i := range layouts {
		l := &layouts[i]
		l.AddTo(&s)
		s.KVInStream = s.KVInStream && (l.Kind != weights.LayerLayout || w.Layers[l.Layer].KVInStream(l))
	}
	s.OpsPerToken -= 2 * prunedMulAdds(w, spec)
	addPruned(&s, w, spec)
	if s.Embedding == 0 {
		s.Lookup = int64((weights.TiedLookupReaders - 1) * w.Embed.BufferBytes())
	}
	s.KVState = recurrent.Bytes(spec)
	s.KVFixed, s.KVBytesPerToken, s.KVPageTokens = kvSlack+s.KVState, cache.Shape().TokenBytes(), cache.PageTokens()
	s.Attended = attendedKV(m)
	if !o.Select.Exact() {
		s.Selection = o.Select.shape()
		s.KVSummaryPerToken = cache.Shape().SummaryBytes()
	}
	for l := range spec.Layers {
		s.KVUnit = max(s.KVUnit, int64(cache.PageBytes(l)))
	}
	s.KVPageOnFlash = cache.PageOnFlash()
	s.Convert = convert
	if o.W8A8 != nil {
		m.outliers = &outlierPath{m: m}
		s.OtherPinned += o.W8A8.residentBytes()
	}
	addScratch(&s, m, o.Threads)
	main := mainMatmul(layouts, spec)
	if !main.Integers {
		s.Elements /= floatElements
	}
	return s, main, nil
}

// addPruned adds what only tokens whose logits are wanted read.
func addPruned(s *tiering.Shape, w *weights.Weights, spec *arch.Spec) {
	n := len(w.Layers)
	if n < len(spec.Layers) || spec.Encoder.Bidirectional || spec.Layers[n-1].Mixer == arch.AttentionAndRecurrent {
		return
	}
	last := w.Layers[n-1]
	s.PrunedExperts = len(last.Experts) > 0
	last.Experts = nil
	var end Traffic
	end.addAfterKV(&last, spec)
	s.Pruned = end.WeightBytes
}

// floatElements is how much less an element besides the matmuls takes beside a matmul in float32 than beside one in integers,
// with which plans compare it: on processors with AVX-512 or AMX the former makes a fifth to a seventh of the operations in
// a second, and elements are not quantized for it.
const floatElements = 5

// mainMatmul returns the kind of matmul that makes most operations in layouts that have been described.
func mainMatmul(layouts []weights.Layout, spec *arch.Spec) (main rates.Matmul) {
	var kinds []rates.Matmul // without Cols
	ops, cols := map[rates.Matmul]float64{}, map[rates.Matmul]float64{}
	for i := range layouts {
		matrices, times := layouts[i].Matmuls(spec)
		for _, m := range matrices {
			kind, n := rates.Matmul{Type: m.Type, Integers: m.Tiled}, times*float64(m.Rows)*float64(m.Cols)
			if n > 0 && ops[kind] == 0 {
				kinds = append(kinds, kind)
			}
			ops[kind], cols[kind] = ops[kind]+n, cols[kind]+n*float64(m.Cols)
		}
	}
	if len(kinds) == 0 {
		return rates.Matmul{Type: quant.F32, Cols: rates.NearCols(spec.Dim)}
	}
	main = slices.MaxFunc(kinds, func(a, b rates.Matmul) int { return cmp.Compare(ops[a], ops[b]) })
	main.Cols = rates.NearCols(int(cols[main] / ops[main]))
	return main
}

// passedElements returns the elements of a token's hidden state that the layers norm, quantize and
// add besides the matmuls. Norms behind attention and the MLP are as many again. The routes of a
// token through an expert cost about a quarter of that, as measured with an OLMoE.
func passedElements(spec *arch.Spec) (elements int64) {
	dim := int64(spec.Dim)
	for i := range spec.Layers {
		elements += dim
		if spec.PreNorm && spec.PostNorm {
			elements += dim
		}
		if spec.Layers[i].Experts {
			elements += int64(spec.ExpertsUsed) * dim / 4
		}
	}
	return elements
}

// outlineModel returns a model whose weights have sizes but no data, the layouts of the weights,
// and the memory that converting them takes. The caller closes the model's cache.
func outlineModel(f *modelfile.Files, o ShapeOptions) (m *Model, layouts []weights.Layout, convert int64, err error) {
	spec, err := f.Spec()
	if err != nil {
		return nil, nil, 0, err
	}
	ts, err := f.TensorsFor(o.Exact || o.RowsOf != nil)
	if err != nil {
		return nil, nil, 0, err
	}
	ld := &weights.Loader{Tensors: ts, Spec: spec, Exact: o.Exact}
	w, layouts, err := ld.PlanHost(o.Offloaded)
	if err != nil {
		return nil, nil, 0, err
	}
	if o.Nested {
		layouts = ld.InPlanes(layouts)
	}
	m = &Model{Spec: spec, weights: w, selection: o.Select, nested: o.Nested}
	if o.RowsOf != nil {
		m.offload = &offloadDevice{}
		outlineSplit(w, layouts, o.RowsOf)
	}
	convert = ld.ConvertBytes(layouts)
	for i := range layouts {
		layouts[i].Describe()
	}
	if o.Offloaded > 0 {
		m.offloadedLayers = &offloadedLayers{placement: Placement{First: len(w.Layers), Layers: len(spec.Layers)}}
	} else if !w.Head.Present() {
		w.Head.Matrix = w.Embed.Matrix
	}
	if err := keepBeside(f, w); err != nil {
		return nil, nil, 0, err
	}
	m.cache, err = kv.NewCache(hostKV(m, o.KV), cmp.Or(o.budget, tiering.New(0)), kv.Options{PageTokens: o.KVPage, MayBeCold: o.KVCold})
	return m, layouts, convert, err
}

// outlineSplit limits layouts to the rows that the CPU has.
func outlineSplit(w *weights.Weights, layouts []weights.Layout, rowsOf func(weights.Matmul) weights.RowSplit) {
	for i := range layouts {
		layouts[i].Describe()
	}
	weights.OffloadRows(w, layouts, rowsOf)
	weights.KeepHostRows(w, layouts)
}

// AttachedBytes returns the bytes of the pass's buffers that a device attaches when rows are
// offloaded to it (see Options.Split) and a chunk has the given tokens.
func AttachedBytes(f *modelfile.Files, o ShapeOptions, chunk int) (int64, error) {
	m, _, _, err := outlineModel(f, o)
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
	_, row := m.weights.Embed.Unit()
	slack := scratchSlack + lookupSlack + max(s.Unit, int64(row))
	if s.Table > 0 {
		slack += lookupSlack + s.TableRow
	}
	if m.offloadedLayers.all() { // only rows of the embedding are looked up
		s.Scratch, s.Logits = tiering.Line{Fixed: slack}, tiering.Line{}
		return
	}
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
