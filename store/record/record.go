// Package record stores one small object in one file, for what must survive a kill or a power cut: a
// checkpoint, a description of a job. A file is written atomically, so that it is either the old one or the
// new one, complete and durable. Its content is compressed with LZ4 where that makes it shorter, and a
// checksum covers every byte.
//
//	offset  size  field
//	0       8     magic of the format
//	8       4     version
//	12      8     length of the file
//	20      4     length of the content
//	24      -     the content, as one LZ4 block or, if it has that length, as it is
//	end-8   8     XXH64 of everything before
package record

import (
	"encoding/binary"
	"fmt"

	"github.com/pierrec/lz4/v4"

	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/vfs"
)

const (
	headBytes     = 8 + 4 + 8 // magic, version and length
	checksumBytes = 8
	// MaxExpansion limits how much longer a content may be than its compressed form, so that a reader
	// allocates memory in proportion to the file. Texts and token ids shrink to a half or two thirds.
	MaxExpansion = 4
)

// Format is a kind of file.
type Format struct {
	Magic   string // 8 bytes
	Version uint32
	Seed    uint64 // of the checksum, another one for each format
	Limit   int64  // most bytes of a content
	Hint    string // what the user can do about a damaged file
}

// Write replaces the file by one with this content.
func (f *Format) Write(fsys vfs.FS, name string, content []byte) error {
	if int64(len(content)) > f.Limit {
		return fmt.Errorf("%s: %d bytes exceed the limit of %d", name, len(content), f.Limit)
	}
	return vfs.WriteFile(fsys, name, f.encode(content))
}

// encode returns the bytes of a file.
func (f *Format) encode(content []byte) []byte {
	b := binary.LittleEndian.AppendUint32([]byte(f.Magic), f.Version)
	b = Compress(append(b, make([]byte, 8)...), content)
	binary.LittleEndian.PutUint64(b[12:], uint64(len(b)+checksumBytes))
	return binary.LittleEndian.AppendUint64(b, store.Sum64(f.Seed, b))
}

// Read returns the content of a file. A file that is not as it was written gives a store.FormatError.
func (f *Format) Read(fsys vfs.FS, name string) ([]byte, error) {
	b, err := vfs.ReadFile(fsys, name, f.Limit+headBytes+4+checksumBytes)
	if err != nil {
		return nil, err
	}
	return f.decode(name, b)
}

// decode returns the content of the bytes of a file.
func (f *Format) decode(name string, b []byte) ([]byte, error) {
	refuse := func(off int, field string, kind error, reason string, args ...any) error {
		return &store.FormatError{Path: name, Off: int64(off), Field: field, Reason: fmt.Sprintf(reason, args...), Hint: f.Hint, Kind: kind}
	}
	if len(b) < headBytes+4+checksumBytes {
		return nil, refuse(len(b), "length", store.ErrTruncated, "the file has only %d bytes", len(b))
	}
	if string(b[:8]) != f.Magic {
		return nil, refuse(0, "magic", store.ErrFormat, "%q is not %q", b[:8], f.Magic)
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != f.Version {
		return nil, refuse(8, "version", store.ErrUnsupported, "%d is unknown, this program reads %d", v, f.Version)
	}
	if n := binary.LittleEndian.Uint64(b[12:]); n != uint64(len(b)) {
		return nil, refuse(12, "length", store.ErrTruncated, "the file has %[2]d bytes instead of %[1]d", n, len(b))
	}
	end := len(b) - checksumBytes
	if binary.LittleEndian.Uint64(b[end:]) != store.Sum64(f.Seed, b[:end]) {
		return nil, refuse(end, "checksum", store.ErrFormat, "the checksum does not match: the file is damaged")
	}
	content, err := Expand(name, b[:end], headBytes, f.Limit)
	if err != nil {
		return nil, err
	}
	return content[headBytes:], nil
}

// Compress appends the length of content and content as one LZ4 block, or as it is if that gains nothing or
// more than MaxExpansion.
func Compress(b, content []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(content)))
	block := make([]byte, lz4.CompressBlockBound(len(content)))
	var c lz4.Compressor // a new one, so that equal contents give equal files
	n, err := c.CompressBlock(content, block)
	if err != nil || n == 0 || n >= len(content) || n < len(content)/MaxExpansion {
		return append(b, content...)
	}
	return append(b, block[:n]...)
}

// Expand returns the first head bytes of b, behind which Compress has appended a content of at most limit
// bytes, followed by this content. path is the file, for errors.
func Expand(path string, b []byte, head int, limit int64) ([]byte, error) {
	refuse := func(off int, field string, kind error, reason string, args ...any) error {
		return &store.FormatError{Path: path, Off: int64(off), Field: field, Reason: fmt.Sprintf(reason, args...), Kind: kind}
	}
	if len(b) < head+4 {
		return nil, refuse(len(b), "length of the content", store.ErrTruncated, "the file ends within it")
	}
	n, block := int64(binary.LittleEndian.Uint32(b[head:])), b[head+4:]
	if n > limit || n > MaxExpansion*int64(len(block)+1) {
		return nil, refuse(head, "length of the content", store.ErrFormat, "%d bytes do not come from %d compressed bytes", n, len(block))
	}
	all := make([]byte, int64(head)+n)
	copy(all, b[:head])
	if n == int64(len(block)) {
		copy(all[head:], block)
		return all, nil
	}
	got, err := lz4.UncompressBlock(block, all[head:])
	if err != nil || int64(got) != n {
		return nil, refuse(head+4, "content", store.ErrFormat, "the LZ4 block gives %d bytes instead of %d", got, n)
	}
	return all, nil
}
