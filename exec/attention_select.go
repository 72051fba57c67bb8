package exec

import (
	"math"

	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/quant/tiled"
	"github.com/llmrun/llmrun/tiering"
)

// With a selection a new token looks, in each layer, only at the blocks that
// seem to matter to it. Summaries of keys give an estimate of each query head's
// attention to each block; the blocks that all heads together care for most are
// taken, those with the same estimate by index. The first block and the last few
// are always taken: texts lean on them whatever is asked.
//
// Blocks that are taken are merged as they always are, and the others are
// skipped, so taking all gives what no selection gives, bit for bit. What is
// taken depends on the query and the summaries alone, not on threads or on where
// pages lie. Long inputs are read exactly: they would need everything anyway.
const (
	selectRows  = 64 // the most new tokens of one call that select
	alwaysFirst = 1  // blocks that are always taken
	alwaysLast  = 16 // before the block that is being filled
	// alwaysSeen is how many tokens may be there before any is left out.
	alwaysSeen = (alwaysFirst + alwaysLast + 1) * kv.BlockTokens
)

// pageSelector is what a pass knows about the blocks that its rows look at.
type pageSelector struct {
	*step
	on       bool      // in the current layer rows look at what they have chosen
	taken    []byte    // [selectRows, stride] 1 for a block that a row looks at
	stride   int       // blocks of the longest sequence and two
	attended []float32 // [kvHeads, stride] estimated attention to blocks, summed over query heads
	ranks    []uint32  // [stride] estimates as numbers whose order is theirs

	row         int // that chooses
	run         *run
	first, last int // blocks that it can choose from
	sealed      int // first block that becomes full in the run

	summarizePart, estimatePart func(part, worker int)
}

// carve takes what selection needs, which is nothing without one.
func (c *pageSelector) carve(a *tiering.Arena) {
	if c.m.selection.Exact() {
		return
	}
	s := c.m.Spec
	maxKV, group := 0, 0
	for _, l := range s.Layers {
		if l.KVHeads > 0 {
			maxKV, group = max(maxKV, l.KVHeads), max(group, s.Heads/l.KVHeads)
		}
	}
	c.stride = s.Context/kv.BlockTokens + 2
	c.taken = a.Bytes(selectRows * c.stride)
	c.attended = a.Floats(maxKV * c.stride)
	for i := range c.workers {
		c.carveWorkspace(&c.workers[i], a, group)
	}
}

// carveWorkspace takes the memory of one thread; group query heads share a key head.
func (c *pageSelector) carveWorkspace(w *workspace, a *tiering.Arena, group int) {
	cols := kv.SummaryCols(c.m.Spec.HeadDim)
	w.box = a.Floats(cols)
	w.parts = a.Floats(tiled.FloatsNeeded(cols, group))
	w.guess = a.Floats(tiled.PaddedTokens(group) * kv.BlockTokens)
	w.blocks = a.Floats(group * c.stride)
}

// start makes what is not in the arena.
func (c *pageSelector) start() {
	if c.m.selection.Exact() {
		return
	}
	for i := range c.workers {
		c.workers[i].summarizer = kv.NewSummarizer(c.m.Spec.HeadDim)
	}
	c.ranks = make([]uint32, c.stride)
	c.summarizePart, c.estimatePart = c.summarize, c.estimate
}

// selects reports whether a batch's tokens choose what they look at, in layers
// that have no window.
func selects(m *Model, b *Batch) bool { return b.selects && !m.selection.Exact() }

// selectBlocks summarizes the blocks that this pass fills and, for a few new
// tokens, decides what each of them looks at in the current layer.
func (c *pageSelector) selectBlocks() {
	c.on = false
	if c.m.selection.Exact() {
		return
	}
	for i := range c.batch.runs {
		c.run = &c.batch.runs[i]
		c.sealed = c.run.pos / kv.BlockTokens
		end := (c.run.pos + c.run.count) / kv.BlockTokens
		if end > c.sealed {
			c.m.workers.Run((end-c.sealed)*c.layer.KVHeads, c.summarizePart)
		}
		c.run.seq.summaries.SetReady(c.index, c.sealed, end)
	}
	if !selects(c.m, c.batch) || c.layer.Window > 0 {
		return
	}
	c.on = true
	for i := range c.batch.runs {
		c.run = &c.batch.runs[i]
		for j := range c.run.count {
			if c.anyWanted(c.run.row+j, 1) {
				c.selectRow(c.run.row+j, c.run.pos+j)
			}
		}
	}
}

// summarize makes one head's summaries of a block that has become full.
func (c *pageSelector) summarize(part, worker int) {
	block, head := c.sealed+part/c.layer.KVHeads, part%c.layer.KVHeads
	share := c.run.seq.kv.HeadBlock(c.index, head, block)
	c.run.seq.summaries.Summarize(c.workers[worker].summarizer, c.index, head, block, share)
}

// selectRow decides what the row at a position looks at.
func (c *pageSelector) selectRow(row, pos int) {
	taken := c.taken[row*c.stride : (row+1)*c.stride]
	for i := range taken {
		taken[i] = 1
	}
	c.row, c.first = row, alwaysFirst
	c.last = min(c.run.seq.summaries.Ready(c.index), pos/kv.BlockTokens-alwaysLast)
	if c.last <= c.first {
		return
	}
	c.m.workers.Run(c.layer.KVHeads, c.estimatePart)
	n := c.takeBest(taken[c.first:c.last])
	c.m.selected.Asked += int64(c.last - c.first)
	c.m.selected.Taken += int64(n)
}

