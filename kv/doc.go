// Package kv is the memory of a conversation: the keys and values of every
// token, layer by layer, in pages of a fixed number of tokens.
//
// A page belongs to one layer of one sequence and holds [PageTokens]
// consecutive tokens of all key heads, already in the order in which attention
// reads them. Appending a token writes that token's bytes and nothing else.
// Pages live in off-heap frames that are charged to a budget; pages of closed
// or shortened sequences are used again.
//
// Promises: a read returns exactly what was stored; a page handed to a new
// sequence shows it none of the old one's tokens, because nobody reads beyond
// the tokens that were put; a sequence's methods may be called by one
// goroutine at a time, except that Block may be called by many while nothing
// is put.
package kv
