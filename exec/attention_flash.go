package exec

import (
	"cmp"

	"github.com/llmrun/llmrun/internal/threadpool"
	"github.com/llmrun/llmrun/kv/fetch"
	"github.com/llmrun/llmrun/store/crc"
)

// Keys and values on flash are looked at as they land: a group of pages by all
// tiles that see them, then the next. What a tile knows so far - its result over
// all whole spans, and the state of the present span - is kept between groups, and
// the pages in memory go on from there. So every tile merges the same blocks in
// the same order as with all of them in memory.

// pageGroup is the pages that attention looks at, in a ring; there are none while it
// looks at those in memory.
type pageGroup struct {
	pages  []fetch.Page
	merged int // of the sequence: the first block that tiles have not passed
	block  int // of the sequence: the first
	count  int // blocks
	tile   int // the first of the sequence's tiles
	// sums has room for the sums of shares, [block][key head]: whoever looks at a share
	// sums it then. It is nil where pages are summed apart from that.
	sums []uint32
	err  error // of a page that is damaged
	// waits: these are the last on flash of the only sequence, and are looked at together
	// with those in memory: threads meet once less, and tiles begin once less.
	joinsResident bool
}

// coldFloats returns how many floats what tiles know of cold pages takes, twice.
func (s *step) coldFloats() int {
	if s.m.cache.MayBeCold() {
		return s.chunk * s.m.Spec.Heads * s.stateWidth()
	}
	return 0
}

// coldBlocks returns how many blocks of a sequence are on flash.
func (s *step) coldBlocks(q *Sequence) int {
	return q.kv.ColdPages() * s.m.cache.PageBlocks()
}

// mergedBlocks returns how many blocks of a sequence were looked at as they landed.
func (a *attention) mergedBlocks(s *Sequence) int {
	if a.fetched.joinsResident {
		return a.fetched.block
	}
	return a.coldBlocks(s)
}

// tileState returns where it is kept what a tile knows of its sequence's cold blocks: the
// result over all spans that have ended, and the state of the present one, if one has
// begun. Threads work on copies: every step would wait for memory that another thread
// has written.
func (a *attention) tileState(t tile, kvHead int) (acc, span []float32) {
	heads, width := a.m.Spec.Heads, a.stateWidth()
	n := t.count * heads / a.layer.KVHeads * width
	at := t.row*heads*width + kvHead*n
	return a.tileStates[0][at : at+n], a.tileStates[1][at : at+n]
}

// attendFlash looks at the pages on flash.
func (a *attention) attendFlash() {
	a.fetched = pageGroup{}
	if !a.batch.onFlash() {
		return
	}
	if a.selector.on {
		for i := range a.batch.runs {
			if !a.failed() {
				a.attendSelected(&a.batch.runs[i])
			}
		}
	}
	c := a.m.kvReader
	c.Allow(a.index)
	for reads := c.Layer(a.index); len(reads) > 0 && !a.failed(); {
		together := fetch.Adjacent(reads)
		a.attendSegments(c, reads[:together], together == len(reads))
		reads = reads[together:]
	}
}

// attendSegments looks at the pages of segments that lie one behind the other. last: there are
// no others.
func (a *attention) attendSegments(c *fetch.Reader, reads []fetch.Read, last bool) {
	of := &a.batch.runs[reads[0].Sequence]
	first, tiles := a.tilesOf(of)
	if tiles == 0 {
		return // no tile attends to them
	}
	blocks := a.m.cache.PageBlocks()
	page, end := max(0, c.FirstPage(a.index, of.pos)-reads[0].FirstPage), &reads[len(reads)-1]
	for {
		for len(reads) > 0 && page >= reads[0].Pages {
			page -= reads[0].Pages
			reads = reads[1:]
		}
		if len(reads) == 0 {
			return
		}
		block := (reads[0].FirstPage + page) * blocks
		if a.pages, a.err = c.Take(a.ctx, a.pages[:0], reads, a.index, page); a.err != nil {
			return
		}
		group := pageGroup{pages: a.pages, merged: block, block: block, count: len(a.pages) * blocks, tile: first}
		if tiles == 1 && a.firstBlock(a.tiles[first]) <= block {
			group.sums = a.checks.Room(group.count * a.layer.KVHeads)
		}
		page += len(a.pages)
		if len(a.batch.runs) == 1 && last && block+group.count == (end.FirstPage+end.Pages)*blocks {
			group.joinsResident = true
			a.fetched = group
			return
		}
		if !a.attendGroup(tiles, group) {
			return
		}
	}
}