// estimate computes how the query heads that share a key head divide their
// attention between the blocks, as far as summaries tell. A block is worth what
// its best summary is.
func (c *pageSelector) estimate(kvHead, worker int) {
	w, d := &c.workers[worker], c.m.Spec.HeadDim
	q := c.queries(kvHead, c.row, 1)
	heads := len(q) / d
	cols := kv.SummaryCols(d)
	w.corners.Use(w.parts, cols, heads)
	box := w.box[:cols]
	clear(box)
	for i := range heads {
		splitSigns(box[:2*d], q[i*d:(i+1)*d])
		w.corners.Set(i, box)
	}
	c.scoreBlocks(w, kvHead, heads)
	sum := c.attended[kvHead*c.stride:][:c.last]
	clear(sum)
	for i := range heads {
		addAttention(sum[c.first:], w.blocks[i*c.stride:][c.first:c.last])
	}
}

// scoreBlocks scores the summaries of all blocks for the query heads of a key head, and keeps
// the best of each block.
func (c *pageSelector) scoreBlocks(w *workspace, kvHead, heads int) {
	groups := (c.last + kv.SummaryBlocks - 1) / kv.SummaryBlocks
	for g := range groups {
		s := c.run.seq.summaries.Group(c.index, kvHead, g)
		next := c.run.seq.summaries.Group(c.index, kvHead, min(g+1, groups-1))
		tiled.Scores(w.guess, tiled.Keys(s), next.Codes, &w.corners, w.tiles)
		from := g * kv.SummaryBlocks
		for i := range heads {
			bestOf(w.blocks[i*c.stride+from:][:min(kv.SummaryBlocks, c.last-from)], w.guess[i*kv.BlockTokens:])
		}
	}
}

// splitSigns writes the positive elements of a query, then the negative ones,
// with zeros for the others: what the corners of a box are multiplied with.
func splitSigns(out, q []float32) {
	for i, v := range q {
		out[i], out[len(q)+i] = max(v, 0), min(v, 0)
	}
}

// bestOf reduces scores of summaries to the best of each block, or NaN where keys
// are broken.
func bestOf(out, scores []float32) {
	const each = kv.BlockTokens / kv.SummaryTokens
	for i := range out {
		best := negInf
		for _, v := range scores[i*each : (i+1)*each] {
			if math.IsInf(float64(v), 0) {
				v = float32(math.NaN())
			}
			best = max(best, v)
		}
		out[i] = best
	}
}

// addAttention adds to each block the share of attention that a query head with
// these scores gives to it. Scores are lost. Broken blocks get NaN, and then
// nothing can be said of the others.
func addAttention(sum, scores []float32) {
	_, total := quant.SoftmaxBlock(scores, len(scores))
	if total == total {
		quant.AddScaled(sum, scores, 1/total)
		return
	}
	for i, v := range scores {
		if v != v {
			sum[i] = v
		}
	}
}

// takeBest marks the blocks that are looked at, of those that can be chosen, and
// returns how many they are.
func (c *pageSelector) takeBest(taken []byte) int {
	n := len(taken)
	shares := c.attended[c.first:c.last]
	for h := 1; h < c.layer.KVHeads; h++ {
		quant.Add(shares, c.attended[h*c.stride:][c.first:c.last])
	}
	ranks := c.ranks[:n]
	for i, v := range shares {
		ranks[i] = rankOf(v)
	}
	if missing := c.m.selection.Missing; missing > 0 {
		heads := float64(c.m.Spec.Heads)
		return mark(taken, ranks, shares, (1-missing)*heads)
	}
	return mark(taken, ranks, nil, max(1, math.Floor(c.m.selection.Fraction*float64(n))))
}

// broken is the rank of a block with broken keys.
const broken = math.MaxUint32

// rankOf returns a number that grows with a share, which is not negative. What is
// broken ranks first.
func rankOf(share float32) uint32 {
	if share != share {
		return broken
	}
	return math.Float32bits(share)
}

// mark marks the blocks of the highest ranks whose worth reaches need, the lower
// index first among equals, clears the others, and returns how many are marked.
// Without a worth each block is worth 1. Broken blocks are marked in any case:
// what comes of them must not pass for sound.
func mark(taken []byte, ranks []uint32, worth []float32, need float64) (n int) {
	worthOf := func(i int) float64 {
		switch {
		case worth == nil:
			return 1
		case ranks[i] == broken:
			return 0
		}
		return float64(worth[i])
	}
	// The greatest rank whose blocks, with all above, reach the need.
	var least uint32
	for bit := uint32(1) << 31; bit > 0; bit >>= 1 {
		sum := 0.0
		for i, r := range ranks {
			if r >= least|bit {
				sum += worthOf(i)
			}
		}
		if sum >= need {
			least |= bit
		}
	}
	clear(taken)
	add := func(i int) {
		taken[i] = 1
		need -= worthOf(i)
		n++
	}
	for i, r := range ranks {
		if r > least || r == broken {
			add(i)
		}
	}
	for i, r := range ranks {
		if r == least && r != broken && need > 0 {
			add(i)
		}
	}
	return n
}

// attends reports whether a tile looks at a block.
func (c *pageSelector) attends(t tile, block int) bool {
	return !c.on || c.taken[t.row*c.stride+block] != 0
}

// nextBlock returns the first block from block on that a tile looks at. The last
// one that it sees is always such a block.
func (c *pageSelector) nextBlock(t tile, block int) int {
	for !c.attends(t, block) {
		block++
	}
	return block
}
