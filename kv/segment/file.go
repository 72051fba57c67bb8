package segment

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/crc"
	"github.com/llmrun/llmrun/store/vfs"
)

// ErrCorrupt is wrapped by every report of a page that is not what was written;
// the error itself is a [*CorruptError].
var ErrCorrupt = errors.New("a page of keys and values is damaged")

// CorruptError says which page does not have its checksum. It is an ErrCorrupt and
// a store.ErrFormat.
type CorruptError struct {
	Path        string
	Off         int64 // of the page in the file
	Layer, Page int   // in the chunk
}

// Error names the file and the place.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("%s at offset %d: %v (layer %d, page %d of the chunk)", e.Path, e.Off, ErrCorrupt, e.Layer, e.Page)
}

// Unwrap makes errors.Is(err, ErrCorrupt) true.
func (e *CorruptError) Unwrap() error { return ErrCorrupt }

// Is makes the error count as a malformed file, too.
func (e *CorruptError) Is(target error) bool { return target == store.ErrFormat }

// File is an open chunk. It may be read and verified by many goroutines at once.
// It counts its users: each Retain asks for one more Close.
type File struct {
	*header
	path string
	file vfs.File
	dir  *Dir // that counts it as in use; nil for one that is in no directory

	mu    sync.Mutex
	users int
}

// Path returns where the chunk is, for messages.
func (f *File) Path() string { return f.path }

// ID returns the chunk's ID.
func (f *File) ID() ID { return f.id }

// Start returns how many tokens come before the chunk.
func (f *File) Start() int { return f.start }

// Pages returns how many pages the chunk has of each layer.
func (f *File) Pages() int { return f.pages }

// Tokens returns the tokens whose keys and values the chunk holds. They must not
// be changed.
func (f *File) Tokens() []int32 { return f.tokens }

// Size returns the length of the file.
func (f *File) Size() int64 { return f.fileBytes() }

// LayerRun returns where the pages of a layer lie, one behind the other, and what
// to read them from. The offset is a multiple of 4096, and so is the end of the
// file: a read may go on to the next multiple behind the run.
func (f *File) LayerRun(layer int) (r io.ReaderAt, off, size int64) {
	off, size = f.run(layer)
	return f.file, off, size
}

// Verify compares the checksum of a page that was read, which is [crc.Update] of
// nothing and its bytes, with that of what was written. Whoever reads a page has to call
// it before what comes of the page is used.
func (f *File) Verify(layer, page int, sum uint32) error {
	if pageChecksum(f.id, layer, page, sum) == f.checksum(layer, page) {
		return nil
	}
	off, _ := f.run(layer)
	return &CorruptError{Path: f.path, Off: off + int64(page)*int64(f.layout.PageBytes[layer]), Layer: layer, Page: page}
}

// ReadLayer reads the first pages of a layer into b, which has room for them, and
// verifies each. Direct reads need b to begin at a multiple of 4096 in memory.
func (f *File) ReadLayer(layer, pages int, b []byte) error {
	r, off, _ := f.LayerRun(layer)
	n := f.layout.PageBytes[layer]
	b = b[:pages*n]
	if err := readFull(r, f.path, b, off); err != nil {
		return err
	}
	for i := range pages {
		if err := f.Verify(layer, i, crc.Update(0, b[i*n:(i+1)*n])); err != nil {
			return err
		}
	}
	return nil
}

// readFull fills b or fails, whatever the reader thinks of short reads.
func readFull(r io.ReaderAt, path string, b []byte, off int64) error {
	if len(b) == 0 {
		return nil
	}
	n, err := r.ReadAt(b, off)
	switch {
	case n == len(b):
		return nil
	case err == nil || errors.Is(err, io.EOF):
		return &store.FormatError{
			Path: path, Off: off + int64(n), Reason: fmt.Sprintf("the file ends %d bytes too early", len(b)-n), Kind: store.ErrTruncated,
		}
	}
	return err
}

// VerifyAll reads the whole chunk and compares every byte with its checksum, or
// with zero where the format leaves room.
func (f *File) VerifyAll() error {
	var b []byte
	for layer := range f.layout.PageBytes {
		off, size := f.run(layer)
		if room := int(alignUp(size)); cap(b) < room {
			b = vfs.AlignDirect(make([]byte, room+vfs.DirectAlign))
		}
		if err := f.ReadLayer(layer, f.pages, b); err != nil {
			return err
		}
		b = b[:alignUp(size)]
		if err := readFull(f.file, f.path, b[size:], off+size); err != nil {
			return err
		}
		for i, v := range b[size:] {
			if v != 0 {
				return refuser(f.path)(off+size+int64(i), "space between layers", store.ErrFormat, "holds %#x where zero belongs", v)
			}
		}
	}
	return nil
}

// Retain counts one more user.
func (f *File) Retain() *File {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.users++
	return f
}

// Close counts one user less. The last one closes the file.
func (f *File) Close() error {
	if f.dir != nil {
		f.dir.mu.Lock() // nobody finds the file while it is being closed
		defer f.dir.mu.Unlock()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.users--; f.users > 0 {
		return nil
	}
	if f.users < 0 {
		return fmt.Errorf("chunk: %s was closed more often than opened", f.path)
	}
	err := f.file.Close()
	if f.dir != nil && f.dir.open[f.id] == f {
		delete(f.dir.open, f.id)
	}
	return err
}

// openFile opens and checks the chunk at path. file is read past the page cache
// where that can be done.
func openFile(fsys vfs.FS, path string) (f *File, err error) {
	file, err := vfs.OpenDirect(fsys, path)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, file.Close())
		}
	}()
	size, err := file.Size()
	if err != nil {
		return nil, err
	}
	if size < pageAlign || size%pageAlign != 0 {
		return nil, refuser(path)(size, "length", store.ErrTruncated, "the file has %d bytes, no multiple of %d", size, pageAlign)
	}
	first := vfs.AlignDirect(make([]byte, 2*pageAlign))[:pageAlign]
	if err := readFull(file, path, first, 0); err != nil {
		return nil, err
	}
	p, err := decodePrefix(path, first, size)
	if err != nil {
		return nil, err
	}
	all := first
	if p.bytes > pageAlign {
		all = vfs.AlignDirect(make([]byte, p.bytes+pageAlign))[:p.bytes]
		if err := readFull(file, path, all, 0); err != nil {
			return nil, err
		}
	}
	h, err := decodeHeader(path, all, p)
	if err != nil {
		return nil, err
	}
	return &File{header: h, path: path, file: file, users: 1}, nil
}
