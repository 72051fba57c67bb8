package exec

import (
	"cmp"

	"github.com/llmrun/llmrun/kv/fetch"
	"github.com/llmrun/llmrun/store/crc"
)

// Pages on flash are attended to as they arrive: all tiles that need a group of pages merge it,
// then the next group. Between groups, each tile saves its states: the result over all whole
// spans and the state of the current span. The pages in memory continue from these states. So
// every tile merges the same blocks in the same order as with all pages in memory.

// pageGroup is the group of pages from flash, in the reader's ring, that tiles are merging. It
// is empty while tiles attend only to pages in memory.
type pageGroup struct {
	pages  []fetch.Page // without data if no tile attends to a page
	fresh  []fetch.Page // pages that separate parts verify
	merged int          // first block of the sequence that tiles have not merged
	block  int          // first block of the group, counted in the sequence
	count  int          // blocks
	tiles  []tile       // that attend to them
	// checksums holds the checksums of KV head blocks, [block][key head]: the thread that
	// attends to a block computes its checksum in the same visit. It is nil if separate parts
	// verify the pages, or if decryption has.
	checksums []uint32
	err       error // of a damaged page
	// joinsResident: this is the last group of the only sequence, and tiles merge it together
	// with the pages in memory. That saves one barrier and one restart of each tile.
	joinsResident bool
}

// stateRows returns how many rows can save their states between groups of pages.
func (s *passState) stateRows() int {
	if s.m.cache.MayBeCold() {
		return s.chunk
	}
	return min(s.chunk, sharingRows)
}

// coldBlocks returns how many blocks of a sequence are on flash.
func (s *passState) coldBlocks(q *Sequence) int {
	return q.kv.ColdPages() * s.m.cache.PageBlocks()
}

// mergedBlocks returns how many blocks of a tile were merged when their pages arrived from flash, or
// together with other sequences.
func (a *attention) mergedBlocks(t tile) int {
	if a.fetched.joinsResident {
		return a.fetched.block
	}
	return max(a.coldBlocks(t.seq), t.merged)
}

// tileState returns the saved states of a tile: the result over all whole spans, and the state
// of the current span if one has begun. Threads work on copies, because another thread may have
// written these lines and each step would wait for them.
func (a *attention) tileState(t tile, kvHead int) (acc, span []float32) {
	row := a.m.Spec.Heads / a.layer.KVHeads * a.stateWidth()
	at := (kvHead*a.stateRows() + t.saved) * row
	return a.tileStates[0][at : at+t.count*row], a.tileStates[1][at : at+t.count*row]
}

