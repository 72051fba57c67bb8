package store

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/llmrun/llmrun/store/vfs"
)

// Index implements Source over a set of open files. The reader of each file format builds
// an Index from the tensors that it has parsed.
type Index struct {
	files   []vfs.File
	stamps  []vfs.Stamp // of the files when they were opened; zero for those that have none
	tensors []Tensor
	byName  map[string]int32 // index into tensors
}

// NewIndex returns an Index over files with the given tensors and takes ownership of the
// files. It returns an error, and the caller keeps the files, if a tensor name is invalid
// or duplicated, or if two tensors share bytes.
func NewIndex(files []vfs.File, tensors []Tensor) (*Index, error) {
	x, err := NewPlacedIndex(files, tensors)
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
func NewPlacedIndex(files []vfs.File, tensors []Tensor) (*Index, error) {
	x := &Index{files: files, tensors: tensors, byName: make(map[string]int32, len(tensors))}
	for i, t := range tensors {
		if reason := nameProblem(t.Name); reason != "" {
			return nil, x.tensorError(t, reason)
		}
		if _, duplicate := x.byName[t.Name]; duplicate {
			return nil, x.tensorError(t, "the name occurs twice")
		}
		x.byName[t.Name] = int32(i)
	}
	for _, f := range files {
		stamp, _, err := vfs.StampOf(f)
		if err != nil {
			return nil, err
		}
		x.stamps = append(x.stamps, stamp)
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
		err = x.checkUnchanged(t, t.Offset+off)
	}
	return n, err
}

// checkUnchanged returns an error if the file of a tensor, which was read at an offset, was changed
// since it was opened: bytes of two versions do not make a model.
func (x *Index) checkUnchanged(t Tensor, off int64) error {
	was := x.stamps[t.File]
	if was == (vfs.Stamp{}) {
		return nil
	}
	f := x.files[t.File]
	now, _, err := vfs.StampOf(f)
	if err == nil && (now.Size != was.Size || now.Modified != was.Modified) {
		err = Changed(f.Name(), off, fmt.Sprintf("tensor %q", t.Name))
	}
	return err
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
