// Package chunk keeps the keys and values of texts on flash.
//
// A chunk is up to [MaxPages] consecutive pages of all layers of one text. It is
// written once and never changed. Its ID is a hash of everything that its bytes
// depend on: the model and its settings, all tokens before it, and its own. So a
// text that begins like an earlier one finds that one's chunks, in any session
// and any process, and a chunk can pass for no other.
//
// Every page has a checksum over its bytes, the ID and the page's place, which
// whoever reads a page compares before it is used: see [File.Verify].
//
// A [Dir] is a directory of chunks that processes share, with a bound on its
// size. A [Store] is what it holds for one model and its settings. Sessions, in a
// directory of their own, have names and pin the chunks that they need: see
// [Dir.LockSession]. FORMAT.md in package kv specifies both kinds of files.
package segment
