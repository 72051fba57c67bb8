package pack

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync/atomic"

	"github.com/llmrun/llmrun/quant/tiled"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/vfs"
)

// File is an open pack. It is safe for concurrent use until Close.
//
// As a store.Source it returns the bytes of every tensor as in the source, in contiguous
// rows, for any layout in the pack. The offsets of its tensors are those in the pack.
type File struct {
	*store.Index
	fsys vfs.FS
	path string
	file vfs.File
	base int64 // of the pack in the file: behind a program it is not 0
	// direct bypasses the page cache; nil until BypassCache, which may run while others read
	direct atomic.Pointer[directFile]
	footer footer
	index  *index
	byName map[string]int32 // index into index.tensors

	version uint32
	// rebuild makes the bytes of damaged blocks; nil: a damaged block is an error.
	rebuild atomic.Pointer[Rebuild]
}

var _ store.Source = (*File)(nil)

// Is reports whether the file begins with the magic of packs, or is a program with a pack behind it.
func Is(fsys vfs.FS, path string) bool {
	begins, err := vfs.BeginsWith(fsys, path, headerMagic)
	return err == nil && (begins || IsBehindProgram(fsys, path))
}

// IsBehindProgram reports whether the file is a program with a pack behind it, which may be damaged.
func IsBehindProgram(fsys vfs.FS, path string) bool {
	file, err := fsys.Open(path)
	if err != nil {
		return false
	}
	defer file.Close()
	base, err := behindProgram(file)
	return err == nil && base > 0
}

