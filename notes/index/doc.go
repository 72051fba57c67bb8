// Package index finds passages of notes: it walks a directory of notes, divides them into passages, and keeps their
// words and vectors in one file that survives a kill or a power cut at any moment.
//
// The file holds no text. A passage is a range of bytes of its note, and its words are hashes. When an [Index] is
// opened, it reads the file once and builds what a search needs in memory: posting lists of words, and blocks of int8
// vectors. All of that is reserved in the ledger of the caller before it grows.
//
// A search does not depend on the history of an index: it gives the same hits, with the same bits of the scores, as one
// of an index that was just built from the same notes.
//
// # The file
//
//	offset  size  field
//	0       8     magic "LLMNOTES"
//	8       4     version
//	12      4     zero
//	16      8     a random number, another one after each rewrite
//	24      8     XXH64 of the bytes before
//	32      -     records
//
// A record is:
//
//	0       4     length n of the content
//	4       4     kind: 1 a note, 2 the removal of a note, 3 vectors, 4 the encoder
//	8       8     XXH64 of the 8 bytes before and the content
//	16      n     content
//
// A later record replaces earlier ones of the same note, and of the encoder. Numbers are varints, texts and lists have their length
// before them. The content of a note is:
//
//	path, SHA-256 of the file (32 bytes), title, tags,
//	passages: bytes from the end of the last passage to its start, bytes, words, key (16 bytes),
//	    terms: distance to the last hash (of 40 bits), how often less one
//
// and that of vectors:
//
//	model, elements of a vector,
//	vectors: key of the passage (16 bytes), a row in the format Q8_0, and 4 bits of what its rounding leaves of each
//	    element: of elements i and i+16 of a group in one byte, in sixteenths of the group's scale, plus 8
//
// and that of the encoder, all of it empty after the index was told to use none:
//
//	model, name and settings by which the program that uses the index opens it
//
// A note is finished when its record is written. Who opens a file goes on behind the last record that is whole; what
// follows is cut off before the next record is written.
package index
