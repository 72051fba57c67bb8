package kv

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/llmrun/llmrun/prefetch"
)

// Full pages never change, so the cache writes them behind the computation: when the
// pages in memory come close to the limit, the writer writes the pages that will be
// dropped next. A token that needs room then finds them written and only drops them.

// behind is the state of writing behind. Cache.mu guards it, except that the writer's
// goroutine reads and sets the fields of the job from Start until its result is taken.
type behind struct {
	writer prefetch.Writer
	run    func(prefetch.WriteFunc) error // the job
	late   bool                           // see WriteOnDemand
	failed bool                           // the last job failed; no other starts until a token needs room
	tight  bool                           // there was no room for its pages; the next one writes a single page

	// The job in flight, nil if there is none: it writes slabs, which are pinned.
	job     *spillJob
	slabs   []*slab
	first   int     // number of the first page in its sequences
	after   Segment // see Spiller.Spill
	segment Segment // the result

	stalled time.Duration
	stalls  int

	// grewAt is when the last slab was taken, and slabTime roughly how long a slab lasts.
	grewAt   time.Time
	slabTime time.Duration
}

// spillJob is a job of the writer, for those who wait for it: whoever locks the cache first when the
// job has ended takes its result, and all of them read it here.
type spillJob struct {
	ended chan struct{} // closed when nothing more is written
	err   error         // result, when Cache.behind has another job or none
	tight bool          // it failed for lack of room; a smaller one may succeed
}

// init prepares the writer of a cache.
func (b *behind) init(c *Cache, o Options) {
	b.writer.Scheduler, b.writer.Reserve = o.Scheduler, o.ReserveWriter
	c.saver.writer.Scheduler, c.saver.writer.Reserve = o.Scheduler, o.ReserveWriter
	page := func(layer, i int) []byte { return c.page(b.slabs[i], layer) }
	b.run = func(write prefetch.WriteFunc) (err error) {
		defer close(b.job.ended)
		b.segment, err = c.spill.Spill(b.after, len(c.layerOffsets), len(b.slabs), page, write)
		return err
	}
}

// Memory for a page is made by dropping one page, not all of a written segment: so the pages on
// flash, which every token reads, grow by one at a time, and memory stays full. A prompt drops the
// rest of a segment at once, because each change of the pages on flash restarts the reads ahead.

// slabsLeft returns the number of slabs that are within the memory limit and not in use.
// The caller holds c.mu.
func (c *Cache) slabsLeft() int { return int(c.hotLimit/int64(max(1, c.slabBytes))) - c.liveSlabs }

// writeMargin is the number of slabs, left or with written pages, below which the writer starts:
// half of what one segment will free.
func (c *Cache) writeMargin() int { return max(1, c.SegmentPages()/2) }

// writeAhead starts to write the pages that will be dropped next if memory is nearly full
// and they are not written yet. The caller holds c.mu.
func (c *Cache) writeAhead() {
	if c.spill == nil || c.closed || c.hotLimit <= 0 || c.slabsLeft() > c.writeMargin() {
		return
	}
	if c.pollWriter(); c.behind.late || c.behind.failed || c.behind.writer.Busy() {
		return
	}
	c.pollSave()
	if s, room := c.nextToWrite(); s != nil && room <= c.writeMargin() && !c.saver.writes(s) {
		c.startWrite(s, room)
	}
}

// nextToWrite returns the sequence whose pages will be dropped when those that are written are
// gone, and the number of slabs that are left until then. The sequence is nil if no full page is
// unwritten. The caller holds c.mu.
func (c *Cache) nextToWrite() (next *Seq, room int) {
	room = max(0, c.slabsLeft())
	first := c.oldestFull()
	if first == nil {
		return nil, room
	}
	written, _ := first.writtenPages()
	if room += written; written < first.fullHotPages() {
		return first, room
	}
	after := 0
	for s := range c.seqs {
		if n, _ := s.writtenPages(); n < s.fullHotPages() && (next == nil || s.used < next.used) {
			next, after = s, n
		}
	}
	return next, room + after
}

