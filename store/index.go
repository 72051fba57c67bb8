package store

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/llmrun/llmrun/store/vfs"
)

// Index implements Source over a set of open files. The reader of each file format builds
// an Index from the tensors that it has parsed.
type Index struct {
	files   []vfs.File
	stamps  []vfs.Stamp // of the files before they were read; zero for those that have none
	tensors []Tensor
	byName  map[string]int32 // index into tensors
	opened  atomic.Bool      // see Opened
}

// NewIndex returns an Index over files with the given tensors and takes ownership of the
// files. stamps are those of [vfs.StampForReading] before the first read of each. It returns an error, and the
// caller keeps the files, if a file was changed since, if a tensor name is invalid
// or duplicated, or if two tensors share bytes.
func NewIndex(files []vfs.File, stamps []vfs.Stamp, tensors []Tensor) (*Index, error) {
	x, err := NewPlacedIndex(files, stamps, tensors)
	if err == nil {
		err = x.checkOverlap()
	}
	if err != nil {
		return nil, err
	}
	return x, nil
}

// NewPlacedIndex is NewIndex for a format whose reader has checked that no two tensors share bytes. Those
// of a tensor may lie in several places; its offset is that of the first.
func NewPlacedIndex(files []vfs.File, stamps []vfs.Stamp, tensors []Tensor) (*Index, error) {
	x := &Index{files: files, stamps: stamps, tensors: tensors, byName: make(map[string]int32, len(tensors))}
	for i := range files {
		if err := x.checkUnchanged(i, NoOffset, "header"); err != nil {
			return nil, err
		}
	}
	for i, t := range tensors {
		if reason := nameProblem(t.Name); reason != "" {
			return nil, x.tensorError(t, reason)
		}
		if _, duplicate := x.byName[t.Name]; duplicate {
			return nil, x.tensorError(t, "the name occurs twice")
		}
		x.byName[t.Name] = int32(i)
	}
	return x, nil
}

// nameProblem returns the reason why a tensor name is invalid, or "". Names appear in
// messages, keys and exported files, so control bytes and path elements are rejected.
func nameProblem(name string) string {
	switch {
	case name == "":
		return "the name is empty"
	case strings.ContainsRune(name, 0):
		return "the name contains a NUL byte"
	case strings.Contains(name, "../") || strings.Contains(name, `..\`):
		return "the name contains a path out of its directory"
	}
	return ""
}

// checkOverlap returns an error if two tensors share bytes: at least one of them would hold
// garbage.
func (x *Index) checkOverlap() error {
	order := make([]int32, len(x.tensors))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int {
		s, t := &x.tensors[a], &x.tensors[b]
		return cmp.Or(cmp.Compare(s.File, t.File), cmp.Compare(s.Offset, t.Offset), cmp.Compare(s.Size, t.Size))
	})
	for i := 1; i < len(order); i++ {
		before, t := x.tensors[order[i-1]], x.tensors[order[i]]
		if before.File == t.File && before.Offset+before.Size > t.Offset {
			return x.tensorError(t, fmt.Sprintf("its bytes overlap those of tensor %q", before.Name))
		}
	}
	return nil
}

// tensorError returns a format error about t.
func (x *Index) tensorError(t Tensor, reason string) error {
	return &FormatError{
		Path: x.files[t.File].Name(), Off: t.Offset, Field: fmt.Sprintf("tensor %q", t.Name),
		Reason: reason, Kind: ErrFormat,
	}
}

// Tensors implements Source.
func (x *Index) Tensors() []Tensor { return x.tensors }

// Tensor implements Source.
func (x *Index) Tensor(name string) (Tensor, bool) {
	i, ok := x.byName[name]
	if !ok {
		return Tensor{}, false
	}
	return x.tensors[i], true
}

// Files implements Source.
func (x *Index) Files() []string {
	paths := make([]string, len(x.files))
	for i, f := range x.files {
		paths[i] = f.Name()
	}
	return paths
}

// ReadAt implements Source.
func (x *Index) ReadAt(t Tensor, p []byte, off int64) (int, error) {
	if t.File < 0 || t.File >= len(x.files) {
		return 0, fmt.Errorf("store: tensor %q belongs to another source", t.Name)
	}
	f := x.files[t.File]
	if off < 0 || off > t.Size || int64(len(p)) > t.Size-off {
		return 0, fmt.Errorf("store: %s: read of %d bytes at %d is outside tensor %q of %d bytes", f.Name(), len(p), off, t.Name, t.Size)
	}
	n, err := f.ReadAt(p, t.Offset+off)
	if errors.Is(err, io.EOF) {
		// NewIndex checked that the tensor is inside the file.
		return n, &FormatError{
			Path: f.Name(), Off: t.Offset + off + int64(n), Field: fmt.Sprintf("tensor %q", t.Name),
			Reason: "the file was truncated while in use", Hint: "open the model again", Kind: ErrTruncated,
		}
	}
	if err == nil {
		err = x.checkUnchanged(t.File, t.Offset+off, t.Name)
	}
	return n, err
}

// Opened says that all that opening the model reads has been read. Until then a change of a file's metadata alone
// counts as one of its content, because a program may set the time of modification back; afterwards a
// model that is in use may be renamed or removed.
func (x *Index) Opened() { x.opened.Store(true) }

// checkUnchanged returns an error if a file, of which a read at an offset filled a tensor or the header, was changed
// since it was first read: bytes of two versions do not make a model.
func (x *Index) checkUnchanged(file int, off int64, read string) error {
	was := x.stamps[file]
	if was == (vfs.Stamp{}) {
		return nil
	}
	f := x.files[file]
	now, _, err := vfs.StampOf(f)
	if err != nil || now == was || now.SameContent(was) && x.opened.Load() {
		return err
	}
	if off != NoOffset {
		read = fmt.Sprintf("tensor %q", read)
	}
	return Changed(f.Name(), off, read)
}

// Close closes the files. Reads in progress return an error.
func (x *Index) Close() error {
	return CloseAll(x.files)
}

// CloseAll closes every file and joins the errors.
func CloseAll(files []vfs.File) error {
	var errs []error
	for _, f := range files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}
