package exec

import (
	"sync"

	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/kv/fetch"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/quant/tiled"
	"github.com/llmrun/llmrun/tiering"
)

// Attention runs in tiles. A tile is some consecutive tokens of one sequence and the query heads
// that share one key head. It walks the stored tokens in blocks with a running maximum and sum
// (online softmax). Blocks are merged in order inside a span; each span starts with an empty
// state, and spans are merged in order. When there are few tiles, as in decoding with a long
// context, threads share the spans of a tile. Results are merged by spans in every case, so
// sharing does not change them.

// spanBlocks is the number of blocks in a span. It is part of the arithmetic contract.
const spanBlocks = 16

const spanTokens = spanBlocks * kv.BlockTokens

// The KV cache and all kernels use one block size.
var (
	_ [kv.BlockTokens]struct{} = [quant.BlockTokens]struct{}{}
	_ [kv.BlockTokens]struct{} = [tiled.KeyBlock]struct{}{}
)

// tileQueries is the approximate number of queries of a tile: enough to read a block of keys
// from the cache once for many queries.
const tileQueries = 32

// attention computes the attention of a layer over the pages of a batch's sequences, in memory
// and on flash.
type attention struct {
	*passState
	tiles       []tile
	sharesSpans bool         // threads share the spans of the only tile
	spans       []float32    // states of shared spans, before mergeSpans
	tileStates  [2][]float32 // [KVHeads, stateRows, group, stateWidth] states that tiles save between groups of pages
	fetched     pageGroup    // pages that are being attended together
	shared      sharedAttention
	pages       []fetch.Page       // memory of fetched.pages
	checks      fetch.PageChecksum // of fetched
	fetchedMu   sync.Mutex         // guards fetched.err
	selector    pageSelector       // chooses the blocks that rows attend to

	attendPart, mergePart, groupPart func(part, worker int)
}

// makeParts creates the method values once, because creating one allocates.
func (a *attention) makeParts() {
	a.attendPart, a.mergePart, a.groupPart = a.attend, a.mergeSpans, a.attendGroupPart
	a.shared.roundSpanPart, a.shared.mergeRoundPart = a.shared.attendRoundSpan, a.shared.mergeRound
	a.selector.makeParts()
}

// tile is consecutive rows that attend together: of one sequence, or of several for pages that they share.
type tile struct {
	seq   *Sequence // the sequence, or one of several
	row   int       // first row in the batch
	pos   int       // its position in the sequence; for several sequences, one behind the pages
	count int
	end   int // position behind the last token that a row attends to
	// saved is the row of tileStates that has the state of the first row, and merged the number of
	// blocks that were attended together with other sequences.
	saved, merged int
	// selected has a 1 for each block that the tile attends to; nil: all blocks.
	selected []byte
}

// tileRows returns the rows of a full tile.
func (s *passState) tileRows(kvHeads int) int {
	return max(1, tileQueries*kvHeads/s.m.Spec.Heads)
}

// maxTileQueries returns the maximum number of queries of a tile in any layer.
func (s *passState) maxTileQueries() int {
	most := 1
	for _, l := range s.m.Spec.Layers {
		if l.KVHeads > 0 {
			most = max(most, s.tileRows(l.KVHeads)*s.m.Spec.Heads/l.KVHeads)
		}
	}
	return most
}

// carveWorkers takes each thread's working memory. Some of it must stay zero, so it shares
// memory with nothing else.
func (p *pass) carveWorkers(a *tiering.Arena) {
	queries, wide, joined := p.attn.maxTileQueries(), p.hasWideTypes(), joinedBytes(p.m)
	for i := range p.workers {
		w := &p.workers[i]
		w.tileMemory = a.Floats(tiled.ScratchFloats(p.chunk, wide))
		w.joined = a.Bytes(joined)
		w.scores = a.Floats(tiled.PaddedTokens(queries) * kv.BlockTokens)
		w.acc = a.Floats(queries * p.widestState())
		w.span = a.Floats(queries * p.widestState())
		switch format := p.m.cache.Shape().Format; {
		case format == kv.F16:
			w.values = a.Floats(kv.BlockTokens * p.m.Spec.HeadDim)
		case format.Codes():
			if l := p.m.Spec.Latent; l.Rank > 0 {
				w.latent = a.Int8s(kv.BlockTokens * l.Rank)
			}
			cols := kv.KeyCols(p.m.Spec.HeadDim)
			w.paddedQuery = a.Floats(cols)
			w.queryMemory = a.Floats(tiled.FloatsNeeded(cols, queries))
		}
	}
}

// carve takes the buffers that carry state between steps of attention.
func (a *attention) carve(arena *tiering.Arena) {
	for i := range a.tileStates {
		a.tileStates[i] = arena.Floats(a.stateRows() * a.m.Spec.Heads * a.widestState())
	}
	// Shared spans have one state for each head and span of a single token, rounds one for each part.
	spans := a.m.Spec.Context/spanTokens + 1
	a.spans = arena.Floats(max(min(spans, maxSharedSpans)*a.m.Spec.Heads*a.widestState(), a.shared.roundFloats()))
}

