package exec

import (
	"math"

	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/quant/tiled"
	"github.com/llmrun/llmrun/tiering"
)

// With page selection, a new token attends, in each layer, only to the blocks that probably get
// most of its attention. Summaries of keys give an estimate of each query head's attention to
// each block, and the heads choose blocks in turn. A selection that adapts to the text takes the
// blocks with the highest sum over all heads instead; on equal estimates, the lower index wins.
// The selector always takes the first block and the last few, because attention depends on them
// for any query.
//
// Attention merges the selected blocks as usual and skips the others, so selecting all blocks
// gives the same bits as no selection. The selection depends only on the query and the
// summaries, not on the threads, nor on which pages are in memory. Long inputs use exact
// attention, because their tokens together would select almost all blocks.
const (
	selectRows  = 64 // maximum number of new tokens of one Extend that uses selection, and of one pass
	alwaysFirst = 1  // first blocks that are always selected
	alwaysLast  = 16 // last full blocks that are always selected
	// leastSelected is the number of blocks that are selected besides these, also if they are more
	// than the fraction: a tenth of a short text is too little to find a fact in it.
	leastSelected = 16
	// alwaysAttended is the longest context, in tokens, whose blocks are all selected.
	alwaysAttended = (alwaysFirst + alwaysLast + 1) * kv.BlockTokens
)

// pageSelector chooses the blocks that each row of a pass attends to.
type pageSelector struct {
	*passState
	on        bool      // some rows of the current layer attend only to selected blocks
	selected  []byte    // [selectRows, stride] 1 for a block that a selecting row attends to
	stride    int       // blocks of the longest sequence, plus two
	picks     headPicks // estimated attention to blocks, if they are a fraction
	estimates []float32 // [kvHeads, stride] the same, summed over query heads, if their number adapts
	ranks     []uint32  // [stride] estimates as integers of the same order

	row            int // row that selects
	run            *run
	first, last    int // range of blocks that the row can choose from
	firstCompleted int // first block that the run completes

	summarizePart, estimatePart func(part, worker int)
}

// carve takes the selector's buffers; exact attention needs none.
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
	c.selected = a.Bytes(selectRows * c.stride)
	if c.adapts() {
		c.estimates = a.Floats(maxKV * c.stride)
	} else {
		c.picks.carve(a, s.Heads, c.stride)
	}
	for i := range c.workers {
		c.carveWorkspace(&c.workers[i], a, group)
	}
}

// carveWorkspace takes the memory of one thread. group is the query heads of a key head.
func (c *pageSelector) carveWorkspace(w *workspace, a *tiering.Arena, group int) {
	cols := kv.SummaryCols(c.m.Spec.HeadDim)
	w.cornerQuery = a.Floats(cols)
	w.cornerMemory = a.Floats(tiled.FloatsNeeded(cols, group))
	w.summaryScores = a.Floats(tiled.PaddedTokens(group) * kv.BlockTokens)
	w.blockScores = a.Floats(group * c.stride)
}

// makeParts allocates the selector's state that is not carved from the arena.
func (c *pageSelector) makeParts() {
	if c.m.selection.Exact() {
		return
	}
	for i := range c.workers {
		c.workers[i].summarizer = kv.NewSummarizer(c.m.Spec.HeadDim)
	}
	c.ranks = make([]uint32, c.stride)
	c.picks.makeLists(c.m.Spec.Heads)
	c.summarizePart, c.estimatePart = c.summarize, c.estimate
}

// selectBlocks summarizes the blocks that this pass completes. For runs of few tokens, it selects
// the blocks that each of them attends to in the current layer.
func (c *pageSelector) selectBlocks() {
	c.on = false
	if c.m.selection.Exact() {
		return
	}
	for i := range c.batch.runs {
		if c.stored != c.index {
			break // an earlier layer has summarized the keys
		}
		c.run = &c.batch.runs[i]
		c.firstCompleted = c.run.pos / kv.BlockTokens
		end := (c.run.pos + c.run.count) / kv.BlockTokens
		if end > c.firstCompleted {
			c.m.workers.Run((end-c.firstCompleted)*c.layer.KVHeads, c.summarizePart)
		}
		c.run.seq.summaries.SetReady(c.index, c.firstCompleted, end)
	}
	if c.layer.Window > 0 {
		return
	}
	for i := range c.batch.runs {
		if c.run = &c.batch.runs[i]; !c.run.selects {
			continue
		}
		c.on = true
		for j := range c.run.count {
			if c.anyWanted(c.run.row+j, 1) {
				c.selectRow(c.run.row+j, c.run.pos+j)
			}
		}
	}
}

// choice returns the selected blocks of a row that selects: its part of c.selected.
func (c *pageSelector) choice(row int) []byte {
	slot := 0
	for _, r := range c.batch.runs {
		if row < r.row+r.count {
			slot += row - r.row
			break
		}
		if r.selects {
			slot += r.count
		}
	}
	return c.selected[slot*c.stride : (slot+1)*c.stride]
}

// summarize computes one key head's summaries of a block that this pass completes.
func (c *pageSelector) summarize(part, worker int) {
	block, head := c.firstCompleted+part/c.layer.KVHeads, part%c.layer.KVHeads
	headBlock := c.run.seq.kv.HeadBlock(c.index, head, block)
	c.run.seq.summaries.Summarize(c.workers[worker].summarizer, c.index, head, block, headBlock)
}