// attendGroup verifies pages that have landed and looks at them, at the same time.
// It reports whether they are sound.
func (a *attention) attendGroup(tiles int, group pageGroup) bool {
	a.fetched = group
	a.m.workers.Run(a.groupParts()+tiles*a.layer.KVHeads, a.groupPart)
	a.verifyBlocks()
	a.err = a.fetched.err
	a.fetched = pageGroup{}
	return a.err == nil
}

// run looks at what is in memory, in parts, and at pages that wait for it.
func (a *attention) run(parts int) {
	a.m.workers.Run(a.groupParts()+parts, a.attendPart)
	a.verifyBlocks()
	a.err = cmp.Or(a.err, a.fetched.err)
	a.fetched.pages = nil // only spans are left to be merged
}

// tilesOf returns the tiles of a run of the batch: the first, and how many.
func (a *attention) tilesOf(r *run) (first, count int) {
	for i := range a.tiles {
		if a.tiles[i].row < r.row {
			first++
		} else if a.tiles[i].row < r.row+r.count {
			count++
		}
	}
	return first, count
}

// groupParts returns how many parts there are to do with pages that have landed
// besides looking at them: to ask for more and to check each.
func (a *attention) groupParts() int {
	switch {
	case len(a.fetched.pages) == 0:
		return 0
	case a.fetched.sums != nil:
		return 1
	}
	return 1 + len(a.fetched.pages)
}

// runGroupPart does one of these parts. What tiles make of a damaged page goes no further:
// the pass ends behind it.
func (a *attention) runGroupPart(part int) {
	if part == 0 {
		if a.m.kvReader.Pressed() {
			a.m.kvReader.Submit()
		}
		return
	}
	a.verifyPage(part - 1)
}

// attendGroupPart does a part of a group of pages: one of these, or looks at all of them for
// a tile and key head.
func (a *attention) attendGroupPart(part, worker int) {
	if others := a.groupParts(); part < others {
		a.runGroupPart(part)
	} else {
		a.attendFetched(part-others, worker)
	}
}

// attendFetched merges the blocks that have landed into what one tile knows.
func (a *attention) attendFetched(part, worker int) {
	w, l := &a.workers[worker], &a.fetched
	t, kvHead := a.tiles[l.tile+part/a.layer.KVHeads], part%a.layer.KVHeads
	block, end := max(l.merged, a.firstBlock(t)), l.block+l.count
	if block >= end {
		return
	}
	acc, span := a.resume(w, t, kvHead, l.merged)
	a.quantizeQueries(w, t, kvHead)
	for ; block < end; block++ {
		if block >= l.block && a.selector.attends(t, block) {
			a.blockState(w, span, t, kvHead, block, min(block+1, end-1))
		}
		if (block+1)%spanBlocks == 0 {
			a.mergeState(acc, span)
			a.clearState(span)
		}
	}
	a.saveState(acc, span, t, kvHead, end)
}

// saw reports whether a tile sees any of the blocks before one.
func (a *attention) saw(t tile, block int) bool { return block > a.firstBlock(t) }

// resume makes a thread's states what a tile knows of the blocks before from.
func (a *attention) resume(w *workspace, t tile, kvHead, from int) (acc, span []float32) {
	n := t.count * a.m.Spec.Heads / a.layer.KVHeads * a.stateWidth()
	acc, span = w.acc[:n], w.span[:n]
	a.beginAcc(acc, t, kvHead, from)
	a.beginSpan(span, t, kvHead, from, from/spanBlocks*spanBlocks)
	return acc, span
}

// beginAcc makes acc what a tile knows from spans that end before a block.
func (a *attention) beginAcc(acc []float32, t tile, kvHead, before int) {
	if !a.saw(t, before) {
		a.clearState(acc)
		return
	}
	known, _ := a.tileState(t, kvHead)
	copy(acc, known)
}

