// Package kv stores the keys and values (KV) of sequences: in memory, and on flash
// when memory runs out.
//
// # Overview
//
// A [Cache] owns the memory and hands it out to sequences. A [Seq] holds the KV of
// one token stream: [Seq.Grow] makes room, [Seq.Put] stores a token, [Seq.Commit]
// makes the tokens visible, [Seq.Truncate] removes tokens from the end, [Seq.Fork]
// copies a sequence without copying its pages. Begin reading in cache.go and seq.go.
//
// KV is divided into pages of a fixed number of tokens. A page belongs to one layer
// and consists of blocks of [BlockTokens] tokens, in the order in which attention
// reads them; FORMAT.md specifies the bytes, and [Format] is the precision. The pages
// of one position in all layers are adjacent in memory and form a slab, the unit of
// allocation. Slabs are cut from off-heap frames, which the cache charges to
// its budget. A full page never changes again.
//
// # Flash
//
// A sequence consists of a prefix on flash, which is empty as long as memory
// suffices, followed by pages in memory. When few slabs are left, the cache takes
// the least recently used sequence and writes its oldest pages of all layers to flash
// as one [Segment], on a goroutine beside the forward pass (behind.go). A [Spiller] such
// as [Scratch] does the writing. When no slab is free, the cache drops one of the written pages,
// or the rest of a segment for a prompt.
// If [Seq.Persist] has already written these pages, the cache uses the persisted segment
// and writes nothing. A reader verifies the checksum of every page that it reads back; package
// kv/fetch reads pages for attention. When a sequence grows after a truncation within
// a page on flash, that page returns to memory.
//
// [Seq.Persist], [Seq.PersistBehind] and [Seq.Restore] write and read the segments of saved
// sessions and of the prefix cache; package kv/segment defines these files. [Summaries] describe
// blocks of keys for the page selector.
//
// # Guarantees
//
// A read returns exactly what was stored. A reused page shows nothing of its previous
// sequence, because readers stop at the last stored token. Forked sequences share
// pages, in memory and on flash; a sequence copies a shared page before it writes
// into it.
//
// One goroutine at a time may call the methods of a sequence. Exception: several
// goroutines may call HeadBlock, Block and Block8 while none stores tokens. Goroutines
// may use different sequences of a cache in parallel, but none may read a sequence or store
// its tokens while another sequence grows, because growing may take pages of any sequence
// out of memory. All other methods may run then: Grow holds the cache's lock while it
// reserves and attaches slabs, and never while it reads, or waits for the writer.
package kv
