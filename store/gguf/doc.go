// Package gguf reads and writes GGUF files, versions 2 and 3.
//
// A GGUF file is a header followed by the data of the tensors:
//
//	magic "GGUF", version u32, tensor count u64, key count u64
//	keys:    name, kind u32, value     (metadata: architecture, vocabulary, …)
//	tensors: name, dimensions, type, offset into the data section
//	padding to general.alignment, then the data section
//
// All numbers are little-endian. A model may be split into several files, called shards:
// PREFIX-00001-of-00003.gguf and so on. [Open] accepts the path of any of them and returns
// a [File]; [File.Meta] returns the [Metadata], whose getters check the kind of each value.
// [Write] and [WriteCopy] write files.
//
// The reader does not trust the file. It compares every count with the remaining bytes
// before it allocates memory, so the size of a file bounds the memory that opening it
// takes. Open rejects a truncated file. Errors are [*store.FormatError] or [*vfs.IOError].
//
// Begin with readShard in file.go, which reads a header from start to end.
package gguf
