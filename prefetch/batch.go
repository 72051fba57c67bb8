package prefetch

import (
	"context"
	"io"

	"github.com/llmrun/llmrun/store/vfs"
)

// Batch reads several ranges at the same time, batch after batch. It uses the operating
// system's read queue where it can, and then allocates no memory and needs no goroutines;
// other reads are made by a [Queue]. One goroutine at a time may use it. The zero value is
// ready for use.
type Batch struct {
	// Scheduler, if set, counts the reads: the caller of Wait waits for all of them.
	Scheduler *Scheduler
	// ReserveReaders, if set, is called before the goroutines of a [Queue] start.
	ReserveReaders func(readers int)
	// Readers is the number of these goroutines.
	Readers int

	reads   []batchRead
	grant   Grant // of the reads that were started
	started int   // reads passed to the system's queue or to goroutines
	pending int   // reads in the system's queue

	opened bool           // the system was asked for a queue
	system *vfs.ReadQueue // nil: there is none
	queue  *Queue         // nil before the first read by goroutines
}

// batchRead is one range of a batch.
type batchRead struct {
	from   io.ReaderAt
	off    int64
	dst    []byte
	ticket *Ticket // nil: the system's queue reads it
	short  bool    // the system's queue read too few bytes
}

// Add adds a range to the batch: the bytes of from at off that fill dst. Offset, length and
// address should be multiples of [vfs.DirectAlign]; otherwise the read may be slow.
func (b *Batch) Add(from io.ReaderAt, off int64, dst []byte) {
	b.reads = append(b.reads, batchRead{from: from, off: off, dst: dst})
}

// Extend replaces the destination of the range that was added last by a longer one with the
// same beginning.
func (b *Batch) Extend(dst []byte) { b.reads[len(b.reads)-1].dst = dst }

// Bytes returns the bytes of the batch.
func (b *Batch) Bytes() (n int64) {
	for i := range b.reads {
		n += int64(len(b.reads[i].dst))
	}
	return n
}

// Submit starts the reads of the batch, as many as fit in the system's queue.
func (b *Batch) Submit(ctx context.Context) {
	for ; b.started < len(b.reads); b.started++ {
		r := &b.reads[b.started]
		file, ok := r.from.(vfs.File)
		queued := ok && b.canQueue(file, r)
		if queued && b.system.Room() == 0 {
			b.system.Submit()
			return
		}
		grant, _ := b.Scheduler.Admit(Awaited, len(r.dst))
		b.grant = Grant{grant.class, b.grant.bytes + grant.bytes}
		if !queued {
			b.readByGoroutine(ctx, r)
			continue
		}
		b.system.Add(file, r.dst, r.off, b.started)
		b.pending++
	}
	if b.pending > 0 {
		b.system.Submit()
	}
}

// canQueue reports whether the system's queue can make a read.
func (b *Batch) canQueue(file vfs.File, r *batchRead) bool {
	if !b.opened {
		b.opened, b.system = true, vfs.NewReadQueue(maxQueued)
	}
	return b.system != nil && vfs.Queueable(file) && r.off%vfs.DirectAlign == 0 && len(r.dst)%vfs.DirectAlign == 0 && len(vfs.AlignDirect(r.dst)) == len(r.dst)
}

// readByGoroutine starts a read without the system's queue.
func (b *Batch) readByGoroutine(ctx context.Context, r *batchRead) {
	if b.queue == nil {
		if b.ReserveReaders != nil {
			b.ReserveReaders(b.Readers)
		}
		b.queue = New(b.Readers)
	}
	r.ticket = b.queue.Submit(ctx, Request{From: r.from, Off: r.off, Dst: r.dst})
}

// Wait starts the reads that Submit has not started, waits until all have ended, and empties
// the batch. It returns the error of a read that failed. If ctx ends first, it returns the
// error of ctx when no read writes to memory any more.
func (b *Batch) Wait(ctx context.Context) error {
	defer b.empty()
	for b.started < len(b.reads) || b.pending > 0 {
		if err := ctx.Err(); err != nil {
			b.abandon()
			return err
		}
		b.Submit(ctx)
		if b.pending == 0 {
			continue
		}
		for at, n, ok := b.system.Next(cancelEvery); ok; at, n, ok = b.system.Next(0) {
			b.pending--
			b.reads[at].short = n < len(b.reads[at].dst)
		}
	}
	return b.result(ctx)
}

// result waits for the goroutines and returns the first error. It repeats short reads, which
// gives a descriptive error if they fail again.
func (b *Batch) result(ctx context.Context) (failed error) {
	for i := range b.reads {
		r := &b.reads[i]
		var err error
		switch {
		case r.ticket != nil:
			err = r.ticket.Wait(ctx)
		case r.short:
			_, err = readWhole(r.from, r.dst, r.off)
		}
		if failed == nil {
			failed = err
		}
	}
	return failed
}

// abandon waits for the reads in flight, whose results are not needed.
func (b *Batch) abandon() {
	if b.system != nil {
		b.system.Drain()
	}
	for i := range b.reads {
		if t := b.reads[i].ticket; t != nil {
			t.cancel(context.Canceled)
			<-t.done
		}
	}
}

// empty removes all reads, which have ended.
func (b *Batch) empty() {
	b.Scheduler.Done(b.grant)
	b.grant = Grant{}
	clear(b.reads)
	b.reads, b.started, b.pending = b.reads[:0], 0, 0
}

// Close ends all reads.
func (b *Batch) Close() {
	b.abandon()
	b.empty()
	if b.system != nil {
		b.system.Close()
		b.system = nil
	}
	if b.queue != nil {
		b.queue.Close()
		b.queue = nil
	}
}
