package exec

import "slices"

// Sequences of a batch that begin with the same pages, such as branches of one prompt, attend to these
// pages together: each page is read once, and its keys are multiplied by the queries of all of them. The
// state of each query is the one that it has alone, because queries do not influence each other and
// blocks are merged in the same order.
//
// Only neighbours in the batch share pages. A fork stands beside its origin, so that sequences with a
// common prefix are neighbours.

// join gives a new sequence its place among those of the model: beside its origin, or at the end.
func (q *sharedPasses) join(s, origin *Sequence) {
	s.piece = piece{seq: s, done: make(chan struct{}, 1), prompt: true}
	q.moveBeside(s, origin)
}

// moveBeside gives a sequence the place beside another one, whose pages it shares.
func (q *sharedPasses) moveBeside(s, origin *Sequence) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.removeSequence(s)
	q.insert(s, origin)
}

// insert gives a sequence the place behind another one, or the last. The caller holds q.mu.
func (q *sharedPasses) insert(s, origin *Sequence) {
	at := slices.Index(q.order, origin) + 1
	if at == 0 {
		at = len(q.order)
	}
	q.order = slices.Insert(q.order, at, s)
	q.renumber(at)
}

// renumber gives the sequences from place at on their numbers. The caller holds q.mu.
func (q *sharedPasses) renumber(at int) {
	for i, s := range q.order[at:] {
		s.number = at + i
	}
}

// withdraw takes a sequence out of those of the model.
func (q *sharedPasses) withdraw(s *Sequence) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.removeSequence(s)
}

// removeSequence takes a sequence out of the order. The caller holds q.mu.
func (q *sharedPasses) removeSequence(s *Sequence) {
	if at := slices.Index(q.order, s); at >= 0 {
		q.order = slices.Delete(q.order, at, at+1)
		q.renumber(at)
	}
}

// sharing is what a run has in common with the runs beside it.
type sharing struct {
	shared int // first pages that are those of the run before
	merged int // first pages that are attended together with other runs
	saved  int // row of tileStates with the state of its first row
}

// sharedRange is pages in memory that some consecutive runs of a batch share.
type sharedRange struct {
	first, last int // runs [first, last)
	begin, end  int // pages [begin, end) of each of them
}

// leastSharedBlocks is the fewest blocks for which sequences attend together: a few blocks cost less than
// one more step of all threads.
const leastSharedBlocks = 4

// findShared finds the pages that runs share. At most rows rows can keep a state between pages that are
// shared and those that are not.
func (b *Batch) findShared(m *Model, rows int) {
	for i := 1; i < len(b.runs); i++ {
		before, r := &b.runs[i-1], &b.runs[i]
		if r.row+r.count > rows || r.selects || before.selects {
			continue
		}
		r.shared = min(before.seq.kv.SharedPages(r.seq.kv), before.pos/m.cache.PageTokens(), r.pos/m.cache.PageTokens())
	}
	b.addRanges(m, 0, len(b.runs), 0)
}

// findSharedAgain is findShared after pages of the batch have moved to flash.
func (b *Batch) findSharedAgain(m *Model) {
	if len(b.runs) < 2 {
		return
	}
	b.ranges = b.ranges[:0]
	for i := range b.runs {
		b.runs[i].shared, b.runs[i].merged = 0, 0
	}
	b.findShared(m, m.pass.stateRows())
}

// addRanges adds the ranges of some runs. They attend together to the pages before page from already.
func (b *Batch) addRanges(m *Model, first, last, from int) {
	if last-first < 2 {
		return
	}
	to := b.runs[first+1].shared
	for i := first + 2; i < last; i++ {
		to = min(to, b.runs[i].shared)
	}
	// Sequences that share pages in memory share all pages on flash.
	inMemory := max(from, b.runs[first].seq.kv.ColdPages())
	if (to-inMemory)*m.cache.PageBlocks() >= leastSharedBlocks {
		b.ranges = append(b.ranges, sharedRange{first: first, last: last, begin: inMemory, end: to})
		for i := first; i < last; i++ {
			b.runs[i].merged = to
		}
		from = to
	}
	for i := first + 1; i <= last; i++ { // runs between which no more pages are shared
		if i == last || b.runs[i].shared <= to {
			b.addRanges(m, first, i, from)
			first = i
		}
	}
}

