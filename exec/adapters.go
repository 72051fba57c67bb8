package exec

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/tiering"
)

// Adapters beside the weights add B·(A·x) to the result of each matmul that they change, in float32, after its
// bias. A step first computes A·x of all its matmuls; the thread that computes a row of a matmul then adds B·(A·x)
// to it while the row is in the core's cache. A row of a batch uses the adapters of its sequence, and neighbouring
// rows that use the same one are computed together. A·x is a [quant.Dot], and B adds adapter by adapter and rank by
// rank, so that the bits depend neither on threads nor on other rows of the batch nor on where the weights are.

// ErrNoAdapter reports that a sequence asks for an adapter that the model does not have.
var ErrNoAdapter = errors.New("no adapter has this name")

// AdapterWeight is an adapter of a sequence, and the factor with which it changes the weights.
type AdapterWeight struct {
	Name   string
	Weight float32
}

// sequenceLora is which adapters beside the weights a sequence uses. It does not change while the sequence
// has tokens, and copies share the weights.
type sequenceLora struct {
	weights []float32 // of each adapter; 0: not used
	used    bool      // some adapter is used
	root    prefixID  // of the sequence's prefixes; zero without adapters that sequences choose
}

// newLora returns the adapters of a sequence that chooses none.
func newLora(w *weights.Weights) sequenceLora {
	l := sequenceLora{weights: make([]float32, len(w.Adapters))}
	for i, name := range w.Adapters {
		if name == "" {
			l.weights[i], l.used = 1, true
		}
	}
	return l
}

// UseAdapters chooses the adapters of the sequence, those with names, instead of the ones that it
// used before. Unless they are the same, the sequence is empty afterwards, because its keys and values
// would be others.
func UseAdapters(s *Sequence, list []AdapterWeight) error {
	names := s.model.weights.Adapters
	l := newLora(s.model.weights)
	for _, a := range list {
		i := slices.Index(names, a.Name)
		if i < 0 || a.Name == "" {
			return fmt.Errorf("%w: %q", ErrNoAdapter, a.Name)
		}
		l.weights[i] += a.Weight
	}
	l.used = slices.ContainsFunc(l.weights, func(w float32) bool { return w != 0 })
	l.setRoot(names)
	if slices.Equal(l.weights, s.lora.weights) {
		return nil
	}
	s.Truncate(0)
	s.lora = l
	return nil
}

// setRoot names the beginning of all prefixes that were computed with the adapters.
func (l *sequenceLora) setRoot(names []string) {
	var b []byte
	for i, w := range l.weights {
		if names[i] != "" && w != 0 {
			b = binary.LittleEndian.AppendUint32(b, uint32(i))
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(w))
		}
	}
	if len(b) > 0 {
		l.root = sha256.Sum256(b)
	}
}

// keepBeside gives the matrices of the layers their adapters.
func keepBeside(f *modelfile.Files, w *weights.Weights) error {
	if !f.HasBeside() {
		return nil
	}
	w.Adapters = f.BesideNames()
	matrices, err := weights.AllMatrices(f)
	if err != nil {
		return err
	}
	for l := range w.Layers {
		w.Layers[l].Each(func(role string, m *weights.Linear) {
			if s := matrices[modelfile.TensorName(role, l, ".weight")]; s != nil {
				m.Beside = f.Beside(s)
			}
		})
	}
	return f.CheckBeside()
}

const (
	// A thread computes A·x for this many ranks and tokens at a time.
	innerRanks, innerTokens = 8, 32
	// It decodes outerRanks ranks of a block of B, and prefetches, or adds to offloaded rows, outerRows rows.
	outerRanks, outerRows = 64, 256
)

// besidePass computes the adapters beside the matmuls of a step.
type besidePass struct {
	q      *matmulQueue
	width  int         // most floats of A·x for a token and a matrix
	latent int         // heads whose matrices of latent attention are changed
	inner  []float32   // A·x of the matmuls of a step, one behind the other
	sets   [][]float32 // [chunk] weights of the adapters for each row that is being computed
	used   bool        // some row of the batch uses an adapter

	innerPart, offloadedPart func(part, worker int)
	offloaded                *matmul // whose offloaded rows get their adapters
}

// addBeside prepares the pass for adapters beside the weights, if there are any.
func (q *matmulQueue) addBeside() {
	b := &besidePass{q: q}
	for l := range q.m.weights.Layers {
		w := &q.m.weights.Layers[l]
		w.Each(func(_ string, m *weights.Linear) { b.width = max(b.width, besideWidth(m)) })
		for h := range w.Latent.Keys {
			if besideWidth(&w.Latent.Keys[h]) > 0 {
				b.latent = len(w.Latent.Keys)
			}
		}
	}
	if b.width > 0 {
		b.innerPart, b.offloadedPart = b.multiplyInner, b.addOffloadedPart
		b.sets = make([][]float32, q.chunk)
		q.beside = b
	}
}

