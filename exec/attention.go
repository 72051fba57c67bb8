package exec

import (
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/quant/tiled"
	"github.com/llmrun/llmrun/tiering"
)

// Attention is computed in tiles: some consecutive tokens of one sequence and
// the query heads that share one key head. A tile walks the stored tokens in
// blocks, with a running maximum and sum (online softmax). Blocks are merged
// in order inside a span; each span starts afresh, and spans are merged in
// order. A span is the unit that threads can share when there are few tiles, as
// in decoding with a long context; because results are merged by spans in any
// case, sharing does not change them.

// spanBlocks is part of the arithmetic contract.
const spanBlocks = 16

const spanTokens = spanBlocks * kv.BlockTokens

// All that work on blocks mean the same.
var (
	_ [kv.BlockTokens]struct{} = [quant.BlockTokens]struct{}{}
	_ [kv.BlockTokens]struct{} = [tiled.KeyBlock]struct{}{}
)

// tileQueries is about how many queries a tile has: enough that a block of
// keys is read from cache once for many.
const tileQueries = 32

// tile is consecutive rows of one sequence.
type tile struct {
	seq   *Sequence
	row   int // first row in the batch
	pos   int // its position in the sequence
	count int
}

// tileRows returns how many rows make a full tile.
func (p *pass) tileRows(kvHeads int) int {
	return max(1, tileQueries*kvHeads/p.m.Spec.Heads)
}

// maxTileQueries returns the most queries that a tile of any layer has.
func (p *pass) maxTileQueries() int {
	most := 1
	for _, l := range p.m.Spec.Layers {
		if l.KVHeads > 0 {
			most = max(most, p.tileRows(l.KVHeads)*p.m.Spec.Heads/l.KVHeads)
		}
	}
	return most
}

// stateWidth is the floats of one query's softmax state: weighted values, then
// the maximum and the sum of weights.
func (p *pass) stateWidth() int { return p.m.Spec.HeadDim + 2 }

// carveWorkers takes what each thread needs. Some of it stays zero, so nothing else
// may lie there.
func (p *pass) carveWorkers(a *tiering.Arena) {
	queries, wide := p.maxTileQueries(), p.multipliesWide()
	for i := range p.workers {
		w := &p.workers[i]
		w.tileMemory = a.Floats(tiled.ScratchFloats(p.chunk, wide))
		w.scores = a.Floats(tiled.PaddedTokens(queries) * kv.BlockTokens)
		w.acc = a.Floats(queries * p.stateWidth())
		w.span = a.Floats(queries * p.stateWidth())
		switch format := p.m.cache.Shape().Format; {
		case format == kv.F16:
			w.values = a.Floats(kv.BlockTokens * p.m.Spec.HeadDim)
		case format.Codes():
			cols := kv.KeyCols(p.m.Spec.HeadDim)
			w.padded = a.Floats(cols)
			w.rounded = a.Floats(tiled.FloatsNeeded(cols, queries))
		}
	}
}

// carveAttention takes what is handed on between steps of attention.
func (p *pass) carveAttention(a *tiering.Arena) {
	for i := range p.kept {
		p.kept[i] = a.Floats(p.coldFloats())
	}
	// Shared spans: a state for every head and span of a few short tiles.
	spans := p.m.Spec.Context/spanTokens + 1
	p.spans = a.Floats(min(spans, maxSharedSpans) * p.m.Spec.Heads * p.stateWidth())
}

// maxSharedSpans bounds the memory for shared spans; a context beyond it is
// walked by one thread for each key head.
const maxSharedSpans = 512

