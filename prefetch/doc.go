// Package prefetch decides when bytes move from flash to memory.
//
// A [Queue] keeps several reads in flight: a flash device reaches its bandwidth
// only when it has more than one request to work on, and one goroutine that
// reads in order gets a fraction of it. Large reads are cut into pieces of a
// megabyte, which is long enough for the device to be efficient and short enough
// for a cancellation to take effect at once.
//
// Pieces are handed out in the order of submission and of offset, but may
// complete in any order. That never changes a result: each piece has its own
// place in the destination, and nobody looks at that before Wait has returned.
//
// A [Stream] brings the same bytes again and again, in order, through a ring. Where
// the operating system reads by itself, no thread waits for any of them.
//
// The destination belongs to the queue from Submit until Wait returns, with
// success or without. After that, nothing writes to it any more, so a frame can
// be freed at once even when the read was cancelled or failed.
package prefetch
