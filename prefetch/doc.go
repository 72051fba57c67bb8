// Package prefetch reads from flash ahead of use and writes to it behind.
//
// A flash device reaches its bandwidth only with several requests in flight; a
// goroutine that reads in order gets a fraction of it. The package offers two ways to
// keep requests in flight. Begin reading in queue.go, then stream.go.
//
// A [Queue] executes independent reads ([Queue.Submit], [Ticket.Wait]) on a number of
// goroutines. It divides a large read into pieces of a megabyte: long enough for the
// device, short enough for a prompt cancellation. Pieces start in the order of
// submission and offset and may complete in any order. The destination belongs to the
// queue from Submit until Wait returns, with or without an error. After that nothing
// writes to it, so that the caller can free it even if the read failed or was
// cancelled.
//
// A [Stream] reads a fixed [Sequence] of byte ranges repeatedly, in order, through
// a ring of memory. A forward pass takes the bytes with [Stream.Take] while the
// stream reads the following bytes, at the end of a pass those at the start of the
// next. If the operating system has an asynchronous read queue (see
// [vfs.ReadQueue]), the stream submits its reads there and needs no goroutines.
//
// A [Writer] writes in the background, between the reads, until somebody waits for the
// result.
//
// A [Scheduler] admits the transfers of all of them, by classes of urgency and within one
// budget of bytes in flight.
package prefetch
