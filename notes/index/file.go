package index

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/vfs"
)

const (
	magic       = "LLMNOTES"
	version     = 2
	fileSeed    = 0x6e6f746573
	headerBytes = 32
	frameBytes  = 16       // before the content of a record
	maxContent  = 64 << 20 // of a record: the terms of the largest note
	readAhead   = 256 << 10
)

// header returns the first bytes of a file.
func header(generation uint64) []byte {
	b := binary.LittleEndian.AppendUint32([]byte(magic), version)
	b = append(b, 0, 0, 0, 0)
	b = binary.LittleEndian.AppendUint64(b, generation)
	return binary.LittleEndian.AppendUint64(b, store.Sum64(fileSeed, b))
}

// readHeader returns the random number in a file's header.
func readHeader(f vfs.File) (generation uint64, err error) {
	b := make([]byte, headerBytes)
	if _, err := f.ReadAt(b, 0); err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	refuse := func(field string, kind error, reason string, args ...any) error {
		return &store.FormatError{Path: f.Name(), Off: 0, Field: field, Reason: fmt.Sprintf(reason, args...), Hint: "it is made again from the notes", Kind: kind}
	}
	switch {
	case string(b[:8]) != magic:
		return 0, refuse("magic", store.ErrFormat, "this is no index of notes")
	case binary.LittleEndian.Uint64(b[24:]) != store.Sum64(fileSeed, b[:24]):
		return 0, refuse("header", store.ErrFormat, "its checksum does not match")
	case binary.LittleEndian.Uint32(b[8:]) != version:
		return 0, refuse("version", store.ErrUnsupported, "%d is not %d", binary.LittleEndian.Uint32(b[8:]), version)
	}
	return binary.LittleEndian.Uint64(b[16:]), nil
}

// appendRecord appends a record.
func appendRecord(b []byte, kind uint32, content []byte) []byte {
	at := len(b)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(content)))
	b = binary.LittleEndian.AppendUint32(b, kind)
	b = binary.LittleEndian.AppendUint64(b, store.Sum64(fileSeed, b[at:], content))
	return append(b, content...)
}

// A recordReader reads the records of a file in order.
type recordReader struct {
	f       vfs.File
	size    int64
	at      int64 // of the next record
	buffer  []byte
	from    int64 // of the buffer
	damaged int   // records that were left out
}

// bytes returns n bytes of the file, or fewer at its end. They are valid until the next call.
func (r *recordReader) bytes(at int64, n int) ([]byte, error) {
	n = int(min(int64(n), r.size-at))
	if at < r.from || at+int64(n) > r.from+int64(len(r.buffer)) {
		want := int(min(int64(max(n, readAhead)), r.size-at))
		if cap(r.buffer) < want || cap(r.buffer) > 2*readAhead && want <= readAhead {
			r.buffer = make([]byte, want)
		}
		r.buffer, r.from = r.buffer[:want], at
		if got, err := r.f.ReadAt(r.buffer, at); err != nil {
			r.buffer = nil
			if errors.Is(err, io.EOF) {
				r.size = at + int64(got) // it became shorter
				return r.bytes(at, n)
			}
			return nil, err
		}
	}
	return r.buffer[at-r.from:][:n], nil
}

// record returns the record at an offset; ok is false if there is no whole one. head tells whether its length can be
// true.
func (r *recordReader) record(at int64) (kind uint32, content []byte, head, ok bool, err error) {
	b, err := r.bytes(at, frameBytes)
	if err != nil || len(b) < frameBytes {
		return 0, nil, false, false, err
	}
	n := binary.LittleEndian.Uint32(b)
	if n > maxContent || int64(n) > r.size-at-frameBytes {
		return 0, nil, false, false, nil
	}
	b, err = r.bytes(at, frameBytes+int(n))
	if err != nil || len(b) < frameBytes+int(n) {
		return 0, nil, false, false, err
	}
	content = b[frameBytes:]
	if binary.LittleEndian.Uint64(b[8:]) != store.Sum64(fileSeed, b[:8], content) {
		return 0, content, true, false, nil
	}
	return binary.LittleEndian.Uint32(b[4:]), content, true, true, nil
}

// next returns the next whole record and where it begins. ok is false at the end. A damaged record is left out if a
// whole one follows it; otherwise it is the end, which a process wrote when it was killed.
func (r *recordReader) next() (kind uint32, content []byte, at int64, ok bool, err error) {
	for {
		at = r.at
		kind, content, head, ok, err := r.record(at)
		if err != nil {
			return 0, nil, at, false, err
		}
		if ok {
			r.at += frameBytes + int64(len(content))
			return kind, content, at, true, nil
		}
		if !head {
			return 0, nil, at, false, nil
		}
		behind := at + frameBytes + int64(len(content))
		if _, _, _, ok, err = r.record(behind); err != nil || !ok {
			return 0, nil, at, false, err
		}
		r.at = behind
		r.damaged++
	}
}

// openFile opens an existing file. A missing one gives nil.
func openFile(fsys vfs.FS, name string) (vfs.File, error) {
	f, err := fsys.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return f, err
}
