// Package digest computes the SHA-256 of whole files and remembers it.
//
// A hash of gigabytes takes seconds, and programs open the same models again and again. A
// [Memo] therefore stores the hash of a file together with its [vfs.Stamp]: size, times of
// the last changes, device and inode. If any of them differs, the file is read again. File
// systems that number their files anew, or that record no changes, cause more reads and never
// a wrong hash.
//
// A file that was changed in the last two seconds may change again without another stamp. Its
// hash is remembered apart, and only [Memo.Verify] uses it: to say that the content is still
// the same, not that it has changed.
//
// A program that writes a file knows its hash, and hands it to [Memo.Written].
//
// The stamp does not reveal damage below the file system. [Of] always reads the file; use it
// where damage must be found.
package digest