// maxSharedSpans bounds the memory for shared spans. In a longer context, one thread walks all
// spans of a key head.
const maxSharedSpans = 512

// attendMemory attends to the pages in memory and writes the output of attention.
func (a *attention) attendMemory() {
	a.shared.attendShared()
	if spans := a.spansToShare(); spans > 1 {
		a.sharesSpans = true
		a.run(a.layer.KVHeads * spans)
		a.sharesSpans = false
		a.m.workers.Run(a.layer.KVHeads, a.mergePart)
	} else {
		a.run(len(a.tiles) * a.layer.KVHeads)
	}
	if a.selector.on && a.fetched.joinsResident && a.err == nil {
		a.m.pickedPages.Keep()
	}
}

// planTiles cuts the batch's runs into tiles for the current layer. It omits tiles in which no
// row continues past attention.
func (a *attention) planTiles() {
	a.tiles = a.tiles[:0]
	for _, r := range a.batch.runs {
		rows, selects := a.tileRows(a.layer.KVHeads), a.selector.on && r.selects
		if selects {
			rows = 1 // each row has its own selection of blocks
		}
		for at := 0; at < r.count; at += rows {
			t := tile{seq: r.seq, row: r.row + at, pos: r.pos + at, count: min(rows, r.count-at), saved: r.saved + at}
			t.end = a.attendedEnd(&r, t.pos+t.count-1)
			if !a.anyWanted(t.row, t.count) {
				continue
			}
			switch {
			case selects:
				t.selected = a.selector.choice(t.row)
			case a.layer.Window == 0:
				t.merged = r.merged * a.m.cache.PageBlocks()
			}
			a.tiles = append(a.tiles, t)
		}
	}
}

// spansToShare returns how many spans of the only tile the threads share, or 0 if the tiles and
// key heads give enough parts for all threads.
func (a *attention) spansToShare() int {
	if a.n != 1 || len(a.workers) == 1 || a.layer.KVHeads >= 4*len(a.workers) {
		return 0
	}
	first, last := a.spanRange(a.tiles[0])
	if last-first > maxSharedSpans {
		return 0
	}
	return last - first
}

// spanRange returns the spans [first, last) that hold blocks which some row of a tile attends to
// and which are not merged yet.
func (a *attention) spanRange(t tile) (first, last int) {
	return a.firstUnmerged(t) / spanBlocks, (t.end-1)/spanTokens + 1
}

// firstBlock returns the first block that some row of a tile attends to.
func (s *passState) firstBlock(t tile) int {
	if w := s.layer.Window; w > 0 {
		return max(0, t.pos-w+1) / kv.BlockTokens
	}
	return 0
}

// firstUnmerged returns the first block that some row of a tile attends to and that is not merged yet.
func (a *attention) firstUnmerged(t tile) int { return max(a.firstBlock(t), a.mergedBlocks(t)) }

// attend runs one part. The first parts are the work on pages from flash that join the pages in
// memory. Each other part is a tile and key head, or one shared span.
func (a *attention) attend(part, worker int) {
	groupParts := a.groupParts()
	switch w := &a.workers[worker]; {
	case part < groupParts:
		a.runGroupPart(part)
	case a.sharesSpans:
		a.attendSpan(w, part-groupParts)
	default:
		a.attendTile(w, part-groupParts)
	}
}

// attendSpan attends to one shared span of a single token.
func (a *attention) attendSpan(w *workspace, part int) {
	t := a.tiles[0]
	first, last := a.spanRange(t)
	spans := last - first
	a.quantizeQueries(w, t, part/spans)
	a.spanState(w, a.spanResult(part), t, part/spans, first+part%spans)
}

// attendTile attends to all spans of a tile and key head.
func (a *attention) attendTile(w *workspace, part int) {
	t, kvHead := a.tiles[part/a.layer.KVHeads], part%a.layer.KVHeads
	queries := t.count * a.m.Spec.Heads / a.layer.KVHeads
	acc := w.acc[:queries*a.stateWidth()]
	a.beginAcc(acc, t, kvHead, a.mergedBlocks(t))
	a.quantizeQueries(w, t, kvHead)
	first, last := a.spanRange(t)
	for span := first; span < last; span++ {
		state := w.span[:len(acc)]
		a.spanState(w, state, t, kvHead, span)
		a.mergeState(acc, state)
	}
	a.finishTile(t, kvHead, acc)
}

// spanResult returns the buffer of a shared span's result: the states of the heads that share
// the key head.
func (a *attention) spanResult(part int) []float32 {
	n := a.m.Spec.Heads / a.layer.KVHeads * a.stateWidth()
	return a.spans[part*n : (part+1)*n]
}

// mergeSpans merges the shared spans of one key head.
func (a *attention) mergeSpans(kvHead, worker int) {
	first, last := a.spanRange(a.tiles[0])
	spans := last - first
	acc := a.workers[worker].acc[:a.m.Spec.Heads/a.layer.KVHeads*a.stateWidth()]
	a.beginAcc(acc, a.tiles[0], kvHead, a.mergedBlocks(a.tiles[0]))
	for i := range spans {
		a.mergeState(acc, a.spanResult(kvHead*spans+i))
	}
	a.finishTile(a.tiles[0], kvHead, acc)
}