// besideWidth returns the floats of A·x for a token and a matrix, of all adapters.
func besideWidth(w *weights.Linear) (n int) {
	for i := range w.Beside {
		n += w.Beside[i].Rank
	}
	return n
}

// carve takes the buffers of a step: the four inputs of a delta net, or queries with gates, keys and values, or gate and up of the
// experts, or the heads of latent attention.
func (b *besidePass) carve(a *tiering.Arena) {
	b.inner = a.Floats(b.q.chunk * max(4, 2*b.q.m.Spec.ExpertsUsed, b.latent) * b.width)
	for i := range b.q.workers {
		b.q.workers[i].outer = a.Floats(outerRanks * modelfile.BlockRows)
	}
}

// begin notes which adapters the rows of a batch use. A nil b has none.
func (b *besidePass) begin(batch *Batch) {
	if b == nil {
		return
	}
	b.used = false
	for i := range batch.runs {
		r := &batch.runs[i]
		for row := range r.count {
			b.sets[r.row+row] = r.seq.lora.weights
		}
		b.used = b.used || r.seq.lora.used
	}
}

// prune keeps the rows of a batch that continue.
func (b *besidePass) prune(rows []int) {
	if b == nil {
		return
	}
	for i, row := range rows { // ascending
		b.sets[i] = b.sets[row]
	}
}

// weight returns how strongly a row of a matmul uses an adapter; 0: not at all.
func (b *besidePass) weight(mul *matmul, row, adapter int) float32 {
	if mul.source != nil {
		row = int(mul.source[row])
	}
	return b.sets[row][adapter]
}

// span returns the next neighbouring rows of a matmul, from row on and before end, that use an adapter equally
// strongly; from is end if there are none.
func (b *besidePass) span(mul *matmul, row, end, adapter int) (from, to int, weight float32) {
	for from = row; from < end; from++ {
		if weight = b.weight(mul, from, adapter); weight != 0 {
			break
		}
	}
	for to = min(from+1, end); to < end && b.weight(mul, to, adapter) == weight; to++ {
	}
	return from, to, weight
}

// run computes A·x of the queued matmuls, whose inputs are complete. A nil b has no adapters.
func (b *besidePass) run() {
	if b == nil || !b.used {
		return
	}
	parts, at := 0, 0
	for i := range b.q.matmuls {
		mul := &b.q.matmuls[i]
		mul.inner, mul.partsBefore = nil, parts
		if width := besideWidth(mul.w); width > 0 {
			mul.inner = b.inner[at:][:mul.n*width]
			at += mul.n * width
			parts += besideParts(mul)
		}
	}
	b.q.m.workers.Run(parts, b.innerPart)
}

// besideParts returns the number of parts of A·x of a matmul.
func besideParts(mul *matmul) (n int) {
	for i := range mul.w.Beside {
		n += ceilDiv(mul.w.Beside[i].Rank, innerRanks)
	}
	return n * ceilDiv(mul.n, innerTokens)
}

func ceilDiv(n, by int) int { return (n + by - 1) / by }

// multiplyInner computes a part of A·x: some ranks of an adapter for some tokens.
func (b *besidePass) multiplyInner(part, worker int) {
	i := len(b.q.matmuls) - 1
	for b.q.matmuls[i].partsBefore > part || b.q.matmuls[i].inner == nil {
		i--
	}
	mul, at := &b.q.matmuls[i], 0
	tokens := ceilDiv(mul.n, innerTokens)
	row, block := (part-mul.partsBefore)%tokens*innerTokens, (part-mul.partsBefore)/tokens
	for j := range mul.w.Beside {
		l := &mul.w.Beside[j]
		if blocks := ceilDiv(l.Rank, innerRanks); block >= blocks {
			block, at = block-blocks, at+l.Rank
			continue
		}
		lo := block * innerRanks
		b.multiplyRanks(mul, l, at, lo, min(lo+innerRanks, l.Rank), row, worker)
		return
	}
}

// multiplyRanks computes the ranks lo to hi of an adapter's A·x for innerTokens tokens from row on. The adapter's first
// rank is at of a row's.
func (b *besidePass) multiplyRanks(mul *matmul, l *modelfile.LowRank, at, lo, hi, row, worker int) {
	for end := min(row+innerTokens, mul.n); row < end; {
		from, to, weight := b.span(mul, row, end, l.Adapter)
		b.multiplySpan(mul, l, at, lo, hi, from, to, worker)
		for r := from; r < to; r++ {
			quant.Scale(mul.inner[r*besideWidth(mul.w)+at:][lo:hi], l.Scale*weight)
		}
		row = to
	}
}