// attendFlash attends to the pages on flash.
func (a *attention) attendFlash() {
	a.fetched = pageGroup{}
	if !a.batch.onFlash() {
		return
	}
	for i := range a.batch.runs {
		if r := &a.batch.runs[i]; a.selector.on && r.selects && !a.failed() {
			a.attendSelected(r)
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

// attendSegments attends to the pages of adjacent segments. last means that they are the last
// reads of this layer.
func (a *attention) attendSegments(c *fetch.Reader, reads []fetch.Read, last bool) {
	index := reads[0].Sequence
	blocks := a.m.cache.PageBlocks()
	page, end := max(0, a.shared.firstPage(index)-reads[0].FirstPage), &reads[len(reads)-1]
	for {
		for len(reads) > 0 && page >= reads[0].Pages {
			page -= reads[0].Pages
			reads = reads[1:]
		}
		if len(reads) == 0 {
			return
		}
		tiles, pages := a.shared.tilesOn(index, reads[0].FirstPage+page)
		if len(tiles) == 0 { // no row continues that attends to this page
			page++
			continue
		}
		block := (reads[0].FirstPage + page) * blocks
		if a.pages, a.err = c.Take(a.ctx, a.pages[:0], reads, a.index, page); a.err != nil {
			return
		}
		a.pages = a.pages[:min(len(a.pages), pages)]
		group := pageGroup{pages: a.pages, merged: block, block: block, count: len(a.pages) * blocks, tiles: tiles}
		switch {
		case fetch.Authentic(a.pages):
		case len(tiles) == 1 && a.firstBlock(tiles[0]) <= block:
			group.checksums = a.checks.Buffer(group.count * a.layer.KVHeads)
		default:
			group.fresh = a.pages
		}
		page += len(a.pages)
		if len(a.batch.runs) == 1 && last && block+group.count == (end.FirstPage+end.Pages)*blocks {
			group.joinsResident = true
			a.fetched = group
			return
		}
		if !a.attendGroup(group) {
			return
		}
	}
}

// attendGroup verifies the pages of a group and attends to them at the same time. It reports
// whether all pages are intact.
func (a *attention) attendGroup(group pageGroup) bool {
	a.fetched = group
	a.m.workers.Run(a.groupParts()+len(group.tiles)*a.layer.KVHeads, a.groupPart)
	a.verifyBlocks()
	a.err = a.fetched.err
	a.fetched = pageGroup{}
	return a.err == nil
}

// run runs the parts that attend to pages in memory, and the work on pages from flash that join
// them.
func (a *attention) run(parts int) {
	a.m.workers.Run(a.groupParts()+parts, a.attendPart)
	a.verifyBlocks()
	a.err = cmp.Or(a.err, a.fetched.err)
	a.fetched.pages = nil // only the shared spans are left to merge
}

// tilesOf returns the tiles of a run of the batch.
func (a *attention) tilesOf(r *run) []tile {
	first, count := 0, 0
	for i := range a.tiles {
		if a.tiles[i].row < r.row {
			first++
		} else if a.tiles[i].row < r.row+r.count {
			count++
		}
	}
	return a.tiles[first : first+count]
}

// groupParts returns the number of parts that a group needs besides attention: one that submits
// more reads, and one per page to verify it unless attention computes the checksums.
func (a *attention) groupParts() int {
	switch {
	case len(a.fetched.pages) == 0:
		return 0
	case a.fetched.checksums != nil:
		return 1
	}
	return 1 + len(a.fetched.fresh)
}

// runGroupPart runs one of the parts that groupParts counts. If a page is damaged, the pass ends
// before it uses the result of the tiles.
func (a *attention) runGroupPart(part int) {
	if part == 0 {
		if a.m.kvReader.FlashBound() {
			a.m.kvReader.Submit()
		}
		return
	}
	a.verifyPage(part - 1)
}

// attendGroupPart runs a part of a group: one that groupParts counts, or the attention of one
// tile and key head.
func (a *attention) attendGroupPart(part, worker int) {
	if groupParts := a.groupParts(); part < groupParts {
		a.runGroupPart(part)
	} else {
		a.attendFetched(part-groupParts, worker)
	}
}

// attendFetched merges the group's blocks into the states of one tile and key head.
func (a *attention) attendFetched(part, worker int) {
	w, g := &a.workers[worker], &a.fetched
	t, kvHead := g.tiles[part/a.layer.KVHeads], part%a.layer.KVHeads
	block, end := max(g.merged, a.firstBlock(t)), g.block+g.count
	if block >= end {
		return
	}
	acc, span := a.resume(w, t, kvHead, g.merged)
	a.quantizeQueries(w, t, kvHead)
	for ; block < end; block++ {
		if block >= g.block && t.attends(block) {
			next := t.nextBlock(block + 1)
			if next >= end {
				next = block
			}
			a.blockState(w, span, t, kvHead, block, next)
		}
		if (block+1)%spanBlocks == 0 {
			a.mergeState(acc, span)
			a.clearState(span)
		}
	}
	a.saveState(acc, span, t, kvHead, end)
}

// attendedBefore reports whether a tile attends to any block before the given one.
func (a *attention) attendedBefore(t tile, block int) bool { return block > a.firstBlock(t) }

// resume loads a tile's saved states of the blocks before from into the thread's workspace.
func (a *attention) resume(w *workspace, t tile, kvHead, from int) (acc, span []float32) {
	n := t.count * a.m.Spec.Heads / a.layer.KVHeads * a.stateWidth()
	acc, span = w.acc[:n], w.span[:n]
	a.beginAcc(acc, t, kvHead, from)
	a.beginSpan(span, t, kvHead, from, from/spanBlocks*spanBlocks)
	return acc, span
}

// beginAcc sets acc to the saved result of a tile over the whole spans before a block.
func (a *attention) beginAcc(acc []float32, t tile, kvHead, before int) {
	if !a.attendedBefore(t, before) {
		a.clearState(acc)
		return
	}
	saved, _ := a.tileState(t, kvHead)
	copy(acc, saved)
}

// beginSpan sets state to the saved state of a tile over the blocks from first, where a span
// begins, up to before.
func (a *attention) beginSpan(state []float32, t tile, kvHead, before, first int) {
	if before <= first || !a.attendedBefore(t, before) {
		a.clearState(state)
		return
	}
	_, saved := a.tileState(t, kvHead)
	copy(state, saved)
}

// saveState saves a thread's states as the tile's states of the blocks before end.
func (a *attention) saveState(acc, span []float32, t tile, kvHead, end int) {
	savedAcc, savedSpan := a.tileState(t, kvHead)
	copy(savedAcc, acc)
	if end%spanBlocks != 0 {
		copy(savedSpan, span)
	}
}

// checksumBlock computes the checksum of a KV head block of a fetched page, if no separate part
// verifies the page.
func (a *attention) checksumBlock(kvHead, block int) {
	g := &a.fetched
	if at := block - g.block; g.checksums != nil && at < g.count {
		g.checksums[at*a.layer.KVHeads+kvHead] = crc.Update(0, a.fetchedBlock(kvHead, at))
	}
}

// verifyBlocks verifies the pages from the checksums of their KV head blocks.
func (a *attention) verifyBlocks() {
	if a.fetched.checksums == nil {
		return
	}
	headBlocks := len(a.fetched.checksums) / len(a.fetched.pages)
	for i := range a.fetched.pages {
		a.compareChecksum(&a.fetched.pages[i], a.checks.Combine(a.stored, a.fetched.checksums[i*headBlocks:(i+1)*headBlocks]))
	}
}

// verifyPage computes the checksum of one page and verifies it.
func (a *attention) verifyPage(i int) {
	page := &a.fetched.fresh[i]
	a.compareChecksum(page, crc.Update(0, page.Data))
}

// compareChecksum compares the checksum of a page with the stored one and records a mismatch.
func (a *attention) compareChecksum(page *fetch.Page, sum uint32) {
	if err := page.Verify(a.stored, sum); err != nil {
		a.fetchedMu.Lock()
		a.fetched.err = err
		a.fetchedMu.Unlock()
	}
}
