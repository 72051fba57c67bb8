package digest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/vfs"
)

// Sum is the SHA-256 of a file.
type Sum [sha256.Size]byte

// String returns the hexadecimal digits, as download pages print them.
func (s Sum) String() string { return hex.EncodeToString(s[:]) }

// readBytes is the size of one read.
const readBytes = 1 << 20

// File is the content of a file at one moment.
type File struct {
	Sum   Sum
	Size  int64
	Stamp vfs.Stamp // zero if the file has none
}

// Of reads a file and returns its hash. It calls progress, which may be nil, with the number
// of bytes of each read.
func Of(ctx context.Context, fsys vfs.FS, path string, progress func(n int64)) (File, error) {
	return withFile(fsys, path, func(f vfs.File) (File, error) {
		d, _, err := read(ctx, f, progress)
		return d, err
	})
}

// Verify reads a whole file and compares its hash with the one that the memo remembers. known is
// false if the memo has none. If the content changed although the file's size and time of
// modification did not, the file is damaged, or was when its hash was remembered and has been replaced by a
// program that sets the time of modification: the error is a store.ErrFormat, also the
// next time, because the memo keeps the old hash. Otherwise the memo remembers the hash.
func (m *Memo) Verify(ctx context.Context, fsys vfs.FS, path string, progress func(n int64)) (d File, known bool, err error) {
	d, err = withFile(fsys, path, func(f vfs.File) (File, error) {
		d, settled, err := read(ctx, f, progress)
		if err != nil || d.Stamp == (vfs.Stamp{}) {
			return d, err
		}
		var was Sum
		was, known = m.similar(memoName, d.Stamp)
		if !(known && was != d.Sum) {
			fresh, found := m.similar(freshName, d.Stamp)
			known = known || found && fresh == d.Sum // another hash proves nothing: the file may have been written twice
			m.add(nameFor(settled), d.Stamp, entry{d.Sum, time.Now().UnixNano()})
			return d, nil
		}
		return d, &store.FormatError{
			Path: f.Name(), Off: store.NoOffset, Field: "content", Kind: store.ErrFormat,
			Reason: fmt.Sprintf("the SHA-256 is %v and was %v, but the file's size and time of modification are the same", d.Sum, was),
			Hint:   "one of the two is damaged: unless the download page shows the first, copy or download the file again",
		}
	})
	return d, known, err
}

// withFile calls use with an open file.
func withFile(fsys vfs.FS, path string, use func(vfs.File) (File, error)) (d File, err error) {
	f, err := fsys.Open(path)
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return use(f)
}

// read hashes an open file. settled means that a later change gets another stamp.
func read(ctx context.Context, f vfs.File, progress func(n int64)) (d File, settled bool, err error) {
	begin := time.Now()
	stamp, known, err := vfs.StampOf(f)
	if err != nil {
		return d, false, err
	}
	if d.Size, err = f.Size(); err != nil {
		return d, false, err
	}
	h, buffer := sha256.New(), make([]byte, min(readBytes, d.Size))
	for off := int64(0); off < d.Size; {
		if err := ctx.Err(); err != nil {
			return d, false, err
		}
		n := min(int64(len(buffer)), d.Size-off)
		if _, err := f.ReadAt(buffer[:n], off); err != nil {
			return d, false, err
		}
		h.Write(buffer[:n])
		if off += n; progress != nil {
			progress(n)
		}
	}
	h.Sum(d.Sum[:0])
	if !known {
		return d, false, nil
	}
	after, _, err := vfs.StampOf(f)
	if err == nil && after != stamp {
		err = fmt.Errorf("%s: %w", f.Name(), store.ErrChanged)
	}
	d.Stamp = stamp
	return d, stamp.Settled(begin), err
}
