package fetch

import (
	"context"
	"time"

	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/prefetch"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// PickedPages reads the pages that the page selector picked, neighbours together, and keeps
// frequently picked ones in memory for the next tokens. It uses the ring of a [Reader] while no
// stream needs it, and a small buffer of its own otherwise. What it keeps never decides which
// pages are picked.
//
// A layer takes its pages in rounds. A round is: [PickedPages.Begin], [PickedPages.Pick] for
// ascending pages until it reports that the memory is full, [PickedPages.Fetch], attention, and
// [PickedPages.Keep].
type PickedPages struct {
	reader   *Reader
	maxPages int // of a sequence
	batch    prefetch.Batch
	stats    prefetch.StreamStats

	own     *tiering.Frame // the buffer of its own, nil before it is needed
	table   *tiering.Frame // memory of scores
	scores  [][]float32    // [layer][page] how often a page was picked lately
	uses    int            // the reader's count of uses of the ring when pages were last kept
	memory  []byte         // the ring or own: staging, then the slots of kept pages
	staging []byte         // pages that are read
	kept    keptPages

	// The round.
	layer int
	size  int    // of a page
	pages []Page // from page first on; without data if not picked
	first int
	fresh []Page     // pages that were read
	reads []freshKey // [fresh] what was read
	used  int        // bytes of staging in use
	last  lastRead
	next  int // index in the layer's kept pages, which are in the order of pages
}

// freshKey identifies a page that was read.
type freshKey struct {
	index int // in the sequence
	pageKey
}

// lastRead is the last read of a round, which the next page may extend.
type lastRead struct {
	from kv.Segment
	page int // the page that would continue it
	at   int // offset of its memory in staging
	skip int // bytes before its first page
	size int // bytes of its pages
}

// ownPages is the number of pages in the buffer of its own.
const ownPages = 16

// stagingPages is the number of pages for which memory is reserved for reading.
const stagingPages = 32

// NewPickedPages returns pages for sequences of up to context tokens, whose other pages r reads.
// reserve is called before reader goroutines start, with their number.
func NewPickedPages(r *Reader, context int, reserve func(readers int)) *PickedPages {
	return &PickedPages{
		reader: r, maxPages: context/r.Cache.PageTokens() + 2,
		batch: prefetch.Batch{Scheduler: r.User.Scheduler, Readers: tiering.StreamReads, ReserveReaders: reserve},
	}
}

// Start prepares a layer of a pass. It allocates memory at the first call. If another user of
// the ring has overwritten kept pages, it forgets them.
func (k *PickedPages) Start() error {
	if k.table == nil {
		if err := k.allocateScores(); err != nil {
			return err
		}
	}
	if ring, uses := k.reader.idleRing(); ring != nil {
		if k.uses != uses || len(k.memory) != len(ring) {
			k.uses = uses
			k.divide(ring)
		}
		return nil
	}
	if k.own == nil {
		if err := k.allocateOwn(); err != nil {
			return err
		}
	}
	if len(k.memory) != len(k.own.Bytes()) || k.uses >= 0 {
		k.uses = -1
		k.divide(k.own.Bytes())
	}
	return nil
}

// allocateScores allocates the table of scores.
func (k *PickedPages) allocateScores() (err error) {
	k.scores = make([][]float32, k.reader.layers)
	carve := func(a *tiering.Arena) {
		for l := range k.scores {
			if k.reader.keeps(l) {
				k.scores[l] = a.Floats(k.maxPages)
			}
		}
	}
	var probe tiering.Arena
	carve(&probe)
	if k.table, err = tiering.Alloc(k.reader.Budget, tiering.KVFrames, probe.Need()); err != nil {
		return err
	}
	arena := tiering.NewArena(k.table)
	carve(arena)
	k.pages = make([]Page, 0, k.maxPages)
	return arena.Err()
}

// allocateOwn allocates the buffer of its own, a smaller one if memory is short.
func (k *PickedPages) allocateOwn() (err error) {
	for n := ownPages; n > 0; n /= 4 {
		if k.own, err = tiering.Alloc(k.reader.Budget, tiering.KVFrames, n*k.slot()); err == nil {
			return nil
		}
	}
	k.own = nil
	return err
}

// slot returns the memory for reading one page, which may begin off the alignment.
func (k *PickedPages) slot() int { return vfs.DirectSize(k.reader.largestPage) + vfs.DirectAlign }

// divide divides memory into staging and slots, and forgets all kept pages.
func (k *PickedPages) divide(memory []byte) {
	k.memory = memory
	staging := max(k.slot(), min(len(memory)/4, stagingPages*k.reader.largestPage)&^(vfs.DirectAlign-1))
	k.staging = memory[:staging]
	k.kept.divide(k.reader, memory[staging:])
}

// Begin begins the first round of a layer for a sequence of a number of pages on flash.
func (k *PickedPages) Begin(layer, pages int) {
	k.layer, k.size, k.next = layer, k.reader.Cache.PageBytes(layer), 0
	k.kept.borrow(pages)
	decay(k.scores[layer][:min(pages, k.maxPages)])
	k.beginRound(0)
}

// beginRound begins a round of the pages from first on.
func (k *PickedPages) beginRound(first int) {
	k.first, k.pages, k.fresh, k.reads = first, k.pages[:0], k.fresh[:0], k.reads[:0]
	k.used, k.last = 0, lastRead{}
}

// Pick adds a page to the round: page index of the sequence, which is a page of a segment. It
// returns false if there is no memory to read it in this round.
func (k *PickedPages) Pick(index int, segment kv.Segment, page int) bool {
	key := pageKey{segment, page}
	data := k.kept.find(k.layer, &k.next, index, key)
	if data == nil {
		if data = k.read(segment, page); data == nil {
			return false
		}
		k.fresh = append(k.fresh, Page{data, segment, page})
		k.reads = append(k.reads, freshKey{index, key})
	}
	k.scores[k.layer][index]++
	k.fill(index)
	k.pages = append(k.pages, Page{data, segment, page})
	return true
}

// fill adds pages without data up to a page.
func (k *PickedPages) fill(index int) {
	for k.first+len(k.pages) < index {
		k.pages = append(k.pages, Page{})
	}
}

// read adds the read of a page, and returns its memory, or nil if staging is full. If the page
// continues the last one on flash, both are read together.
func (k *PickedPages) read(segment kv.Segment, page int) []byte {
	from, off, _ := segment.LayerRun(k.layer)
	off += int64(page) * int64(k.size)
	r := &k.last
	if r.from != segment || r.page != page {
		*r = lastRead{from: segment, at: k.used, skip: int(off % vfs.DirectAlign)}
	}
	end := r.at + vfs.DirectSize(r.skip+r.size+k.size)
	if end > len(k.staging) {
		return nil
	}
	dst := k.staging[r.at:end:end]
	if r.size == 0 {
		k.batch.Add(from, off-int64(r.skip), dst)
	} else {
		k.batch.Extend(dst)
	}
	at := r.skip + r.size
	r.size, r.page, k.used = r.size+k.size, page+1, end
	return dst[at : at+k.size : at+k.size]
}

// Fetch waits for the pages of the round and returns those from the first of the round to end,
// without data where Pick was not called, and those that were read: the caller verifies them.
func (k *PickedPages) Fetch(ctx context.Context, end int) (pages, fresh []Page, err error) {
	k.fill(end)
	if len(k.fresh) == 0 {
		return k.pages, nil, nil
	}
	begun := time.Now()
	k.stats.Bytes += k.batch.Bytes()
	err = k.batch.Wait(ctx)
	waited := time.Since(begun)
	k.stats.Stalls++
	k.stats.Stalled += waited
	k.batch.Scheduler.Waited(waited)
	return k.pages, k.fresh, err
}

// Keep ends a round whose pages are verified and attended to. It copies frequently picked pages
// to memory that stays until they are picked less often than others.
func (k *PickedPages) Keep() {
	for i := range k.fresh {
		k.kept.offer(k.layer, k.reads[i], k.fresh[i].Data, k.scores[k.layer])
	}
	k.beginRound(k.first + len(k.pages))
	k.next = 0
}

// Forget drops all kept pages.
func (k *PickedPages) Forget() { k.memory = nil }

// Stats returns the totals of all reads.
func (k *PickedPages) Stats() prefetch.StreamStats { return k.stats }

// Close ends all reads and releases the memory.
func (k *PickedPages) Close() {
	k.batch.Close()
	for _, f := range []*tiering.Frame{k.own, k.table} {
		if f != nil {
			f.Free()
		}
	}
	k.own, k.table = nil, nil
}