// spanState computes the softmax state of a tile over one span.
func (a *attention) spanState(w *workspace, state []float32, t tile, kvHead, span int) {
	firstBlock := span * spanBlocks
	a.beginSpan(state, t, kvHead, a.mergedBlocks(t), firstBlock)
	firstBlock = max(firstBlock, a.firstUnmerged(t))
	final := (t.end - 1) / kv.BlockTokens
	for block := t.nextBlock(firstBlock); block <= min((span+1)*spanBlocks-1, final); {
		next := t.nextBlock(block + 1)
		a.blockState(w, state, t, kvHead, block, min(next, final))
		block = next
	}
}

// quantizeQueries quantizes a tile's queries to 8 bits if the KV format stores keys as codes.
func (s *passState) quantizeQueries(w *workspace, t tile, kvHead int) {
	if !s.m.cache.Shape().Format.Codes() {
		return
	}
	d := s.layer.HeadDim
	q := s.queries(kvHead, t.row, t.count)
	cols := kv.KeyCols(d)
	w.queries.Use(w.queryMemory, cols, len(q)/d)
	for i := range len(q) / d {
		row := q[i*d : (i+1)*d]
		if cols != d {
			clear(w.paddedQuery[copy(w.paddedQuery, row):cols])
			row = w.paddedQuery[:cols]
		}
		w.queries.Set(i, row)
	}
}

// kvBlock returns the KV head block of a block, in memory or in a page that was fetched.
func (a *attention) kvBlock(t tile, kvHead, block int) []byte {
	if len(a.fetched.pages) > 0 && block < a.fetched.block+a.fetched.count {
		return a.fetchedBlock(kvHead, block-a.fetched.block)
	}
	return t.seq.kv.HeadBlock(a.stored, kvHead, block)
}

// fetchedBlock returns the KV head block of a block in the fetched pages.
func (a *attention) fetchedBlock(kvHead, at int) []byte {
	blocks := a.m.cache.PageBlocks()
	return a.m.cache.Shape().HeadBlock(a.fetched.pages[at/blocks].Data, a.stored, kvHead, at%blocks)
}

// blockState merges one block of tokens into the states of a tile's queries. The block next
// follows; kernels prefetch it.
func (a *attention) blockState(w *workspace, state []float32, t tile, kvHead, block, next int) {
	a.checksumBlock(kvHead, block)
	shape := a.m.cache.Shape()
	if shape.Format.Codes() {
		a.quantizedBlockState(w, state, t, kvHead, block, next)
		return
	}
	d, width := a.layer.HeadDim, a.stateWidth()
	group := a.m.Spec.Heads / a.layer.KVHeads
	queries := t.count * group
	start := block * kv.BlockTokens
	tokens := min(kv.BlockTokens, t.end-start)
	scores := w.scores[:queries*kv.BlockTokens]
	q, headBlock := a.queries(kvHead, t.row, t.count), a.kvBlock(t, kvHead, block)
	var values []float32
	if shape.Format == kv.F16 {
		values = a.scoresF16(w, scores, q, headBlock, tokens)
	} else {
		var keys []float32
		keys, values = floatBlock(&shape, headBlock, d)
		quant.MulRowsF32(scores, kv.BlockTokens, keys, d, tokens, d, q, d, queries)
	}
	for i := range queries {
		a.weightScores(scores[i*kv.BlockTokens:][:tokens], state[i*width:(i+1)*width], &t, t.pos+i/group, start)
	}
	quant.WeightedSum(state, width, scores, kv.BlockTokens, values, d, tokens, a.layer.ValueDim, queries)
}

// attendedEnd returns the position behind the last token of a run that its token at pos attends to.
func (s *passState) attendedEnd(r *run, pos int) int {
	switch end := r.pos + r.count; {
	case !s.m.Spec.Encoder.Bidirectional:
		return pos + 1
	case s.layer.Window > 0:
		return min(end, pos+s.layer.Window)
	default:
		return end
	}
}

// lastAttended returns the position of the last token that the token at pos of a tile attends to.
func (s *passState) lastAttended(t *tile, pos int) int {
	switch {
	case !s.m.Spec.Encoder.Bidirectional:
		return pos
	case s.layer.Window > 0:
		return min(t.end, pos+s.layer.Window) - 1
	default:
		return t.end - 1
	}
}

// attendMask returns a mask of the block at start: a bit is set for each token that the token at
// pos of a tile attends to.
func (s *passState) attendMask(t *tile, pos, start int) uint64 {
	all := ^uint64(0) // one bit for each token of a block
	last := s.lastAttended(t, pos)
	if last < start {
		return 0
	}
	seen := all >> max(0, kv.BlockTokens-1-(last-start))
	if win := s.layer.Window; win > 0 {
		seen &= all << max(0, pos-win+1-start)
	}
	return seen
}