// sharingRows is the most rows of a batch that attend to shared pages together, if the KV cache is all in
// memory: eight branches with seven guesses each.
const sharingRows = 64

// sharedAttention is the part of attention for pages that several sequences share.
type sharedAttention struct {
	*attention
	common  []tile // tiles of several sequences
	spansOf spanRound

	roundSpanPart, mergeRoundPart func(part, worker int)
}

// attendShared attends to the pages in memory that several sequences share.
func (a *sharedAttention) attendShared() {
	if a.layer.Window > 0 {
		return // it attends to the last tokens, which sequences rarely share
	}
	blocks := a.m.cache.PageBlocks()
	for _, r := range a.batch.ranges {
		from, to := r.begin*blocks, r.end*blocks
		if tiles := a.tilesOfRuns(r.first, r.last); len(tiles) > 0 {
			a.attendTogether(pageGroup{merged: from, block: from, count: to - from, tiles: tiles})
		}
	}
}

// spanRound is the spans of a group that threads attend to at the same time, each with a state of its own.
type spanRound struct{ first, count int }

// roundParts is how many parts of a round each thread gets at least.
const roundParts = 4

// attendTogether attends to a group of pages in memory. If there are too few tiles and key heads for all
// threads, they take spans of a tile, in rounds as long as the memory for their states allows.
func (a *sharedAttention) attendTogether(group pageGroup) {
	a.fetched = group
	parts, threads := len(group.tiles)*a.layer.KVHeads, len(a.workers)
	if parts%threads == 0 || parts >= roundParts*threads {
		a.m.workers.Run(parts, a.groupPart)
	} else {
		for end := group.block + group.count; a.fetched.merged < end; {
			first := a.fetched.merged / spanBlocks
			last := min((end-1)/spanBlocks+1, first+roundParts*threads/parts)
			a.spansOf = spanRound{first, last - first}
			a.m.workers.Run(parts*a.spansOf.count, a.roundSpanPart)
			a.m.workers.Run(parts, a.mergeRoundPart)
			a.fetched.merged = min(end, last*spanBlocks)
		}
	}
	a.fetched = pageGroup{}
}

// roundFloats returns the floats of the states of a round.
func (a *sharedAttention) roundFloats() int {
	return roundParts * len(a.workers) * a.maxTileQueries() * a.widestState()
}

// roundState returns the state of a part of a round.
func (a *sharedAttention) roundState(part int, t tile) []float32 {
	at := part * a.maxTileQueries() * a.stateWidth()
	return a.spans[at : at+t.count*a.m.Spec.Heads/a.layer.KVHeads*a.stateWidth()]
}

// attendRoundSpan attends to one span of the round for a tile and key head.
func (a *sharedAttention) attendRoundSpan(part, worker int) {
	w, g, spans := &a.workers[worker], &a.fetched, a.spansOf.count
	t, kvHead, span := g.tiles[part/spans/a.layer.KVHeads], part/spans%a.layer.KVHeads, a.spansOf.first+part%spans
	state := a.roundState(part, t)
	a.beginSpan(state, t, kvHead, g.merged, span*spanBlocks)
	a.quantizeQueries(w, t, kvHead)
	end := min(g.block+g.count, (span+1)*spanBlocks)
	for block := max(g.merged, span*spanBlocks); block < end; block++ {
		a.blockState(w, state, t, kvHead, block, min(block+1, end-1))
	}
}

// mergeRound merges the spans of the round into the saved states of a tile and key head.
func (a *sharedAttention) mergeRound(part, worker int) {
	g, spans := &a.fetched, a.spansOf.count
	t, kvHead := g.tiles[part/a.layer.KVHeads], part%a.layer.KVHeads
	savedAcc, savedSpan := a.tileState(t, kvHead)
	acc := a.workers[worker].acc[:len(savedAcc)]
	a.beginAcc(acc, t, kvHead, g.merged)
	for i := range spans {
		state := a.roundState(part*spans+i, t)
		if (a.spansOf.first+i+1)*spanBlocks <= g.block+g.count {
			a.mergeState(acc, state)
		} else {
			copy(savedSpan, state)
		}
	}
	copy(savedAcc, acc)
}

