package exec

import (
	"time"

	"github.com/llmrun/llmrun/internal/threadpool"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/prefetch"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// With a selection, what a layer reads from flash depends on the query, so it
// cannot be on its way before. Of the pages on flash those that any row has taken
// are read then, several at a time, and looked at in order as they land, like the
// pages of a stream.

// pickSlots is how many pages are on their way at once.
const pickSlots = 16

// picker reads single pages.
type picker struct {
	queue *prefetch.Queue // nil until something is read
	frame *tiering.Frame
	slot  int // bytes of a slot

	picks   []pick // a ring of slots
	asked   int    // pages that were asked for in the present walk
	taken   int    // those of them that were looked at
	bytes   int64
	stalls  int
	stalled time.Duration
}

// pick is a page that was asked for.
type pick struct {
	ticket *prefetch.Ticket
	data   []byte // of the page
	chunk  kv.Chunk
	page   int // of the chunk
	index  int // of the sequence
}

// start takes memory for pages of up to unit bytes, for fewer at once where there
// is little.
func (k *picker) start(budget *tiering.Budget, unit int) (err error) {
	if k.queue != nil {
		return nil
	}
	k.slot = vfs.DirectSize(unit) + vfs.DirectAlign // a page may begin between two multiples
	for n := pickSlots; n > 0; n /= 4 {
		if k.frame, err = tiering.Alloc(budget, tiering.KVFrames, n*k.slot); err == nil {
			k.picks = make([]pick, n)
			threadpool.ReserveForReaders(tiering.StreamReads)
			k.queue = prefetch.New(tiering.StreamReads)
			return nil
		}
	}
	return err
}

func (k *picker) close() {
	if k.queue != nil {
		k.queue.Close()
		k.frame.Free()
	}
}

// ask begins to read a page into the next slot.
func (k *picker) ask(p *pass, chunk kv.Chunk, page, index int) {
	at, size := k.asked%len(k.picks), p.m.cache.PageBytes(p.index)
	from, off, _ := chunk.LayerRun(p.index)
	off += int64(page) * int64(size)
	before := int(off % vfs.DirectAlign)
	slot := k.frame.Bytes()[at*k.slot:][:vfs.DirectSize(before+size)]
	k.picks[at] = pick{
		ticket: k.queue.Submit(p.ctx, prefetch.Request{From: from, Off: off - int64(before), Dst: slot}),
		data:   slot[before : before+size], chunk: chunk, page: page, index: index,
	}
	k.asked++
	k.bytes += int64(len(slot))
}

// wait returns the next page that was asked for, when it has landed.
func (k *picker) wait(p *pass) (*pick, error) {
	one := &k.picks[k.taken%len(k.picks)]
	k.taken++
	begun := time.Now()
	err := one.ticket.Wait(p.ctx)
	k.stalls++
	k.stalled += time.Since(begun)
	return one, err
}

// drain waits for pages that nobody will look at.
func (k *picker) drain(p *pass) {
	for k.taken < k.asked {
		_, _ = k.wait(p) // an error before is why
	}
}

// attendPicked looks at the pages on flash that rows of a run of the batch have
// taken.
func (p *pass) attendPicked(of run) {
	k := &p.m.cold.picker
	if p.err = k.start(p.m.budget, p.m.cold.unit); p.err != nil {
		return
	}
	first, tiles := p.tilesOf(of)
	blocks := p.m.cache.PageBlocks()
	k.asked, k.taken = 0, 0
	defer k.drain(p)
	done := 0 // blocks that were passed
	attend := func() bool {
		one, err := k.wait(p)
		if p.err = err; err != nil {
			return false
		}
		from, block := done, one.index*blocks
		done = block + blocks
		p.pages = append(p.pages[:0], landedPage{one.data, one.chunk, one.page})
		return p.attendGroup(tiles, landed{pages: p.pages, from: from, block: block, count: blocks, tile: first})
	}
	index := 0
	for _, part := range of.seq.kv.Cold() {
		for page := range part.Pages {
			if p.anyLooksAt(first, tiles, index*blocks, blocks) {
				if k.asked-k.taken == len(k.picks) && !attend() {
					return
				}
				k.ask(p, part.Chunk(), page, index)
			}
			index++
		}
	}
	for k.taken < k.asked {
		if !attend() {
			return
		}
	}
	p.attendGroup(tiles, landed{from: done, block: index * blocks, tile: first}) // spans may end behind the last page
}

// anyLooksAt reports whether any of some tiles looks at any of some blocks.
func (p *pass) anyLooksAt(tile, tiles, block, blocks int) bool {
	for _, t := range p.tiles[tile : tile+tiles] {
		for b := range blocks {
			if p.looksAt(t, block+b) {
				return true
			}
		}
	}
	return false
}