// WriteOnDemand disables writing behind for measurements: pages are written when a token
// needs their memory.
func (c *Cache) WriteOnDemand(late bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.behind.late = late
}

// oldestFull returns the sequence whose pages are dropped next: the least recently used
// one with full pages in memory. The sequences of a batch grow in turns and count as
// equally old; among them it prefers one with written pages. The caller holds c.mu.
func (c *Cache) oldestFull() *Seq {
	var oldest, written *Seq
	for s := range c.seqs {
		if s.fullHotPages() == 0 {
			continue
		}
		if oldest == nil || s.used < oldest.used {
			oldest = s
		}
		if s.nextSaved() != nil && (written == nil || s.used < written.used) {
			written = s
		}
	}
	if written != nil && written.used < oldest.used+uint64(len(c.seqs)) {
		return written
	}
	return oldest
}

// startWrite starts to write the first pages in memory of a sequence that are not written; room
// is the number of slabs that are left until they are dropped. The caller holds c.mu, the writer
// is not busy, and the cache is open.
func (c *Cache) startWrite(s *Seq, room int) {
	b := &c.behind
	written, after := s.writtenPages()
	if after == nil {
		after = s.lastSegment()
	}
	pages := c.SegmentPages()
	if b.tight {
		pages = 1
	}
	b.slabs = append(b.slabs[:0], s.hot[written:min(s.fullHotPages(), written+pages)]...)
	for _, r := range b.slabs {
		r.refs++
	}
	b.first, b.after, b.failed, b.tight = s.coldPages+written, after, false, false
	b.job = &spillJob{ended: make(chan struct{})}
	b.writer.Start(b.run, prefetch.Deadline{At: c.usedAt(room), Bytes: int64(len(b.slabs)) * int64(c.slabBytes)})
}

// noteGrowth records that a number of slabs was taken. The caller holds c.mu.
func (b *behind) noteGrowth(slabs int) {
	now := time.Now()
	if !b.grewAt.IsZero() {
		each := now.Sub(b.grewAt) / time.Duration(slabs)
		if b.slabTime == 0 || each < b.slabTime {
			b.slabTime = each
		}
		b.slabTime += (each - b.slabTime) / 4 // a user may have paused in between
	}
	b.grewAt = now
}

// usedAt returns when a number of slabs will be in use; zero if that is unknown. The caller holds
// c.mu.
func (c *Cache) usedAt(slabs int) time.Time {
	if c.behind.slabTime == 0 || c.hotLimit <= 0 {
		return time.Time{}
	}
	return time.Now().Add(time.Duration(slabs) * c.behind.slabTime)
}

// pollWriter takes the result of a job that has ended. The caller holds c.mu.
func (c *Cache) pollWriter() {
	if ended, err := c.behind.writer.Poll(); ended {
		c.endWrite(err) // recorded in Stats; the token that needs room tries again
	}
}

// endWrite records the result of a job for all sequences that have its pages in memory, and the
// error with what could not be written. The caller holds c.mu.
func (c *Cache) endWrite(err error) {
	b := &c.behind
	job, pages, written := b.job, len(b.slabs), b.segment
	b.job, b.after, b.segment = nil, nil, nil
	defer func() {
		for _, r := range b.slabs {
			c.releaseSlab(r)
		}
		clear(b.slabs)
		b.slabs = b.slabs[:0]
	}()
	switch {
	case errors.Is(err, prefetch.ErrClosed): // stopped, because nobody needs the pages
		return
	case err != nil:
		job.tight = pages > 1 && isTight(err)
		b.failed, b.tight = true, job.tight
		job.err = fmt.Errorf("kv: cannot spill %d pages of %d tokens to flash: %w", pages, c.pageTokens, err)
		if !job.tight { // otherwise a token that needs room tries again
			c.failed = job.err
		}
		return
	}
	shared := &sharedSegment{Segment: written, refs: 1}
	defer shared.drop()
	for s := range c.seqs {
		at := b.first - s.coldPages
		if at >= 0 && at+pages <= s.fullHotPages() && slices.Equal(s.hot[at:at+pages], b.slabs) {
			s.noteAhead(savedSegment{b.first, shared})
		}
	}
}