// tilesOfRuns returns tiles of consecutive runs for pages that all of them share. They are valid until
// the next call.
func (a *sharedAttention) tilesOfRuns(first, last int) []tile {
	a.common = a.common[:0]
	begin, end := &a.batch.runs[first], &a.batch.runs[last-1]
	rows, pos := a.tileRows(a.layer.KVHeads), begin.pos
	for i := range a.batch.runs[first:last] {
		pos = min(pos, a.batch.runs[first+i].pos)
	}
	for row := begin.row; row < end.row+end.count; row += rows {
		t := tile{seq: begin.seq, row: row, pos: pos, count: min(rows, end.row+end.count-row), saved: begin.saved + row - begin.row}
		t.end = t.pos + t.count
		if a.anyWanted(t.row, t.count) {
			a.common = append(a.common, t)
		}
	}
	return a.common
}

// tilesOn returns the tiles of all rows that attend to a page on flash of a sequence, and for how many
// pages from this one on they are the same.
func (a *sharedAttention) tilesOn(index, page int) (tiles []tile, pages int) {
	last, end := index+1, a.batch.runs[index].seq.kv.ColdPages()
	if a.layer.Window == 0 {
		for ; last < len(a.batch.runs) && a.batch.runs[last].shared > page; last++ {
			end = min(end, a.batch.runs[last].shared)
		}
	}
	if last == index+1 {
		return a.tilesOf(&a.batch.runs[index]), end - page
	}
	return a.tilesOfRuns(index, last), end - page
}

// firstPage returns the first page on flash that the layer reads for a sequence.
func (a *sharedAttention) firstPage(index int) int {
	r := &a.batch.runs[index]
	if a.layer.Window == 0 {
		return r.shared
	}
	return a.m.kvReader.FirstPage(a.index, r.pos)
}

// With page selection, attention reads only picked pages from flash: those to which some row of
// a sequence attends. Which pages these are follows from the tokens; which of them are still in
// memory from earlier tokens does not matter to the result.

// attendSelected attends to the picked pages on flash of a run's sequence, in as many rounds as
// their memory requires, usually one. If the sequence is the only one, the last round joins the
// pages in memory.
func (a *attention) attendSelected(r *run) {
	tiles := a.tilesOf(r)
	cold := r.seq.kv.ColdPages()
	if len(tiles) == 0 || cold == 0 {
		return // no row of this sequence continues
	}
	if a.err = a.m.pickedPages.Start(); a.err != nil {
		return
	}
	k, blocks := a.m.pickedPages, a.m.cache.PageBlocks()
	k.Begin(a.stored, cold)
	begun, index := 0, 0 // first page of the round; page of the sequence
	for _, span := range r.seq.kv.Cold() {
		for page := range span.Pages {
			if anyAttends(tiles, index*blocks, blocks) && !k.Pick(index, span.Segment(), page) {
				if !a.attendRound(tiles, begun, index) {
					return
				}
				begun = index
				k.Pick(index, span.Segment(), page) // an empty round has memory for a page
			}
			index++
		}
	}
	if len(a.batch.runs) > 1 {
		a.attendRound(tiles, begun, cold)
		return
	}
	if a.fetched, a.err = a.pickedGroup(tiles, begun, cold); a.err != nil {
		a.fetched = pageGroup{}
	}
	a.fetched.joinsResident = a.err == nil
}

// pickedGroup waits for the pages of a round, from page begun up to end of a sequence.
func (a *attention) pickedGroup(tiles []tile, begun, end int) (g pageGroup, err error) {
	blocks := a.m.cache.PageBlocks()
	g = pageGroup{merged: begun * blocks, block: begun * blocks, count: (end - begun) * blocks, tiles: tiles}
	g.pages, g.fresh, err = a.m.pickedPages.Fetch(a.ctx, end)
	return g, err
}

// attendRound attends to the pages of a round. It reports whether all of them are intact.
func (a *attention) attendRound(tiles []tile, begun, end int) bool {
	group, err := a.pickedGroup(tiles, begun, end)
	if a.err = err; err != nil || !a.attendGroup(group) {
		return false
	}
	a.m.pickedPages.Keep()
	return true
}

// anyAttends reports whether any of some tiles attends to any of some blocks.
func anyAttends(tiles []tile, block, blocks int) bool {
	for i := range tiles {
		for b := range blocks {
			if tiles[i].attends(block + b) {
				return true
			}
		}
	}
	return false
}
