// Package gguf reads and writes GGUF files, versions 2 and 3.
//
// A GGUF file is one header followed by the tensors' bytes:
//
//	magic "GGUF", version u32, tensor count u64, key count u64
//	keys:    name, kind u32, value     (metadata: architecture, vocabulary, …)
//	tensors: name, dimensions, type, offset into the data section
//	padding to general.alignment, then the data section
//
// All numbers are little-endian. A model may be split into several files,
// PREFIX-00001-of-00003.gguf and so on; [Open] accepts any of them.
//
// The reader trusts nothing. Every count is compared with the bytes that are
// left before memory is set aside for it, so what a file can make us allocate
// is bounded by its size, and a file that was cut short fails at Open and not
// at first use. Errors are [*store.FormatError] or [*vfs.IOError].
package gguf
