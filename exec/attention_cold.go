package exec

import (
	"cmp"

	"github.com/llmrun/llmrun/kv"
)

// Keys and values on flash are looked at as they land: a group of pages by all
// tiles that see them, then the next. What a tile knows so far - its result over
// all whole spans, and the state of the present span - is kept between groups, and
// the pages in memory go on from there. So every tile merges the same blocks in
// the same order as with all of them in memory.

// landed is the pages that attention looks at, in a ring; there are none while it
// looks at those in memory.
type landed struct {
	pages []landedPage
	from  int // of the sequence: the first block that tiles have not passed
	block int // of the sequence: the first
	count int // blocks
	tile  int // the first of the sequence's tiles
	// sums has room for the sums of shares, [block][key head]: whoever looks at a share
	// sums it then. It is nil where pages are summed apart from that.
	sums []uint32
	err  error // of a page that is damaged
	// waits: these are the last on flash of the only sequence, and are looked at together
	// with those in memory: threads meet once less, and tiles begin once less.
	waits bool
}

// landedPage is a page that lies in memory now, one of a chunk.
type landedPage struct {
	data  []byte
	chunk kv.Chunk
	page  int // of the chunk
}

// coldFloats returns how many floats what tiles know of cold pages takes, twice.
func (p *pass) coldFloats() int {
	if p.m.cache.MayBeCold() {
		return p.chunk * p.m.Spec.Heads * p.stateWidth()
	}
	return 0
}

// coldBlocks returns how many blocks of a sequence are on flash.
func (p *pass) coldBlocks(s *Sequence) int {
	return s.kv.ColdPages() * p.m.cache.PageBlocks()
}

// passedBlocks returns how many blocks of a sequence were looked at as they landed.
func (p *pass) passedBlocks(s *Sequence) int {
	if p.landed.waits {
		return p.landed.block
	}
	return p.coldBlocks(s)
}

// known returns where it is kept what a tile knows of its sequence's cold blocks: the
// result over all spans that have ended, and the state of the present one, if one has
// begun. Threads work on copies: every step would wait for memory that another thread
// has written.
func (p *pass) known(t tile, kvHead int) (acc, span []float32) {
	heads, width := p.m.Spec.Heads, p.stateWidth()
	n := t.count * heads / p.layer.KVHeads * width
	at := t.row*heads*width + kvHead*n
	return p.kept[0][at : at+n], p.kept[1][at : at+n]
}

// attendCold looks at the pages on flash.
func (p *pass) attendCold() {
	c := p.m.cold
	p.landed = landed{}
	if !p.batch.cold() {
		return
	}
	if p.chooser.on {
		for _, r := range p.batch.runs {
			if !p.failed() {
				p.attendPicked(r)
			}
		}
	}
	c.ask(p.index)
	for reads := c.reads[c.first[p.index]:c.first[p.index+1]]; len(reads) > 0 && !p.failed(); {
		together := c.together(reads)
		p.attendRun(c, reads[:together], together == len(reads))
		reads = reads[together:]
	}
}

// attendRun looks at the pages of chunks that lie one behind the other. last: there are
// no others.
func (p *pass) attendRun(c *coldKV, reads []chunkRead, last bool) {
	of := p.batch.runs[reads[0].row]
	first, tiles := p.tilesOf(of)
	if tiles == 0 {
		return // nobody looks at them
	}
	blocks := p.m.cache.PageBlocks()
	page, end := max(0, c.firstPage(p.index, of.pos)-reads[0].page), &reads[len(reads)-1]
	for {
		for len(reads) > 0 && page >= reads[0].pages {
			page -= reads[0].pages
			reads = reads[1:]
		}
		if len(reads) == 0 {
			return
		}
		block := (reads[0].page + page) * blocks
		if p.pages, p.err = c.take(p.ctx, p.pages[:0], reads, p.index, page); p.err != nil {
			return
		}
		group := landed{pages: p.pages, from: block, block: block, count: len(p.pages) * blocks, tile: first}
		if tiles == 1 && p.firstBlock(p.tiles[first]) <= block {
			group.sums = p.sums.of(group.count * p.layer.KVHeads)
		}
		page += len(p.pages)
		if len(p.batch.runs) == 1 && last && block+group.count == (end.page+end.pages)*blocks {
			group.waits = true
			p.landed = group
			return
		}
		if !p.attendGroup(tiles, group) {
			return
		}
	}
}

