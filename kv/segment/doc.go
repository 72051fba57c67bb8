// Package segment stores keys and values (KV) of sequences on flash.
//
// # Overview
//
// A segment is a file with up to [MaxPages] consecutive pages of all layers of one
// sequence. It is written once and never changed. Its [ID] is a hash of everything
// that its bytes depend on: the model and its settings, the tokens before it, and its
// own tokens. Therefore a sequence that begins like an earlier one finds the segments
// of the earlier one, in any session and any process, and no segment can be mistaken
// for another.
//
// A [Dir] is a directory of segments that processes share; it evicts the least
// recently used segments to stay within its size limit. A [Store] ([Dir.Store]) is
// the view of the directory for one model and its settings: [Store.Lookup] finds the
// longest prefix of a token sequence, [Store.Write] adds a segment. An open segment
// is a [File].
//
// A session is a named [Manifest]: tokens, messages and the list of segments that it
// pins. [Dir.LockSession] locks a session for one process, [SessionLock.Save]
// replaces it atomically.
//
// Begin reading in store.go and session.go. FORMAT.md in package kv specifies both
// kinds of files.
//
// # Guarantees
//
// Every page has a checksum of its bytes, its position and the segment's ID. A reader
// verifies the checksum before it uses the page ([File.Verify]). A crash at any
// moment leaves the old or the new version of a session, complete with its segments;
// other segments may be lost, but never have wrong contents. Files are readable only
// by their owner.
package segment
