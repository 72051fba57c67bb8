package prefetch

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// WriteFunc writes p to a file at off. A [Writer] passes it to its jobs, so that the
// writer decides when each piece is written.
type WriteFunc func(to io.WriterAt, p []byte, off int64) error

// Deadline says when a job of a [Writer] should have ended. The zero value means that nobody
// knows.
type Deadline struct {
	At    time.Time
	Bytes int64 // that the job writes, roughly
}

// Writer writes behind the computation: one job at a time, on a goroutine of its own, and as
// much as the scheduler admits between the reads. The writes of a job are spread over the time
// until its deadline: a piece that waits longer than its part of this time moves up to the class
// of the stream. At the call of [Writer.Wait] somebody waits, and the rest of the job is written
// without waiting for reads. One goroutine at a time may call the methods. The zero value is
// ready for use.
type Writer struct {
	// Scheduler, if set, admits the writes.
	Scheduler *Scheduler
	// Reserve, if set, is called before the goroutine starts.
	Reserve func(threads int)

	jobs   chan func(WriteFunc) error // nil before the first job
	done   chan error                 // capacity 1: the result of the job
	exited sync.WaitGroup
	busy   bool // a job has started, and its result was not taken
	closed bool

	write    WriteFunc
	wait     *writeWait
	deadline Deadline    // of the job; Bytes are those left
	stopped  atomic.Bool // the job's result is not needed
	bytes    atomic.Int64
}

// Busy reports whether a job has started whose result was not taken.
func (w *Writer) Busy() bool { return w.busy }

// Bytes returns the number of bytes written since the writer was created, including those
// of failed and stopped jobs. Any goroutine may call it.
func (w *Writer) Bytes() int64 { return w.bytes.Load() }

// Start starts a job. The writer must not be busy. The job writes with the function that
// it receives, in pieces, and returns the first error. After Close, the job does not run.
func (w *Writer) Start(job func(write WriteFunc) error, deadline Deadline) {
	if w.jobs == nil {
		w.open()
	}
	w.busy = true
	if w.closed {
		w.done <- ErrClosed
		return
	}
	w.deadline = deadline
	w.stopped.Store(false)
	w.Scheduler.hurry(w.wait, false)
	w.jobs <- job
}

// open starts the goroutine.
func (w *Writer) open() {
	w.jobs, w.done, w.wait = make(chan func(WriteFunc) error, 1), make(chan error, 1), newWriteWait()
	if w.closed {
		return
	}
	if w.Reserve != nil {
		w.Reserve(1)
	}
	w.write = w.writePiece
	w.exited.Go(func() {
		for job := range w.jobs {
			w.done <- job(w.write)
		}
	})
}

// Poll takes the result of the job if it has ended.
func (w *Writer) Poll() (ended bool, err error) {
	if !w.busy {
		return false, nil
	}
	select {
	case err = <-w.done:
		w.busy = false
		return true, err
	default:
		return false, nil
	}
}

// Wait hurries the job, waits until it has ended, and takes its result. If ctx ends
// first, the job goes on and ended is false.
func (w *Writer) Wait(ctx context.Context) (ended bool, err error) {
	if !w.busy {
		return false, nil
	}
	w.Hurry()
	select {
	case err = <-w.done:
		w.busy = false
		return true, err
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// Hurry states that somebody waits for the job.
func (w *Writer) Hurry() {
	if w.busy {
		w.Scheduler.hurry(w.wait, true)
	}
}

// Cancel makes the job end before its next piece, with [ErrClosed], and does not wait. A job
// that has written everything succeeds all the same.
func (w *Writer) Cancel() {
	w.stopped.Store(true)
	w.Hurry()
}

// Stop is Cancel, and waits for the job and takes its result.
func (w *Writer) Stop() (ended bool, err error) {
	w.Cancel()
	return w.Wait(context.Background())
}

// Close ends the goroutine. The caller takes the result of the last job before.
func (w *Writer) Close() {
	if w.closed {
		return
	}
	w.closed = true
	if w.jobs != nil {
		close(w.jobs)
		w.exited.Wait()
	}
}

// writePiece writes one piece of the job when the scheduler admits it.
func (w *Writer) writePiece(to io.WriterAt, p []byte, off int64) error {
	if w.stopped.Load() {
		return ErrClosed
	}
	grant := w.Scheduler.awaitWrite(w.wait, len(p), w.pieceDue(len(p)))
	defer w.Scheduler.Done(grant)
	if w.stopped.Load() {
		return ErrClosed
	}
	n, err := to.WriteAt(p, off)
	w.bytes.Add(int64(n))
	w.deadline.Bytes -= int64(n)
	return err
}

// pieceDue returns when a piece moves up: half of the time that it may take if all pieces of the
// job take the same time, so that the job ends well before its deadline.
func (w *Writer) pieceDue(bytes int) time.Time {
	now := time.Now()
	if w.deadline.At.IsZero() {
		return now.Add(w.Scheduler.fairWait(bytes))
	}
	left := float64(w.deadline.At.Sub(now))
	return now.Add(time.Duration(max(0, left) * float64(bytes) / float64(max(w.deadline.Bytes, int64(bytes))) / 2))
}
