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
	// windowBytes is how much of the header is fetched at once.
	windowBytes = 64 << 10
	// maxHeaderBytes bounds keys and tensor table together. The largest
	// vocabularies of today, with merges and scores, take about 20 MiB.
	maxHeaderBytes = 256 << 20
)

// reader walks through a header. The first failure sticks: every later call
// returns zeros, so that a caller may read a whole record and check err once,
// as long as it checks before it allocates or loops by what was read.
type reader struct {
	file   vfs.File
	end    int64 // the header may use bytes up to here
	off    int64 // of the next byte
	window []byte
	start  int64 // offset of window in the file
	err    error
}

// field says what is being read. It is put into words only when that fails:
// files may have a hundred thousand fields.
type field struct {
	what string // "version", "key", "tensor"
	name string // which one; may be empty
}

func (f field) String() string {
	if f.name == "" {
		return f.what
	}
	return fmt.Sprintf("%s %q", f.what, f.name)
}

func newReader(file vfs.File, size int64) *reader {
	return &reader{file: file, end: min(size, maxHeaderBytes), window: make([]byte, 0, min(size, windowBytes))}
}

// left returns how many bytes of the header can still follow.
func (r *reader) left() int64 { return r.end - r.off }

// fail records a malformed file at the present place, unless something went
// wrong before.
func (r *reader) fail(f field, reason string, args ...any) error {
	return r.refuse(&store.FormatError{Field: f.String(), Reason: fmt.Sprintf(reason, args...), Kind: store.ErrFormat})
}

// refuse records e, completed with path and offset.
func (r *reader) refuse(e *store.FormatError) error {
	if r.err == nil {
		e.Path, e.Off = r.file.Name(), r.off
		r.err = e
	}
	return r.err
}

// truncated records that n bytes of field are missing.
func (r *reader) truncated(f field, n uint64) {
	if r.end == maxHeaderBytes {
		r.fail(f, "the header is longer than %d bytes", int64(maxHeaderBytes))
		return
	}
	r.refuse(&store.FormatError{
		Field: f.String(), Reason: fmt.Sprintf("needs %d bytes, the file has %d left", n, r.left()),
		Hint: "the download may be incomplete", Kind: store.ErrTruncated,
	})
}

// take returns the next n bytes, valid until the next call; nil after a
// failure. n is at most windowBytes.
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

// fill moves the window to the present place.
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

// ioFailed records a failed read. The end of the file inside the size it had
// a moment ago means that somebody cuts it now.
func (r *reader) ioFailed(f field, err error) {
	if errors.Is(err, io.EOF) {
		r.refuse(&store.FormatError{Field: f.String(), Reason: "the file has become shorter while it was read", Kind: store.ErrTruncated})
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

// skip passes over n bytes.
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

// count returns a number of things, each of which takes at least each bytes of
// what is left.
func (r *reader) count(f field, each int64) int {
	n := r.u64(f)
	if r.err != nil {
		return 0
	}
	if n > uint64(r.left()/each) {
		r.refuse(&store.FormatError{
			Field: f.String(), Reason: fmt.Sprintf("%d do not fit into the %d bytes left", n, r.left()),
			Hint: "the file is damaged or the download incomplete", Kind: store.ErrTruncated,
		})
		return 0
	}
	return int(n)
}