// attention computes the attention part of a layer into mix.
func (p *pass) attention(in []float32 /* [n, Dim] */) {
	some := p.goesOn(0, p.n)
	if some {
		p.add(&p.w.Q, in, p.n, p.q)
	}
	p.add(&p.w.K, in, p.n, p.k)
	p.add(&p.w.V, in, p.n, p.v)
	p.foresee(&p.w.O)
	p.multiply()
	p.overRows(p.n, p.rowPart)
	p.chooseBlocks()
	if !some {
		p.narrow()
		return
	}
	p.planTiles()
	p.attendCold()
	if spans := p.sharedSpans(); spans > 1 {
		p.split = true
		p.runAttention(p.layer.KVHeads * spans)
		p.split = false
		p.m.workers.Run(p.layer.KVHeads, p.mergePart)
	} else {
		p.runAttention(len(p.tiles) * p.layer.KVHeads)
	}
	p.narrow()
	p.add(&p.w.O, p.att, p.n, p.mix)
	p.foreseeMLP()
	p.multiply()
}

// planTiles cuts the batch's runs into tiles for the current layer. Tiles whose rows
// go no further are left out.
func (p *pass) planTiles() {
	p.tiles = p.tiles[:0]
	rows := p.tileRows(p.layer.KVHeads)
	if p.chooser.on {
		rows = 1 // each looks at other blocks
	}
	for _, r := range p.batch.runs {
		for at := 0; at < r.count; at += rows {
			t := tile{r.seq, r.row + at, r.pos + at, min(rows, r.count-at)}
			if p.goesOn(t.row, t.count) {
				p.tiles = append(p.tiles, t)
			}
		}
	}
}

// sharedSpans returns into how many spans the threads divide the only tile of a
// single token, or 0 when there is enough to do without.
func (p *pass) sharedSpans() int {
	if p.n != 1 || len(p.workers) == 1 || p.layer.KVHeads >= 4*len(p.workers) {
		return 0
	}
	first, last := p.spanRange(p.tiles[0])
	if last-first > maxSharedSpans {
		return 0
	}
	return last - first
}

// spanRange returns the spans [first, last) that some row of a tile sees and of which
// not all was looked at as it landed.
func (p *pass) spanRange(t tile) (first, last int) {
	return p.firstHot(t) / spanBlocks, (t.pos+t.count-1)/spanTokens + 1
}

// firstBlock returns the first block that some row of a tile sees.
func (p *pass) firstBlock(t tile) int {
	if w := p.layer.Window; w > 0 {
		return max(0, t.pos-w+1) / kv.BlockTokens
	}
	return 0
}

// firstHot returns the first block that some row of a tile sees and that has not been
// looked at.
func (p *pass) firstHot(t tile) int { return max(p.firstBlock(t), p.passedBlocks(t.seq)) }

// attend does one part: a tile and key head, or one of the shared spans. What has
// landed and waits for that comes first.
func (p *pass) attend(part, worker int) {
	others := p.landedParts()
	if part < others {
		p.useLanded(part)
		return
	}
	part -= others
	w := &p.workers[worker]
	if p.split {
		first, last := p.spanRange(p.tiles[0])
		spans := last - first
		p.roundQueries(w, p.tiles[0], part/spans)
		p.spanState(w, p.sharedState(part), p.tiles[0], part/spans, first+part%spans)
		return
	}
	t, kvHead := p.tiles[part/p.layer.KVHeads], part%p.layer.KVHeads
	queries := t.count * p.m.Spec.Heads / p.layer.KVHeads
	acc := w.acc[:queries*p.stateWidth()]
	p.beginAcc(acc, t, kvHead, p.passedBlocks(t.seq))
	p.roundQueries(w, t, kvHead)
	first, last := p.spanRange(t)
	for span := first; span < last; span++ {
		state := w.span[:len(acc)]
		p.spanState(w, state, t, kvHead, span)
		p.mergeState(acc, state)
	}
	p.finish(t, kvHead, acc)
}

// sharedState is where a shared span's result waits to be merged: the states of
// the heads that share the key head.
func (p *pass) sharedState(part int) []float32 {
	n := p.m.Spec.Heads / p.layer.KVHeads * p.stateWidth()
	return p.spans[part*n : (part+1)*n]
}

