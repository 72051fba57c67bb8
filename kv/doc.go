// Package kv is the memory of a conversation: the keys and values of every
// token, layer by layer, in pages of a fixed number of tokens.
//
// A page belongs to one layer and holds consecutive tokens of all key heads, in
// blocks of [BlockTokens], already in the order in which attention reads them.
// Appending a token writes that token's bytes and nothing else. A full page never
// changes again. Pages in memory live in off-heap frames that are charged to a
// budget; pages of closed or shortened sequences are used again.
//
// A sequence is a prefix on flash, which is empty as long as there is memory, and
// behind it pages in memory. Where the next page finds no room, the oldest pages
// in memory of the sequence that was not used for longest go to flash, some of all
// layers at a time, as a [Chunk] of a [Spiller]; each byte is written once, and none
// where [Seq.Persist] has kept the pages before. Whoever
// reads a page back verifies it. Going back into the middle of a cold page brings
// that one into memory again when the sequence next grows.
//
// Sequences share pages, in memory and on flash, after [Seq.Fork]. A page that is
// not full is copied by whoever writes into it next.
//
// Promises: a read returns exactly what was stored; a page handed to a new
// sequence shows it none of the old one's tokens, because nobody reads beyond
// the tokens that were put; a sequence's methods may be called by one goroutine at
// a time, except that Share and what views it may be called by many while nothing
// is put, and sequences of a cache may be used side by side as long as none is
// read while another one grows.
package kv