// noteAhead records a written segment, unless an earlier one holds its first page. Those that
// begin within it are dropped. The caller holds c.mu.
func (s *Seq) noteAhead(k savedSegment) {
	at := 0
	for at < len(s.saved) && s.saved[at].first <= k.first {
		if k.first < s.saved[at].end() {
			return
		}
		at++
	}
	for at < len(s.saved) && s.saved[at].first < k.end() {
		s.saved[at].segment.drop()
		s.saved = slices.Delete(s.saved, at, at+1)
	}
	k.segment.refs++
	s.saved = slices.Insert(s.saved, at, k)
}

// aheadPages returns the number of pages in memory that were written behind. The caller
// holds c.mu.
func (s *Seq) aheadPages() (n int) {
	if s.nextSaved() == nil {
		return 0
	}
	for _, k := range s.saved {
		if !k.persisted() {
			n += k.end() - max(k.first, s.coldPages)
		}
	}
	return n
}

// spillOldest drops at least one page, the oldest of the least recently used sequence, and waits
// until it is written if necessary. A caller that needs more than one slab wants the rest of the
// segment to be dropped, too. The caller holds c.mu, which is free during waits: afterwards all is
// looked at anew.
func (c *Cache) spillOldest(ctx context.Context, slabs int) error {
	for c.spill != nil && !c.closed {
		c.pollWriter()
		c.pollSave()
		s := c.oldestFull()
		if c.saver.save != nil && (s == nil || c.saver.writes(s)) { // the pages are being written already
			if err := c.awaitSave(ctx); err != nil {
				return err
			}
			continue
		}
		if s != nil && s.nextSaved() != nil {
			s.dropWritten(slabs > 1)
			return nil
		}
		if !c.behind.writer.Busy() {
			if s == nil {
				break
			}
			c.startWrite(s, 0)
		}
		job := c.behind.job
		if err := c.awaitWriter(ctx); err != nil && (!job.tight || ctx.Err() != nil) {
			return err
		}
	}
	return errNothingToSpill
}

// awaitWriter waits for the job in flight, and counts the wait. The caller holds c.mu, which is
// free during the wait.
func (c *Cache) awaitWriter(ctx context.Context) error {
	b, begun := &c.behind, time.Now()
	job := b.job
	b.writer.Hurry()
	b.stalls++
	ended := c.await(ctx, job.ended)
	b.stalled += time.Since(begun)
	if !ended {
		return ctx.Err()
	}
	c.takeResult(job)
	return job.err
}

// await waits until a job or ctx has ended, and reports whether the job has. The caller holds c.mu,
// which is free during the wait.
func (c *Cache) await(ctx context.Context, job <-chan struct{}) bool {
	c.mu.Unlock()
	defer c.mu.Lock()
	select {
	case <-job:
		return true
	case <-ctx.Done():
		return false
	}
}

// takeResult takes the result of a job that has ended, unless another goroutine did. The caller holds
// c.mu.
func (c *Cache) takeResult(job *spillJob) {
	if c.behind.job == job {
		_, err := c.behind.writer.Wait(context.Background()) // for the last steps of its goroutine
		c.endWrite(err)
	}
}

// cancelNeedlessWrite makes the job end early if no sequence has one of its pages any more, and
// returns it then. The caller holds c.mu.
func (c *Cache) cancelNeedlessWrite() *spillJob {
	b := &c.behind
	if b.job == nil || !slices.ContainsFunc(b.slabs, func(r *slab) bool { return r.refs == 1 }) {
		return nil
	}
	b.writer.Cancel()
	return b.job
}

// closeWriter stops the job and the writer. The caller holds c.mu.
func (c *Cache) closeWriter() {
	b := &c.behind
	if b.job != nil {
		_, err := b.writer.Stop()
		c.endWrite(err) // the pages are not needed
	}
	b.writer.Close()
}
