// Package fetch brings keys and values that lie on flash back to the attention of a pass.
//
// A Reader plans, for a batch of sequences, which pages each layer attends to, and reads
// them through a ring of memory in that order: while one layer computes, the pages of the
// next are on their way, and behind the last layer those of the first for the next pass.
// Where weights are streamed too, one stream brings both (Interleaver), so that neither
// takes bandwidth that the other needs first.
//
// A PageReader reads single pages that a selection took; which ones depends on the query,
// so they cannot be prefetched.
//
// Every page is verified against its checksum before its results are used. Checks combines
// the checksums of KV head blocks, which attention computes while a block is in its cache,
// into the checksum of a page.
//
// A Reader belongs to the goroutine of the pass. Submit may be called from any thread.
package fetch
