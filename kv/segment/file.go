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

// ErrCorrupt is wrapped by every error about a page whose bytes do not match its
// checksum; the error itself is a [*CorruptError].
var ErrCorrupt = errors.New("a page of keys and values is damaged")

// CorruptError names the page that does not match its checksum. It is also a
// store.ErrFormat.
type CorruptError struct {
	Path        string
	Off         int64 // offset of the page in the file
	Layer, Page int   // in the segment
}

// Error names the file and the position.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("%s at offset %d: %v (layer %d, page %d of the segment)", e.Path, e.Off, ErrCorrupt, e.Layer, e.Page)
}

// Unwrap makes errors.Is(err, ErrCorrupt) true.
func (e *CorruptError) Unwrap() error { return ErrCorrupt }

// Is makes errors.Is(err, store.ErrFormat) true.
func (e *CorruptError) Is(target error) bool { return target == store.ErrFormat }

// File is an open segment. Several goroutines may read and verify it. Users are
// counted: each Retain requires one more Close.
type File struct {
	*header
	path string
	file vfs.File
	dir  *Dir // the directory that lists it as open; nil if none does

	mu    sync.Mutex
	users int
}

// Path returns the path of the file, for messages.
func (f *File) Path() string { return f.path }

// ID returns the segment's ID.
func (f *File) ID() ID { return f.id }

// Start returns the number of tokens before the segment.
func (f *File) Start() int { return f.start }

// Pages returns the number of pages of each layer.
func (f *File) Pages() int { return f.pages }

// Tokens returns the tokens of the segment. The caller must not change them.
func (f *File) Tokens() []int32 { return f.tokens }

// Size returns the size of the file.
func (f *File) Size() int64 { return f.fileBytes() }

// LayerRun returns the range of a layer's pages and the reader to read them from. The
// range begins at a multiple of 4096. A read may extend to the next multiple of 4096
// after the range.
func (f *File) LayerRun(layer int) (r io.ReaderAt, off, size int64) {
	off, size = f.run(layer)
	return f.file, off, size
}

// Verify compares the checksum of a page with the stored one. sum is the CRC-32C of the
// page's bytes from [crc.Update]. Every reader must call Verify before it uses results of
// the page.
func (f *File) Verify(layer, page int, sum uint32) error {
	if pageChecksum(f.id, layer, page, sum) == f.checksum(layer, page) {
		return nil
	}
	off, _ := f.run(layer)
	return &CorruptError{Path: f.path, Off: off + int64(page)*int64(f.layout.PageBytes[layer]), Layer: layer, Page: page}
}

// Authentic implements [kv.Segment]: blocks of an encrypted file are sealed once, with a key of
// this file and the number of the block.
func (f *File) Authentic() bool {
	_, sealed := f.file.(*sealedPages)
	return sealed
}

// ReadLayer reads the first pages of a layer into b and verifies each page. Direct
// reads require that b begins at a multiple of 4096 in memory.
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

// readFull fills b or returns an error, even if a short read reports none.
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
			Path: path, Off: off + int64(n), Reason: fmt.Sprintf("the file ends %d bytes early", len(b)-n), Kind: store.ErrTruncated,
		}
	}
	return unsealed(path, err)
}

// VerifyAll reads the whole segment and verifies every byte: pages by their
// checksums, padding by being zero.
func (f *File) VerifyAll() error {
	var b []byte
	for layer := range f.layout.PageBytes {
		off, size := f.run(layer)
		if room := int(alignUp(size)); cap(b) < room {
			b = vfs.AlignDirect(make([]byte, room+vfs.DirectAlign))
		}
		if err := f.verifyLayer(layer, b[:alignUp(size)], off, size); err != nil {
			return err
		}
		b = b[:alignUp(size)]
		for i, v := range b[size:] {
			if v != 0 {
				return refuser(f.path)(off+size+int64(i), "space between layers", store.ErrFormat, "padding is %#x instead of zero", v)
			}
		}
	}
	return nil
}

// verifyLayer reads the pages of a layer and the padding behind them into b, and verifies the pages.
func (f *File) verifyLayer(layer int, b []byte, off, size int64) error {
	defer f.dir.admission(len(b))()
	if err := f.ReadLayer(layer, f.pages, b); err != nil {
		return err
	}
	return readFull(f.file, f.path, b[size:], off+size)
}

// Retain adds a user.
func (f *File) Retain() *File {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.users++
	return f
}

// Close removes a user. The last Close closes the file.
func (f *File) Close() error {
	if f.dir != nil {
		f.dir.mu.Lock() // no lookup finds the file while it closes
		defer f.dir.mu.Unlock()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.users--; f.users > 0 {
		return nil
	}
	if f.users < 0 {
		return fmt.Errorf("segment: %s was closed more often than it was opened", f.path)
	}
	err := f.file.Close()
	if f.dir != nil && f.dir.open[f.id] == f {
		delete(f.dir.open, f.id)
	}
	return err
}

// openFile opens the segment at path and checks its header. Reads bypass the page
// cache if the system supports that.
func openFile(fsys vfs.FS, path string) (f *File, err error) {
	return (&Dir{fsys: fsys}).openFile(path)
}

// openFile is openFile for a file of the directory.
func (d *Dir) openFile(path string) (f *File, err error) {
	file, err := vfs.OpenDirect(d.fsys, path)
	if err != nil {
		return nil, unsealed(path, err)
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
		return nil, refuser(path)(size, "length", store.ErrTruncated, "the file has %d bytes, not a multiple of %d", size, pageAlign)
	}
	first := vfs.AlignDirect(make([]byte, 2*pageAlign))[:pageAlign]
	if err := d.admitted(file, path, first, 0); err != nil {
		return nil, err
	}
	p, err := decodePrefix(path, first, size)
	if err != nil {
		return nil, err
	}
	all := first
	if p.bytes > pageAlign {
		all = vfs.AlignDirect(make([]byte, p.bytes+pageAlign))[:p.bytes]
		if err := d.admitted(file, path, all, 0); err != nil {
			return nil, err
		}
	}
	h, err := decodeHeader(path, all, p)
	if err != nil {
		return nil, err
	}
	if encrypted, ok := vfs.AsEncrypted(file); ok {
		file = &sealedPages{encrypted, path, h}
	}
	return &File{header: h, path: path, file: file, users: 1}, nil
}
