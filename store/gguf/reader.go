package gguf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/vfs"
)

const (
	// windowBytes is the size of one read of the header.
	windowBytes = 64 << 10
	// maxHeaderBytes limits keys and tensor table together. The largest vocabularies, with
	// merges and scores, take about 20 MiB.
	maxHeaderBytes = 256 << 20
)

// reader parses a header. The first error sticks: later calls return zero values. A caller
// may therefore read a whole record and check err once, but it must check err before it
// loops or allocates by a value it read.
type reader struct {
	file   vfs.File
	end    int64 // limit of the header
	off    int64 // offset of the next byte
	window []byte
	start  int64 // offset of window in the file
	err    error
	lean   bool // arrays of the tokenizer are skipped

	fsys             vfs.FS // whose meter counts what the header makes the reader allocate
	counted, granted int64  // bytes allocated, and bytes that the meter has granted
}

// meterStep is the granularity in bytes at which a reader reserves memory: a file may have a
// hundred thousand fields.
const meterStep = 256 << 10

// reserve counts n bytes that the reader is about to allocate.
func (r *reader) reserve(n int64) bool {
	if r.err != nil {
		return false
	}
	r.counted += n
	if more := r.counted - r.granted; more > 0 {
		more = (more + meterStep - 1) / meterStep * meterStep
		if r.err = vfs.Reserve(r.fsys, r.file.Name(), more); r.err != nil {
			return false
		}
		r.granted += more
	}
	return true
}

// field names what is being read. It is formatted only for an error: a file may have a
// hundred thousand fields.
type field struct {
	what string // "version", "key", "tensor"
	name string // of this key or tensor; may be empty
}

func (f field) String() string {
	if f.name == "" {
		return f.what
	}
	return fmt.Sprintf("%s %q", f.what, f.name)
}

func newReader(fsys vfs.FS, file vfs.File, size int64) *reader {
	return &reader{fsys: fsys, file: file, end: min(size, maxHeaderBytes), window: make([]byte, 0, min(size, windowBytes))}
}

// left returns the number of unread bytes up to the limit of the header.
func (r *reader) left() int64 { return r.end - r.off }

// fail records a malformed file at the current offset.
func (r *reader) fail(f field, reason string, args ...any) error {
	return r.setError(&store.FormatError{Field: f.String(), Reason: fmt.Sprintf(reason, args...), Kind: store.ErrFormat})
}

// setError completes e with path and offset and records it, unless an error is recorded
// already.
func (r *reader) setError(e *store.FormatError) error {
	if r.err == nil {
		e.Path, e.Off = r.file.Name(), r.off
		r.err = e
	}
	return r.err
}

// truncated records that a field needs n bytes and the file has fewer left.
func (r *reader) truncated(f field, n uint64) {
	if r.end == maxHeaderBytes {
		r.fail(f, "the header is longer than %d bytes", int64(maxHeaderBytes))
		return
	}
	r.setError(&store.FormatError{
		Field: f.String(), Reason: fmt.Sprintf("needs %d bytes, the file has %d left", n, r.left()),
		Hint: "the download may be incomplete", Kind: store.ErrTruncated,
	})
}

// take returns the next n bytes, at most windowBytes, or nil after an error. They are valid
// until the next call.
func (r *reader) take(f field, n int) []byte {
	if r.err != nil {
		return nil
	}
	if int64(n) > r.left() {
		r.truncated(f, uint64(n))
		return nil
	}
	if r.off < r.start || r.off+int64(n) > r.start+int64(len(r.window)) {
		if !r.fill(f) {
			return nil
		}
	}
	at := r.off - r.start
	r.off += int64(n)
	return r.window[at : at+int64(n)]
}

// fill moves the window to the current offset.
func (r *reader) fill(f field) bool {
	n := min(int64(cap(r.window)), r.left())
	r.start, r.window = r.off, r.window[:n]
	if _, err := r.file.ReadAt(r.window, r.off); err != nil {
		r.window = r.window[:0]
		r.ioFailed(f, err)
		return false
	}
	return true
}

// ioFailed records a failed read. io.EOF within the size of the file means that another
// process truncates it.
func (r *reader) ioFailed(f field, err error) {
	if errors.Is(err, io.EOF) {
		r.setError(&store.FormatError{Field: f.String(), Reason: "the file was truncated while it was read", Kind: store.ErrTruncated})
	} else if r.err == nil {
		r.err = err
	}
}

func (r *reader) u32(f field) uint32 {
	if b := r.take(f, 4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (r *reader) u64(f field) uint64 {
	if b := r.take(f, 8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// bytes returns a copy of the next n bytes.
func (r *reader) bytes(f field, n uint64) []byte {
	if r.err != nil {
		return nil
	}
	if n > uint64(r.left()) {
		r.truncated(f, n)
		return nil
	}
	if !r.reserve(int64(n)) {
		return nil
	}
	p := make([]byte, n)
	if n <= uint64(cap(r.window)) {
		copy(p, r.take(f, int(n)))
		return p
	}
	if _, err := r.file.ReadAt(p, r.off); err != nil {
		r.ioFailed(f, err)
		return nil
	}
	r.off += int64(n)
	return p
}

// skip advances by n bytes.
func (r *reader) skip(f field, n uint64) {
	if r.err != nil {
		return
	}
	if n > uint64(r.left()) {
		r.truncated(f, n)
		return
	}
	r.off += int64(n)
}

// str returns a string, which is stored as its length and its bytes.
func (r *reader) str(f field) string { return string(r.bytes(f, r.u64(f))) }

// count reads a number of records. It rejects a number that the rest of the header cannot
// hold, or above most: the hole of a sparse file holds any number of records of zeros. each
// is the minimum size of a record in bytes.
func (r *reader) count(f field, each int64, most uint64) int {
	n := r.u64(f)
	if r.err != nil {
		return 0
	}
	if n > uint64(r.left()/each) {
		r.setError(&store.FormatError{
			Field: f.String(), Reason: fmt.Sprintf("%d do not fit into the %d bytes left", n, r.left()),
			Hint: "the file is damaged or the download incomplete", Kind: store.ErrTruncated,
		})
		return 0
	}
	if n > most {
		r.fail(f, "%d, at most %d are allowed", n, most)
		return 0
	}
	return int(n)
}