// attendGroup verifies pages that have landed and looks at them, at the same time.
// It reports whether they are sound.
func (p *pass) attendGroup(tiles int, group landed) bool {
	p.landed = group
	p.m.workers.Run(p.landedParts()+tiles*p.layer.KVHeads, p.landedPart)
	p.verifyShares()
	p.err = p.landed.err
	p.landed = landed{}
	return p.err == nil
}

// runAttention looks at what is in memory, in parts, and at pages that wait for it.
func (p *pass) runAttention(parts int) {
	p.m.workers.Run(p.landedParts()+parts, p.attnPart)
	p.verifyShares()
	p.err = cmp.Or(p.err, p.landed.err)
	p.landed.pages = nil // only spans are left to be merged
}

// tilesOf returns the tiles of a run of the batch: the first, and how many.
func (p *pass) tilesOf(r run) (first, count int) {
	for i := range p.tiles {
		if p.tiles[i].row < r.row {
			first++
		} else if p.tiles[i].row < r.row+r.count {
			count++
		}
	}
	return first, count
}

// landedParts returns how many parts there are to do with pages that have landed
// besides looking at them: to ask for more and to check each.
func (p *pass) landedParts() int {
	switch {
	case len(p.landed.pages) == 0:
		return 0
	case p.landed.sums != nil:
		return 1
	}
	return 1 + len(p.landed.pages)
}

// useLanded does one of these parts. What tiles make of a damaged page goes no further:
// the pass ends behind it.
func (p *pass) useLanded(part int) {
	if part == 0 {
		if p.m.cold.pressed() {
			p.m.cold.feed()
		}
		return
	}
	p.verify(part - 1)
}

// lookAtLanded does a part of a group of pages: one of these, or looks at all of them for
// a tile and key head.
func (p *pass) lookAtLanded(part, worker int) {
	if others := p.landedParts(); part < others {
		p.useLanded(part)
	} else {
		p.attendLanded(part-others, worker)
	}
}

// attendLanded merges the blocks that have landed into what one tile knows.
func (p *pass) attendLanded(part, worker int) {
	w, l := &p.workers[worker], &p.landed
	t, kvHead := p.tiles[l.tile+part/p.layer.KVHeads], part%p.layer.KVHeads
	end := l.block + l.count
	block := max(l.from, p.firstBlock(t))
	if block >= end {
		return
	}
	acc, span := p.resume(w, t, kvHead, l.from)
	p.roundQueries(w, t, kvHead)
	for ; block < end; block++ {
		if block >= l.block && p.looksAt(t, block) {
			p.blockState(w, span, t, kvHead, block, min(block+1, end-1))
		}
		if (block+1)%spanBlocks == 0 {
			p.mergeState(acc, span)
			p.clearState(span)
		}
	}
	p.remember(acc, span, t, kvHead, end)
}

// saw reports whether a tile sees any of the blocks before one.
func (p *pass) saw(t tile, block int) bool { return block > p.firstBlock(t) }

// resume makes a thread's states what a tile knows of the blocks before from.
func (p *pass) resume(w *workspace, t tile, kvHead, from int) (acc, span []float32) {
	n := t.count * p.m.Spec.Heads / p.layer.KVHeads * p.stateWidth()
	acc, span = w.acc[:n], w.span[:n]
	p.beginAcc(acc, t, kvHead, from)
	p.beginSpan(span, t, kvHead, from, from/spanBlocks*spanBlocks)
	return acc, span
}

// beginAcc makes acc what a tile knows from spans that end before a block.
func (p *pass) beginAcc(acc []float32, t tile, kvHead, before int) {
	if !p.saw(t, before) {
		p.clearState(acc)
		return
	}
	known, _ := p.known(t, kvHead)
	copy(acc, known)
}

// beginSpan makes state what a tile knows of a span that begins with the block first,
// from those of its blocks that are before another.
func (p *pass) beginSpan(state []float32, t tile, kvHead, before, first int) {
	if before <= first || !p.saw(t, before) {
		p.clearState(state)
		return
	}
	_, known := p.known(t, kvHead)
	copy(state, known)
}

// remember keeps a thread's states as what a tile knows of the blocks before end.
func (p *pass) remember(acc, span []float32, t tile, kvHead, end int) {
	knownAcc, knownSpan := p.known(t, kvHead)
	copy(knownAcc, acc)
	if end%spanBlocks != 0 {
		copy(knownSpan, span)
	}
}
