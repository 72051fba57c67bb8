// Package segment stores keys and values of sequences on flash.
//
// A segment is up to [MaxPages] consecutive pages of all layers of one sequence. It is
// written once and never changed. Its ID is a hash of everything that its bytes
// depend on: the model and its settings, all tokens before it, and its own. So a
// sequence that begins like an earlier one finds the earlier one's segments, in
// any session and any process, and no segment can pass for another.
//
// Every page has a checksum over its bytes, the ID and the page's position. A
// reader verifies the checksum before it uses the page: see [File.Verify].
//
// A [Dir] is a directory of segments that processes share, with a limit on its
// size. A [Store] holds the segments of one model and its settings. Sessions have
// names and pin the segments that they need, in a directory of their own: see
// [Dir.LockSession]. FORMAT.md in package kv specifies both kinds of files.
package segment
