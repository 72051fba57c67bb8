package exec

import (
	"strings"

	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/quant/tiled"
	"github.com/llmrun/llmrun/store/pack"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// PinGranule is what the part of a section that is streamed is a multiple of: whole
// blocks of a pack, and as much as one read asks for.
const PinGranule = 16 * pack.BlockBytes

// kvSlack is what pages of keys and values take more than is in them: their memory
// grows in steps of huge pages.
const kvSlack = 2 << 20

// ShapeOptions are the choices that a model's size in memory depends on.
type ShapeOptions struct {
	Threads int // that compute
	KV      kv.Format
	KVPage  int  // see Options
	KVCold  bool // keys and values may go to flash
	Select  Selection
	Exact   bool
	W8A8    *W8A8 // see Options
}

// Shape returns what a plan for the model's memory starts from. It reads no
// weights, only checks that they are there.
func (f *Files) Shape(o ShapeOptions) (tiering.Shape, error) {
	m, plans, err := f.outline(o)
	if err != nil {
		return tiering.Shape{}, err
	}
	defer func() { _ = m.cache.Close() }()
	spec, w, cache := m.Spec, m.weights, m.cache
	s := tiering.Shape{RowBytes: int64(w.embed.rowBytes()), Width: spec.Dim, ExpertsUsed: spec.ExpertsUsed, Experts: spec.Experts}
	for i := range plans {
		plans[i].addTo(&s)
	}
	s.OpsPerToken -= 2 * w.endMulAdds(spec)
	if s.Embedding == 0 {
		s.Lookup = int64((tiedReaders - 1) * w.embed.bufferBytes())
	}
	s.KVFixed, s.KVBytesPerToken, s.KVPageTokens = kvSlack, cache.Shape().TokenBytes(), cache.PageTokens()
	if !o.Select.Exact() {
		s.KVSummaryPerToken = cache.Shape().SummaryBytes()
	}
	for l := range spec.Layers {
		s.KVUnit = max(s.KVUnit, int64(cache.PageBytes(l)))
	}
	if o.W8A8 != nil {
		m.shadow = &shadow{m: m}
		s.Beside += o.W8A8.residentBytes()
	}
	addScratch(&s, m, o.Threads)
	return s, nil
}

// outline returns a model that has no weights, only their sizes, and how they would be
// laid out. Its cache is to be closed.
func (f *Files) outline(o ShapeOptions) (*Model, []layout, error) {
	spec, err := f.Spec()
	if err != nil {
		return nil, nil, err
	}
	ld := &loader{ts: f.tensors(), spec: spec, exact: o.Exact}
	w := &weights{layers: make([]layerWeights, len(spec.Layers))}
	plans, err := ld.planAll(w)
	if err != nil {
		return nil, nil, err
	}
	for i := range plans {
		plans[i].describe()
	}
	if !w.head.present() {
		w.head.Matrix = w.embed.Matrix
	}
	cache, err := kv.NewCache(spec.KVShape(o.KV), tiering.New(0), kv.Options{PageTokens: o.KVPage, MayBeCold: o.KVCold})
	if err != nil {
		return nil, nil, err
	}
	return &Model{Spec: spec, weights: w, cache: cache, selection: o.Select}, plans, nil
}

// AttachedBytes returns how many bytes of buffers a device attaches that has part in
// the model's products, see Options.Divide, with passes of so many tokens.
func (f *Files) AttachedBytes(o ShapeOptions, chunk int) (int64, error) {
	m, _, err := f.outline(o)
	if err != nil {
		return 0, err
	}
	defer func() { _ = m.cache.Close() }()
	m.away = &away{}
	if o.W8A8 != nil {
		m.shadow = &shadow{m: m}
	}
	return scratchBytes(m, chunk, o.Threads, (*pass).carve), nil
}

// describe sets the sizes of the layout's matrices, but not their bytes.
func (l *layout) describe() {
	l.place()
	for i := range l.places {
		p := &l.places[i]
		if p.matrix != nil {
			*p.matrix = Matrix{Type: p.slot.typ, Rows: p.slot.rows, Cols: p.slot.cols, Tiled: p.tile}
		}
	}
}

// addTo adds the layout to the shape of its model.
func (l *layout) addTo(s *tiering.Shape) {
	bytes := int64(l.size)
	switch l.kind {
	case embeddingLayout:
		s.Embedding = bytes
		return
	case expertLayout:
		if strings.HasSuffix(l.name, ".0") { // the others of the layer have its sizes
			s.ExpertLayers++
			s.OpsPerToken += int64(s.ExpertsUsed) * l.ops()
		}
		s.ExpertBytes = max(s.ExpertBytes, int64(vfs.DirectSize(l.size)))
		return
	case endsLayout:
		s.Head = tiering.Section{Name: l.name, Bytes: bytes, Granule: PinGranule, Block: pack.BlockBytes}
	default:
		s.Layers = append(s.Layers, tiering.Section{Name: l.name, Bytes: bytes, Granule: PinGranule, Block: pack.BlockBytes})
		s.OpsPerToken += l.ops()
	}
	l.addUnits(s)
}

// addUnits adds what of a layout's tensors cannot be cut as one likes: vectors,
// and the tiles or rows of matrices.
func (l *layout) addUnits(s *tiering.Shape) {
	for i := range l.places {
		p := &l.places[i]
		switch {
		case p.vector != nil:
			s.Vectors += int64(loadAligned(p.bytes()))
		case p.tile:
			s.Unit = max(s.Unit, tiled.TileRows*int64(p.matrix.rowBytes()))
		default:
			s.Unit = max(s.Unit, int64(p.matrix.rowBytes()))
		}
	}
}

// ops returns how many products and sums the layout's matrices ask for, if all
// of them are multiplied with one token.
func (l *layout) ops() (n int64) {
	for i := range l.places {
		if m := l.places[i].matrix; m != nil {
			n += 2 * int64(m.Rows) * int64(m.Cols)
		}
	}
	return n
}

// KVShape returns the sizes of the model's keys and values in a format.
func (s *Spec) KVShape(format kv.Format) kv.Shape {
	shape := kv.Shape{HeadDim: s.HeadDim, KVHeads: make([]int, len(s.Layers)), Format: format}
	for l := range s.Layers {
		shape.KVHeads[l] = s.Layers[l].KVHeads
	}
	return shape
}

// shapeChunks are the chunks whose scratch memory is measured; between them it
// grows evenly.
var shapeChunks = [2]int{16, 1024}

// addScratch measures what a pass's buffers take, by carving them out of nothing.
func addScratch(s *tiering.Shape, m *Model, threads int) {
	slack := scratchSlack + lookupSlack + s.Unit
	s.Scratch = scratchLine(m, threads, slack, (*pass).carveLayer)
	s.Logits = scratchLine(m, threads, slack, (*pass).carveOutput)
}

// scratchLine measures buffers of which only one of the parts that lie over each
// other is there.
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
	// scratchSlack is by how much buffers may grow unevenly: each is rounded up.
	scratchSlack = 256 << 10
	// lookupSlack is what looking up a row of an embedding on flash takes, besides
	// the unit that holds it: the pack's blocks around it.
	lookupSlack = 2*pack.BlockBytes + vfs.DirectAlign
)

// scratchBytes returns the size of a pass's buffers.
func scratchBytes(m *Model, chunk, threads int, carve func(*pass, *tiering.Arena)) int64 {
	p := &pass{m: m, chunk: chunk, workers: make([]workspace, threads)}
	p.addShadow()
	var probe tiering.Arena
	carve(p, &probe)
	return int64(probe.Need())
}
