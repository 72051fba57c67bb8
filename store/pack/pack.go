package pack

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/llmrun/llmrun/quant/tiled"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/vfs"
)

// File is an open pack. It is safe for concurrent use until Close.
//
// As a store.Source it gives every tensor as the source had it: rows one behind
// the other, whatever their layout here. Offsets of its tensors are those of
// what is stored.
type File struct {
	*store.Index
	fsys   vfs.FS
	path   string
	file   vfs.File
	direct vfs.File // reads past the page cache; nil until asked for
	footer footer
	index  *index
	byName map[string]int32 // index into index.tensors
}

var _ store.Source = (*File)(nil)

// Is reports whether the file begins as packs do.
func Is(fsys vfs.FS, path string) bool {
	f, err := fsys.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, len(headerMagic))
	_, err = f.ReadAt(head, 0)
	return err == nil && string(head) == headerMagic
}

// Open opens a pack. It reads the index and none of the weights.
func Open(fsys vfs.FS, path string) (*File, error) {
	file, err := fsys.Open(path)
	if err != nil {
		return nil, err
	}
	f := &File{fsys: fsys, path: path, file: file}
	if err := f.open(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return f, nil
}

func (f *File) open() error {
	size, err := f.file.Size()
	if err != nil {
		return err
	}
	if size < headerBytes+footerBytes {
		return &store.FormatError{
			Path: f.path, Off: size, Field: "header", Reason: fmt.Sprintf("the file has %d bytes, no pack has less than %d", size, headerBytes+footerBytes),
			Kind: store.ErrTruncated,
		}
	}
	header, tail := make([]byte, headerBytes), make([]byte, footerBytes)
	if _, err := f.file.ReadAt(header, 0); err != nil {
		return err
	}
	if err := checkHeader(f.path, header); err != nil {
		return err
	}
	if _, err := f.file.ReadAt(tail, size-footerBytes); err != nil {
		return err
	}
	if f.footer, err = decodeFooter(f.path, tail, size); err != nil {
		return err
	}
	encoded := make([]byte, f.footer.length) // no longer than the file
	if _, err := f.file.ReadAt(encoded, f.footer.index); err != nil {
		return err
	}
	if checksum(encoded) != f.footer.sum {
		return f.checksumError(f.footer.index, "index")
	}
	if f.index, err = decodeIndex(f.path, encoded, f.footer); err != nil {
		return err
	}
	if tiling := f.index.about.Tiling; tiling != tiled.LayoutVersion {
		return &store.FormatError{
			Path: f.path, Off: f.footer.index, Field: "tiling", Reason: fmt.Sprintf("version %d is unknown, %d is read", tiling, tiled.LayoutVersion),
			Hint: "import the model again with this program", Kind: store.ErrUnsupported,
		}
	}
	return f.buildIndex()
}

// buildIndex makes the tensors known by name.
func (f *File) buildIndex() error {
	tensors := make([]store.Tensor, len(f.index.tensors))
	f.byName = make(map[string]int32, len(tensors))
	for i := range f.index.tensors {
		t := &f.index.tensors[i]
		_, plain, err := t.sizes()
		if err != nil {
			return err // decodeIndex has seen that there is none
		}
		tensors[i] = store.Tensor{
			Name: t.Name, Type: t.Type, Shape: t.Shape, Size: plain,
			Offset: f.index.extents[f.index.extentOf[i]].off + t.Off,
		}
		f.byName[t.Name] = int32(i)
	}
	var err error
	f.Index, err = store.NewIndex([]vfs.File{f.file}, tensors)
	return err
}

// ErrReplaced says that the pack that was opened is not in its place any more.
var ErrReplaced = errors.New("the pack was removed, replaced or changed since it was opened; put it back, or open the model again")

// BypassCache makes reads of whole blocks go past the operating system's page
// cache from now on, where the file system can do that. It must not be called
// while there are reads. The file is opened a second time for that, so it fails with
// ErrReplaced where another one is in its place.
func (f *File) BypassCache() error {
	if f.direct != nil {
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
	f.direct = direct
	return nil
}

// checkSame reports with an error if a file is not this pack, by its last bytes: they hold
// the sum of the index, which holds those of all blocks.
func (f *File) checkSame(file vfs.File) error {
	size, err := file.Size()
	if err != nil {
		return err
	}
	tail := make([]byte, footerBytes)
	if size == f.footer.file {
		if _, err := file.ReadAt(tail, size-footerBytes); err != nil {
			return err
		}
	}
	if !bytes.Equal(tail, f.footer.encode()) {
		return fmt.Errorf("%s: %w", f.path, ErrReplaced)
	}
	return nil
}

// MapSection maps a section into memory. Nothing is checked: see CheckSection.
func (f *File) MapSection(i int) (*vfs.Mapping, error) {
	x := &f.index.extents[i]
	return vfs.Map(f.file, x.off, x.size)
}

// SectionCached reports whether a section is likely to be in the system's page
// cache as a whole.
func (f *File) SectionCached(i int) bool {
	x := &f.index.extents[i]
	return vfs.Cached(f.file, x.off, x.size)
}

// CheckSection compares the sums of all blocks of a section, the whole of which
// is given, that hold bytes from one offset to another.
func (f *File) CheckSection(i int, section []byte, from, to int64) error {
	x := &f.index.extents[i]
	for b := from / BlockBytes; b*BlockBytes < min(to, x.size); b++ {
		if blockChecksum(section[b*BlockBytes:min((b+1)*BlockBytes, x.size)]) != x.checksums[b] {
			return f.checksumError(x.off+b*BlockBytes, x.field())
		}
	}
	return nil
}

// Close closes the file. There must be no reads any more.
func (f *File) Close() error {
	err := f.Index.Close()
	if f.direct != nil {
		err = errors.Join(err, f.direct.Close())
	}
	return err
}

// checksumError is the error for bytes at off that do not have their sum.
func (f *File) checksumError(off int64, field string) error {
	return &store.FormatError{
		Path: f.path, Off: off, Field: field, Reason: "the bytes do not have their checksum: the file is damaged",
		Hint: "import the model again", Kind: store.ErrFormat,
	}
}

// About says what the pack was made from.
func (f *File) About() About { return f.index.about }

// Size returns the length of the file.
func (f *File) Size() int64 { return f.footer.file }

// Identity is a hash of the index, which holds a sum of every block of the file.
func (f *File) Identity() [sha256.Size]byte { return sha256.Sum256(f.index.encode()) }

// Location is where a tensor lies in a pack.
type Location struct {
	Tensor
	Section int   // for Section and SectionSize
	Bytes   int64 // in the section
}

// Find returns the place of a tensor.
func (f *File) Find(name string) (p Location, ok bool) {
	i, ok := f.byName[name]
	if !ok {
		return Location{}, false
	}
	p = Location{Tensor: f.index.tensors[i], Section: int(f.index.extentOf[i])}
	p.Bytes, _ = p.Tensor.Bytes() // decodeIndex has seen that it is sound
	return p, true
}

// SectionSize returns the length of a section.
func (f *File) SectionSize(i int) int64 { return f.index.extents[i].size }

// Section returns a section's bytes as they lie in the file, checked as they
// are read. Reads that begin and end at whole blocks are the fastest.
func (f *File) Section(i int) io.ReaderAt { return extentReader{f, &f.index.extents[i]} }

// Attachment returns a file that the pack carries; ok is false if it has none
// of that name.
func (f *File) Attachment(name string) (data []byte, ok bool, err error) {
	for i := range f.index.extents {
		x := &f.index.extents[i]
		if x.kind == attachment && x.name == name {
			data = make([]byte, x.size) // no longer than the file
			_, err = f.readExtent(x, data, 0)
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
		return 0, fmt.Errorf("store: %s: read of %d bytes at %d lies outside tensor %q of %d bytes", f.path, len(p), off, t.Name, size)
	}
	if packed.Layout == Rows {
		return f.readExtent(x, p, packed.Off+off)
	}
	return f.readTiles(x, packed, p, off)
}