// selectRow selects the blocks for the row at a position.
func (c *pageSelector) selectRow(row, pos int) {
	selected := c.choice(row)
	for i := range selected {
		selected[i] = 1
	}
	c.row, c.first = row, alwaysFirst
	c.last = min(c.run.seq.summaries.Ready(c.stored), pos/kv.BlockTokens-alwaysLast)
	if c.last <= c.first {
		return
	}
	c.m.workers.Run(c.layer.KVHeads, c.estimatePart)
	n := c.selectBest(selected[c.first:c.last])
	c.m.selectionStats.Candidates += int64(c.last - c.first)
	c.m.selectionStats.Selected += int64(n)
}

// estimate computes, from the summaries, the attention that the query heads of a key head give
// to each block. The score of a block is that of its best summary.
func (c *pageSelector) estimate(kvHead, worker int) {
	w, d := &c.workers[worker], c.layer.HeadDim
	q := c.queries(kvHead, c.row, 1)
	heads := len(q) / d
	cols := kv.SummaryCols(d)
	w.cornerQueries.Use(w.cornerMemory, cols, heads)
	box := w.cornerQuery[:cols]
	clear(box)
	for i := range heads {
		splitSigns(box[:2*d], q[i*d:(i+1)*d])
		w.cornerQueries.Set(i, box)
	}
	c.scoreBlocks(w, kvHead, heads)
	if !c.adapts() {
		for i := range heads {
			c.picks.put(kvHead*heads+i, w.blockScores[i*c.stride:][c.first:c.last])
		}
		return
	}
	sum := c.estimates[kvHead*c.stride:][:c.last]
	clear(sum)
	for i := range heads {
		addAttention(sum[c.first:], w.blockScores[i*c.stride:][c.first:c.last])
	}
}

// adapts reports whether the number of blocks adapts to the text.
func (c *pageSelector) adapts() bool { return c.m.selection.Missing > 0 }

// scoreBlocks scores the summaries of all blocks for the query heads of a key head and stores
// the best score of each block.
func (c *pageSelector) scoreBlocks(w *workspace, kvHead, heads int) {
	groups := (c.last + kv.SummaryBlocks - 1) / kv.SummaryBlocks
	for g := range groups {
		s := c.run.seq.summaries.Group(c.stored, kvHead, g)
		next := c.run.seq.summaries.Group(c.stored, kvHead, min(g+1, groups-1))
		tiled.Scores(w.summaryScores, tiled.Keys(s), next.Codes, &w.cornerQueries, w.tiles)
		from := g * kv.SummaryBlocks
		for i := range heads {
			bestPerBlock(w.blockScores[i*c.stride+from:][:min(kv.SummaryBlocks, c.last-from)], w.summaryScores[i*kv.BlockTokens:])
		}
	}
}

// splitSigns writes the positive elements of a query, then the negative ones, with zeros in the
// other places. Multiplied with the upper and lower corners of a box of keys, this gives the
// greatest score that a key in the box can have.
func splitSigns(out, q []float32) {
	for i, v := range q {
		out[i], out[len(q)+i] = max(v, 0), min(v, 0)
	}
}

// bestPerBlock reduces the scores of summaries to the best of each block. A block with
// non-finite keys gets NaN.
func bestPerBlock(out, scores []float32) {
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

// addAttention turns a query head's scores into fractions of its attention and adds them to the
// sums of the blocks. It overwrites the scores. If a block has the score NaN, only the blocks
// with NaN are marked, because no fraction can be computed.
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

// selectBest marks the best of the blocks from first to last, and returns their number.
func (c *pageSelector) selectBest(selected []byte) int {
	n := len(selected)
	if !c.adapts() {
		need := max(leastSelected, int(math.Floor(c.m.selection.Fraction*float64(n))))
		return c.picks.pick(selected, c.m.Spec.Heads, need)
	}
	attention := c.estimates[c.first:c.last]
	for h := 1; h < c.layer.KVHeads; h++ {
		quant.Add(attention, c.estimates[h*c.stride:][c.first:c.last])
	}
	ranks := c.ranks[:n]
	for i, v := range attention {
		ranks[i] = rankOf(v)
	}
	return markBest(selected, ranks, attention, (1-c.m.selection.Missing)*float64(c.m.Spec.Heads))
}

// brokenRank is the rank of a block with non-finite keys.
const brokenRank = math.MaxUint32

// rankOf maps sums of attention, which are never negative, to integers of the same order. NaN has
// the highest rank.
func rankOf(attention float32) uint32 {
	if attention != attention {
		return brokenRank
	}
	return math.Float32bits(attention)
}

// markBest marks the blocks of the highest ranks until their worth reaches need, clears the others,
// and returns the number of marked blocks. On equal ranks, the lower index is first. Broken blocks
// are always marked, as by headPicks.
func markBest(selected []byte, ranks []uint32, worth []float32, need float64) (n int) {
	worthOf := func(i int) float64 {
		if ranks[i] == brokenRank {
			return 0
		}
		return float64(worth[i])
	}
	// The greatest rank such that its blocks and those of higher ranks reach the need.
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
	clear(selected)
	add := func(i int) {
		selected[i] = 1
		need -= worthOf(i)
		n++
	}
	for i, r := range ranks {
		if r > least || r == brokenRank {
			add(i)
		}
	}
	for i, r := range ranks {
		if r == least && r != brokenRank && need > 0 {
			add(i)
		}
	}
	return n
}

// attends reports whether a tile attends to a block.
func (t *tile) attends(block int) bool { return t.selected == nil || t.selected[block] != 0 }

// nextBlock returns the first block at or after block that a tile attends to. A tile always
// attends to its last block, so the search ends.
func (t *tile) nextBlock(block int) int {
	for !t.attends(block) {
		block++
	}
	return block
}