// multiplySpan is multiplyRanks for the tokens from to to, without the scale.
func (b *besidePass) multiplySpan(mul *matmul, l *modelfile.LowRank, at, lo, hi, from, to, worker int) {
	width, cols := besideWidth(mul.w), mul.w.Cols
	a, scratch := l.A[lo*cols*l.Type.BlockBytes():], b.q.workers[worker].scratch
	if mul.rowIndex == nil && from < to {
		quant.MulRows(mul.inner[from*width+at+lo:], width, l.Type, a, cols, 0, hi-lo, mul.x[from*cols:], to-from, scratch)
		return
	}
	for r := from; r < to; r++ {
		quant.MulRows(mul.inner[r*width+at+lo:], width, l.Type, a, cols, 0, hi-lo, mul.row(r), 1, scratch)
	}
}

// prefetch begins to read the rows lo to hi of B. They are short, so that each would be awaited.
func (b *besidePass) prefetch(mul *matmul, lo, hi int) {
	if mul.inner == nil {
		return
	}
	for j := range mul.w.Beside {
		row, end := mul.w.Beside[j].Run(lo, min(hi, lo+outerRows))
		blocks, _ := mul.w.Beside[j].Blocks(row, row+end-lo)
		quant.Prefetch(blocks)
	}
}

// addTo adds B·(A·x) to the rows lo to hi of a matmul. y is a matrix of width columns whose first column
// belongs to the row first.
func (b *besidePass) addTo(y []float32 /* [n, width] */, width, first int, mul *matmul, lo, hi, worker int) {
	if mul.inner == nil {
		return
	}
	at := 0
	for j := range mul.w.Beside {
		l := &mul.w.Beside[j]
		for row := 0; row < mul.n; {
			from, to, _ := b.span(mul, row, mul.n, l.Adapter)
			if row = to; from < to {
				b.addRuns(y[from*width+lo-first:], width, mul, l, at, from, to, lo, hi, worker)
			}
		}
		at += l.Rank
	}
}

// addRuns adds an adapter's B·(A·x) to the rows lo to hi of a matmul, for the tokens from to to. y begins at the
// first of these elements.
func (b *besidePass) addRuns(y []float32, width int, mul *matmul, l *modelfile.LowRank, at, from, to, lo, hi, worker int) {
	for {
		row, end := l.Run(lo, hi)
		b.addRanks(y, width, mul, l, at, from, to, row, row+end-lo, worker)
		if end == hi {
			return
		}
		y, lo = y[end-lo:], end
	}
}

// addRanks is addRuns for rows that are the neighbours lo to hi of B.
func (b *besidePass) addRanks(y []float32, width int, mul *matmul, l *modelfile.LowRank, at, from, to, lo, hi, worker int) {
	innerWidth := besideWidth(mul.w)
	inner := mul.inner[from*innerWidth+at:]
	outer := b.q.workers[worker].outer
	blocks, before := l.Blocks(lo, hi)
	for ; lo < hi; blocks, before = blocks[l.BlockBytes():], 0 {
		n := min(modelfile.BlockRows-before, hi-lo)
		for rank := 0; rank < l.Rank; rank += outerRanks {
			ranks := min(outerRanks, l.Rank-rank)
			part := blocks[rank*modelfile.BlockRows*l.Type.BlockBytes():]
			quant.DequantRow(l.Type, outer[:ranks*modelfile.BlockRows], part)
			quant.WeightedSum(y, width, inner[rank:], innerWidth, outer[before:], modelfile.BlockRows, ranks, n, to-from)
		}
		if lo += n; lo < hi {
			y = y[n:]
		}
	}
}

// addOffloaded adds the adapters to the rows that another device has computed.
func (b *besidePass) addOffloaded() {
	if b == nil || b.q.err != nil || b.q.m.offload == nil || !b.used {
		return
	}
	for i := range b.q.matmuls {
		if mul := &b.q.matmuls[i]; mul.inner != nil && mul.cpuRows() < mul.w.Rows {
			b.offloaded = mul
			b.q.m.workers.Run(ceilDiv(mul.w.Rows-mul.cpuRows(), outerRows), b.offloadedPart)
		}
	}
}

func (b *besidePass) addOffloadedPart(part, worker int) {
	mul := b.offloaded
	lo := mul.cpuRows() + part*outerRows
	b.addTo(mul.y, mul.w.Rows, 0, mul, lo, min(lo+outerRows, mul.w.Rows), worker)
}