// Open opens a pack. It reads the index and no weights.
func Open(fsys vfs.FS, path string) (*File, error) {
	file, err := fsys.Open(path)
	if err != nil {
		return nil, err
	}
	f := &File{fsys: fsys, path: path, file: file}
	if f.base, err = behindProgram(file); err == nil {
		err = f.inProgram(f.open())
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return f, nil
}

// open reads header, footer and index.
func (f *File) open() error {
	if err := f.readFooter(); err != nil {
		return err
	}
	if err := f.readIndex(); err != nil {
		return err
	}
	return f.buildIndex()
}

// readFooter checks the header and reads the footer.
func (f *File) readFooter() error {
	size, err := f.file.Size()
	if err != nil {
		return err
	}
	size -= f.base
	if size < headerBytes+footerBytes {
		return &store.FormatError{
			Path: f.path, Off: size, Field: "header", Reason: fmt.Sprintf("the file has %d bytes; a pack has at least %d", size, headerBytes+footerBytes),
			Kind: store.ErrTruncated,
		}
	}
	header, tail := make([]byte, headerBytes), make([]byte, footerBytes)
	if _, err := f.file.ReadAt(header, f.base); err != nil {
		return err
	}
	if f.version, err = checkHeader(f.path, header); err != nil {
		return err
	}
	if _, err := f.file.ReadAt(tail, f.base+size-footerBytes); err != nil {
		return err
	}
	f.footer, err = decodeFooter(f.path, tail, size)
	return err
}

// readIndex reads and checks the index that the footer locates.
func (f *File) readIndex() (err error) {
	reserve := func(n int64) error { return vfs.Reserve(f.fsys, f.path, n) }
	if err := reserve(f.footer.length); err != nil {
		return err
	}
	defer vfs.Release(f.fsys, f.footer.length)
	encoded := make([]byte, f.footer.length) // bounded by the size of the file
	if _, err := f.file.ReadAt(encoded, f.base+f.footer.index); err != nil {
		return err
	}
	if checksum(encoded) != f.footer.sum {
		return f.damage(f.footer.index, "index")
	}
	if f.index, err = decodeIndex(f.path, f.version, encoded, f.footer, reserve); err != nil {
		return err
	}
	if tiling := f.index.about.Tiling; tiling != tiled.LayoutVersion {
		return &store.FormatError{
			Path: f.path, Off: f.footer.index, Field: "tiling", Reason: fmt.Sprintf("version %d is unknown; this program reads %d", tiling, tiled.LayoutVersion),
			Hint: "import the model again with this program", Kind: store.ErrUnsupported,
		}
	}
	return nil
}

// buildIndex builds the store.Index and the table of tensor names.
func (f *File) buildIndex() error {
	tensors := make([]store.Tensor, 0, len(f.index.tensors))
	f.byName = make(map[string]int32, cap(tensors))
	for i := range f.index.tensors {
		t := &f.index.tensors[i]
		f.byName[t.Name] = int32(i)
		if t.Layout.Plane().IsLow() {
			continue // it belongs to the tensor of the high plane
		}
		_, plain, err := t.sizes()
		if err != nil {
			return err // cannot happen: decodeIndex has checked the tensor
		}
		tensors = append(tensors, store.Tensor{
			Name: t.Name, Type: t.Type, Shape: t.Shape, Size: plain,
			Offset: f.base + f.index.extents[f.index.extentOf[i]].off + t.Off,
		})
	}
	var err error
	f.Index, err = store.NewPlacedIndex([]vfs.File{f.file}, make([]vfs.Stamp, 1), tensors) // checksums find changes
	return err
}

// directFile is a file that can be stored atomically.
type directFile struct{ vfs.File }

// ErrReplaced reports that the file at the path of an open pack is no longer that pack.
var ErrReplaced = errors.New("the pack was removed, replaced or changed since it was opened; put it back, or open the model again")

// ReadsMapped reports whether reads after BypassCache use mappings of the file.
func (f *File) ReadsMapped() bool { return vfs.ReadsMapped(f.fsys) }

// BypassCache makes later reads of whole blocks bypass the operating system's page cache,
// if the file system supports that. Reads may be in progress, such as those of a pass that was cancelled;
// one goroutine at a time may call it. It opens the file a second time and returns ErrReplaced if the path
// now has another file. It does nothing after RebuildWith, because a damaged file may have been removed.
func (f *File) BypassCache() error {
	if f.direct.Load() != nil || f.rebuild.Load() != nil {
		return nil
	}
	direct, err := vfs.OpenDirect(f.fsys, f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", f.path, ErrReplaced)
	}
	if err != nil {
		return err
	}
	if err := f.checkSame(direct); err != nil {
		return errors.Join(err, direct.Close())
	}
	f.direct.Store(&directFile{direct})
	return nil
}

// checkSame returns ErrReplaced if file is not this pack. It compares the footers: a footer
// holds the checksum of the index, which holds the checksums of all blocks.
func (f *File) checkSame(file vfs.File) error {
	size, err := file.Size()
	if err != nil {
		return err
	}
	tail := make([]byte, footerBytes)
	if size == f.base+f.footer.file {
		if _, err := file.ReadAt(tail, size-footerBytes); err != nil {
			return err
		}
	}
	if !bytes.Equal(tail, f.footer.encode()) {
		return fmt.Errorf("%s: %w", f.path, ErrReplaced)
	}
	return nil
}

// MapSection maps a section into memory without verifying it: see CheckSection. The caller
// closes the mapping.
func (f *File) MapSection(i int) (*vfs.Mapping, error) {
	x := &f.index.extents[i]
	return vfs.Map(f.file, f.base+x.off, x.size)
}

// SectionCached reports whether a whole section is likely to be in the page cache.
func (f *File) SectionCached(i int) bool {
	x := &f.index.extents[i]
	return vfs.Cached(f.file, f.base+x.off, x.size)
}

// Stamp returns the stamp of the file; see [vfs.StampOf].
func (f *File) Stamp() (stamp vfs.Stamp, ok bool, err error) { return vfs.StampOf(f.file) }

// TruncatedSection returns the error for a byte of a section that the file has lost.
func (f *File) TruncatedSection(i int, off int64) error {
	x := &f.index.extents[i]
	return f.truncatedError(x.off+off, x.field())
}

// CheckSection verifies the blocks of a section that overlap the range [from, to). section
// holds the whole section.
func (f *File) CheckSection(i int, section []byte, from, to int64) error {
	x := &f.index.extents[i]
	for b := from / BlockBytes; b*BlockBytes < min(to, x.size); b++ {
		if blockChecksum(section[b*BlockBytes:min((b+1)*BlockBytes, x.size)]) != x.checksums[b] {
			return f.checksumError(x.off+b*BlockBytes, x.field())
		}
	}
	return nil
}

// Close closes the file. No reads may be in progress.
func (f *File) Close() error {
	err := f.Index.Close()
	if direct := f.direct.Load(); direct != nil {
		err = errors.Join(err, direct.Close())
	}
	return err
}

// checksumError returns the error for bytes at off of the pack with a wrong checksum.
func (f *File) checksumError(off int64, field string) error {
	return f.inProgram(f.damage(off, field))
}

// damage is checksumError for a pack that is being opened.
func (f *File) damage(off int64, field string) error {
	return &store.FormatError{
		Path: f.path, Off: off, Field: field, Reason: "checksum mismatch: the file is damaged",
		Hint: "import the model again", Kind: store.ErrFormat,
	}
}

// truncatedError returns the error for bytes at off of the pack that the file has lost.
func (f *File) truncatedError(off int64, field string) error {
	return &store.FormatError{
		Path: f.path, Off: f.base + off, Field: field, Reason: "the file was truncated while in use",
		Hint: "open the model again", Kind: store.ErrTruncated,
	}
}

// About returns the origin of the pack.
func (f *File) About() About { return f.index.about }

// Path returns the path that the pack was opened by.
func (f *File) Path() string { return f.path }

// Size returns the length of the pack.
func (f *File) Size() int64 { return f.footer.file }

// Identity returns a hash of the index, which holds the checksum of every block.
func (f *File) Identity() [sha256.Size]byte { return sha256.Sum256(f.index.encode()) }

// Location is the place of a tensor in a pack.
type Location struct {
	Tensor
	Section int   // argument of File.Section and File.SectionSize
	Bytes   int64 // size in the section
}

// Find returns the location of a tensor.
func (f *File) Find(name string) (p Location, ok bool) {
	i, ok := f.byName[name]
	if !ok {
		return Location{}, false
	}
	p = Location{Tensor: f.index.tensors[i], Section: int(f.index.extentOf[i])}
	p.Bytes, _ = p.Tensor.Bytes() // decodeIndex has checked it
	return p, true
}

// SectionSize returns the length of a section.
func (f *File) SectionSize(i int) int64 { return f.index.extents[i].size }

// Section returns a reader of the bytes of a section, in the layout of the file. Every read
// verifies the blocks that it covers. Reads that begin and end at block boundaries are
// fastest. The reader is safe for concurrent use.
func (f *File) Section(i int) io.ReaderAt { return extentReader{f, &f.index.extents[i]} }

// Attachment returns the content of an attachment. ok is false if the pack has none of this
// name. The memory is reserved with the meter of the file system; the caller releases it.
func (f *File) Attachment(name string) (data []byte, ok bool, err error) {
	for i := range f.index.extents {
		x := &f.index.extents[i]
		if x.kind == attachment && x.name == name {
			if err := vfs.Reserve(f.fsys, f.path, x.size); err != nil {
				return nil, true, err
			}
			data = make([]byte, x.size) // bounded by the size of the file
			if _, err = f.readExtent(x, data, 0); err != nil {
				vfs.Release(f.fsys, x.size)
			}
			return data, true, err
		}
	}
	return nil, false, nil
}

// ReadAt implements store.Source.
func (f *File) ReadAt(t store.Tensor, p []byte, off int64) (int, error) {
	i, ok := f.byName[t.Name]
	if !ok {
		return 0, fmt.Errorf("store: tensor %q belongs to another source", t.Name)
	}
	packed, x := &f.index.tensors[i], &f.index.extents[f.index.extentOf[i]]
	_, size, err := packed.sizes()
	if err != nil {
		return 0, err
	}
	if off < 0 || off > size || int64(len(p)) > size-off {
		return 0, fmt.Errorf("store: %s: read of %d bytes at %d is outside tensor %q of %d bytes", f.path, len(p), off, t.Name, size)
	}
	if packed.Layout == Rows {
		return f.readExtent(x, p, packed.Off+off)
	}
	return f.readTiles(x, packed, p, off)
}