// beginSpan makes state what a tile knows of a span that begins with the block first,
// from those of its blocks that are before another.
func (a *attention) beginSpan(state []float32, t tile, kvHead, before, first int) {
	if before <= first || !a.saw(t, before) {
		a.clearState(state)
		return
	}
	_, known := a.tileState(t, kvHead)
	copy(state, known)
}

// saveState keeps a thread's states as what a tile knows of the blocks before end.
func (a *attention) saveState(acc, span []float32, t tile, kvHead, end int) {
	knownAcc, knownSpan := a.tileState(t, kvHead)
	copy(knownAcc, acc)
	if end%spanBlocks != 0 {
		copy(knownSpan, span)
	}
}

// attendSelected attends to the pages on flash that the selection took for rows of a run.
func (a *attention) attendSelected(of *run) {
	k := &a.m.selectedPages
	if a.err = k.Start(a.m.budget, a.m.kvReader.LargestPage(), threadpool.ReserveForReaders); a.err != nil {
		return
	}
	defer k.Drain(a.ctx)
	first, tiles := a.tilesOf(of)
	blocks, size := a.m.cache.PageBlocks(), a.m.cache.PageBytes(a.index)
	index, done := 0, 0 // page of the sequence; blocks that were passed
	for _, part := range of.seq.kv.Cold() {
		for page := range part.Pages {
			if a.anyAttends(first, tiles, index*blocks, blocks) {
				if k.Full() && !a.attendNextSelected(k, first, tiles, &done) {
					return
				}
				k.Submit(a.ctx, part.Segment(), a.index, size, page, index)
			}
			index++
		}
	}
	for k.Pending() {
		if !a.attendNextSelected(k, first, tiles, &done) {
			return
		}
	}
	a.attendGroup(tiles, pageGroup{merged: done, block: index * blocks, tile: first}) // spans may end behind the last page
}

// attendNextSelected attends to the next selected page. Blocks before done were passed.
func (a *attention) attendNextSelected(k *fetch.PageReader, first, tiles int, done *int) bool {
	page, index, err := k.Next(a.ctx)
	if a.err = err; err != nil {
		return false
	}
	blocks := a.m.cache.PageBlocks()
	from, block := *done, index*blocks
	*done = block + blocks
	a.pages = append(a.pages[:0], page)
	return a.attendGroup(tiles, pageGroup{pages: a.pages, merged: from, block: block, count: blocks, tile: first})
}

// anyAttends reports whether any of some tiles attends to any of some blocks.
func (a *attention) anyAttends(tile, tiles, block, blocks int) bool {
	for _, t := range a.tiles[tile : tile+tiles] {
		for b := range blocks {
			if a.selector.attends(t, block+b) {
				return true
			}
		}
	}
	return false
}

// checksumBlock computes the checksum of a KV head block, if its page was just read and is not
// summed by itself.
func (a *attention) checksumBlock(kvHead, block int) {
	l := &a.fetched
	if at := block - l.block; l.sums != nil && at < l.count {
		l.sums[at*a.layer.KVHeads+kvHead] = crc.Update(0, a.fetchedBlock(kvHead, at))
	}
}

// verifyBlocks verifies the pages whose KV head blocks were summed.
func (a *attention) verifyBlocks() {
	if a.fetched.sums == nil {
		return
	}
	shares := len(a.fetched.sums) / len(a.fetched.pages)
	for i := range a.fetched.pages {
		a.compareChecksum(i, a.checks.Page(a.fetched.sums[i*shares:(i+1)*shares]))
	}
}

// verifyPage sums and verifies one page.
func (a *attention) verifyPage(i int) { a.compareChecksum(i, crc.Update(0, a.fetched.pages[i].Data)) }

// compareChecksum verifies the checksum of a page.
func (a *attention) compareChecksum(i int, sum uint32) {
	if err := a.fetched.pages[i].Verify(a.index, sum); err != nil {
		a.fetchedErr.Lock()
		a.fetched.err = err
		a.fetchedErr.Unlock()
	}
}