// merge puts the shared spans of one key head together.
func (p *pass) merge(kvHead, worker int) {
	first, last := p.spanRange(p.tiles[0])
	spans := last - first
	acc := p.workers[worker].acc[:p.m.Spec.Heads/p.layer.KVHeads*p.stateWidth()]
	p.beginAcc(acc, p.tiles[0], kvHead, p.passedBlocks(p.tiles[0].seq))
	for i := range spans {
		p.mergeState(acc, p.sharedState(kvHead*spans+i))
	}
	p.finish(p.tiles[0], kvHead, acc)
}

// spanState computes the softmax state of a tile over one span.
func (p *pass) spanState(w *workspace, state []float32, t tile, kvHead, span int) {
	firstBlock := span * spanBlocks
	p.beginSpan(state, t, kvHead, p.passedBlocks(t.seq), firstBlock)
	firstBlock = max(firstBlock, p.firstHot(t))
	final := (t.pos + t.count - 1) / kv.BlockTokens
	for block := p.nextBlock(t, firstBlock); block <= min((span+1)*spanBlocks-1, final); {
		next := p.nextBlock(t, block+1)
		p.blockState(w, state, t, kvHead, block, min(next, final))
		block = next
	}
}

// roundQueries rounds a tile's queries to 8 bits where keys are kept in codes.
func (p *pass) roundQueries(w *workspace, t tile, kvHead int) {
	if !p.m.cache.Shape().Format.Codes() {
		return
	}
	d := p.m.Spec.HeadDim
	q := p.queries(kvHead, t.row, t.count)
	cols := kv.KeyCols(d)
	w.queries.Use(w.rounded, cols, len(q)/d)
	for i := range len(q) / d {
		row := q[i*d : (i+1)*d]
		if cols != d {
			copy(w.padded, row) // what follows stays zero
			row = w.padded
		}
		w.queries.Set(i, row)
	}
}

// share returns where a head's keys and values of a block lie.
func (p *pass) share(t tile, kvHead, block int) []byte {
	if len(p.landed.pages) > 0 && block < p.landed.block+p.landed.count {
		return p.landedShare(kvHead, block-p.landed.block)
	}
	return t.seq.kv.Share(p.index, kvHead, block)
}

// landedShare is share for one of the blocks that have landed.
func (p *pass) landedShare(kvHead, at int) []byte {
	blocks := p.m.cache.PageBlocks()
	return p.m.cache.Shape().Share(p.landed.pages[at/blocks].data, p.index, kvHead, at%blocks)
}

// blockState merges one block of tokens into the states of a tile's queries.
// The block next will follow.
func (p *pass) blockState(w *workspace, state []float32, t tile, kvHead, block, next int) {
	p.sumShare(kvHead, block)
	shape := p.m.cache.Shape()
	if shape.Format.Codes() {
		p.block8State(w, state, t, kvHead, block, next)
		return
	}
	d, width := p.m.Spec.HeadDim, p.stateWidth()
	group := p.m.Spec.Heads / p.layer.KVHeads
	queries := t.count * group
	start := block * kv.BlockTokens
	tokens := min(kv.BlockTokens, t.pos+t.count-start) // that the last row sees
	scores := w.scores[:queries*kv.BlockTokens]
	q, share := p.queries(kvHead, t.row, t.count), p.share(t, kvHead, block)
	var values []float32
	if shape.Format == kv.F16 {
		values = p.scores16(w, scores, q, share, tokens)
	} else {
		var keys []float32
		keys, values = shape.Block(share)
		quant.MulRowsF32(scores, kv.BlockTokens, keys, d, tokens, d, q, d, queries)
	}
	for i := range queries {
		p.weigh(scores[i*kv.BlockTokens:][:tokens], state[i*width:(i+1)*width], t.pos+i/group, start)
	}
	quant.WeightedSum(state, width, scores, kv.BlockTokens, values, d, tokens, d, queries)
}

// visible has a bit for each token of the block from start on that the token at
// pos sees.
func (p *pass) visible(pos, start int) uint64 {
	all := ^uint64(0) // of a word with a bit for each token of a block
	if pos < start {
		return 0
	}
	seen := all >> max(0, kv.BlockTokens-1-(pos-start))
	if win := p.layer.Window; win > 0 {
		seen &= all << max(0, pos-win+1-start)
	}
	return seen
}
