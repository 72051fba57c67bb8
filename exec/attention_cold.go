package exec

import "github.com/llmrun/llmrun/kv"

// Keys and values on flash are looked at as they land: a group of pages by all
// tiles that see them, then the next. What a tile knows so far - its result over
// all whole spans, and the state of the present span - is kept between groups, and
// the pages in memory go on from there. So every tile merges the same blocks in
// the same order as with all of them in memory.

// landed is the pages that attention looks at, in a ring; data is nil while it
// looks at those in memory.
type landed struct {
	data  []byte
	chunk kv.Chunk
	page  int   // of the chunk: the first
	from  int   // of the sequence: the first block that tiles have not passed
	block int   // of the sequence: the first
	count int   // blocks
	tile  int   // the first of the sequence's tiles
	err   error // of a page that is damaged
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
	return s.kv.ColdPages() * (p.m.cache.PageTokens() / kv.BlockTokens)
}

// known returns what a tile knows of its sequence's cold blocks: the result over
// all spans that have ended and the state of the present one.
func (p *pass) known(t tile, kvHead int) (acc, span []float32) {
	heads, width := p.m.Spec.Heads, p.stateWidth()
	n := t.count * heads / p.layer.KVHeads * width
	at := t.row*heads*width + kvHead*n
	return p.kept[0][at : at+n], p.kept[1][at : at+n]
}

// attendCold looks at the pages on flash.
func (p *pass) attendCold() {
	c := p.m.cold
	if !p.batch.cold() {
		return
	}
	for _, t := range p.tiles {
		for h := range p.layer.KVHeads {
			acc, span := p.known(t, h)
			p.clearState(acc)
			p.clearState(span)
		}
	}
	if p.chooser.on {
		for _, r := range p.batch.runs {
			if !p.failed() {
				p.attendPicked(r)
			}
		}
	}
	c.ask(p.index)
	for i := c.first[p.index]; i < c.first[p.index+1] && !p.failed(); i++ {
		p.attendChunk(c, &c.reads[i])
	}
	p.landed = landed{}
}

// attendChunk looks at the pages of a chunk.
func (p *pass) attendChunk(c *coldKV, r *chunkRead) {
	of := p.batch.runs[r.row]
	first, tiles := p.tilesOf(of)
	blocks := p.m.cache.PageTokens() / kv.BlockTokens
	size := p.m.cache.PageBytes(p.index)
	for page := max(0, c.firstPage(p.index, of.pos)-r.page); page < r.pages; {
		data, err := c.take(p.ctx, r, p.index, page)
		if err != nil {
			p.err = err
			return
		}
		n, block := len(data)/size, (r.page+page)*blocks
		if !p.attendGroup(tiles, landed{data: data, chunk: r.chunk, page: page, from: block, block: block, count: n * blocks, tile: first}) {
			return
		}
		page += n
	}
}

// attendGroup verifies pages that have landed and looks at them, at the same time.
// It reports whether they are sound.
func (p *pass) attendGroup(tiles int, group landed) bool {
	p.landed = group
	p.m.workers.Run(1+p.landedPages()+tiles*p.layer.KVHeads, p.landedPart)
	p.err = p.landed.err
	return p.err == nil
}

// landedPages returns how many pages have landed.
func (p *pass) landedPages() int { return p.landed.count * kv.BlockTokens / p.m.cache.PageTokens() }

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

// useLanded asks for more pages, checks one that has landed, or looks at all of them
// for one tile. What tiles make of a damaged page goes no further: the pass ends behind it.
func (p *pass) useLanded(part, worker int) {
	pages := p.landedPages()
	switch {
	case part == 0:
		p.m.cold.feed()
	case part <= pages:
		p.verify(part - 1)
	default:
		p.attendLanded(part-1-pages, worker)
	}
}

// verify checks one of the pages that have landed.
func (p *pass) verify(i int) {
	l, size := &p.landed, p.m.cache.PageBytes(p.index)
	if err := l.chunk.Verify(p.index, l.page+i, l.data[i*size:(i+1)*size]); err != nil {
		p.damaged.Lock()
		l.err = err
		p.damaged.Unlock()
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
	acc, span := p.known(t, kvHead)
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
}
