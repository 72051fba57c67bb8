package safetensors

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/vfs"
)

// Names that openDir looks for in a model directory, in this order.
const (
	singleName  = "model.safetensors"
	indexName   = "model.safetensors.index.json"
	indexSuffix = ".safetensors.index.json"
)

// Dir is an open model. Reading tensors is safe for concurrent use until Close.
type Dir struct {
	*store.Index
	auxiliary map[string]Auxiliary // by name
}

var _ store.Source = (*Dir)(nil)

// Auxiliary is a tensor in a format for masks, positions or packed integers. Its Type is
// Invalid; ReadAt reads it like other tensors.
type Auxiliary struct {
	store.Tensor
	Dtype string // name in the file, such as I32
}

// Auxiliary returns an auxiliary tensor. Tensors does not return these.
func (d *Dir) Auxiliary(name string) (Auxiliary, bool) {
	a, ok := d.auxiliary[name]
	return a, ok
}

// Auxiliaries returns the sorted names of all auxiliary tensors.
func (d *Dir) Auxiliaries() []string { return slices.Sorted(maps.Keys(d.auxiliary)) }

// Open opens a model directory, a single file or an index file. path is unrestricted; files
// that an index names must be in the directory of the index.
func Open(fsys vfs.FS, path string) (*Dir, error) {
	info, err := fsys.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir {
		return openDir(vfs.Confine(fsys, path), path)
	}
	if strings.HasSuffix(path, indexSuffix) {
		dir, base := vfs.Split(path)
		return openIndexed(vfs.Confine(fsys, dir), base)
	}
	return openFiles(fsys, []string{path})
}

// openDir opens the single file or the index in a directory.
func openDir(dir vfs.FS, shown string) (*Dir, error) {
	for _, form := range []struct {
		name string
		open func() (*Dir, error)
	}{
		{singleName, func() (*Dir, error) { return openFiles(dir, []string{singleName}) }},
		{indexName, func() (*Dir, error) { return openIndexed(dir, indexName) }},
	} {
		_, err := dir.Stat(form.name)
		if err == nil {
			return form.open()
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err // the file exists but cannot be used
		}
	}
	return nil, &vfs.IOError{
		Op: "open", Path: shown, Off: store.NoOffset,
		Err: fmt.Errorf("neither %s nor %s exists: %w", singleName, indexName, fs.ErrNotExist),
	}
}

// openFiles opens the named files as one model.
func openFiles(fsys vfs.FS, names []string) (_ *Dir, err error) {
	var files []vfs.File
	var stamps []vfs.Stamp
	defer func() {
		if err != nil {
			err = errors.Join(err, store.CloseAll(files))
		}
	}()
	var tensors []store.Tensor
	auxiliary := make(map[string]Auxiliary)
	for i, name := range names {
		file, err := fsys.Open(name)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
		stamp, err := vfs.StampForReading(file)
		if err != nil {
			return nil, err
		}
		stamps = append(stamps, stamp)
		h, err := readHeader(fsys, file)
		if err != nil {
			return nil, err
		}
		tensors = slices.Grow(tensors, len(h.entries))
		for _, e := range h.entries {
			t := store.Tensor{
				Name: e.name, Type: e.dtype.typ, Shape: e.shape, File: i, Offset: h.data + e.begin, Size: e.end - e.begin,
			}
			if e.dtype.auxiliary {
				auxiliary[e.name] = Auxiliary{t, e.dtypeName}
				continue
			}
			tensors = append(tensors, t)
		}
	}
	index, err := store.NewIndex(files, stamps, tensors)
	if err != nil {
		return nil, err
	}
	return &Dir{Index: index, auxiliary: auxiliary}, nil
}
