package safetensors

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/vfs"
)

const (
	// maxIndexBytes limits the index. The largest models have an index of about 10 MB.
	maxIndexBytes = 64 << 20
	// maxShards limits the number of open files.
	maxShards = 1024
	// indexEntryCost bounds the memory of a tensor in the index besides its name.
	indexEntryCost = 64
)

// indexEntry names the file of a tensor.
type indexEntry struct {
	tensor string
	shard  int32 // index into index.shards
}

// index is the content of an index file.
type index struct {
	path    string
	shards  []string
	entries []indexEntry // sorted by tensor
}

// formatError returns a format error about a field of the index.
func (x *index) formatError(field, reason string, args ...any) error {
	return &store.FormatError{
		Path: x.path, Off: store.NoOffset, Field: field, Reason: fmt.Sprintf(reason, args...), Kind: store.ErrFormat,
	}
}

// openIndexed opens the files that the index name lists, in the directory dir.
func openIndexed(dir vfs.FS, name string) (*Dir, error) {
	data, err := vfs.ReadFile(dir, name, maxIndexBytes)
	if err != nil {
		return nil, err
	}
	// An entry has four quotes at least, and its names are part of the text.
	cost := int64(len(data)) + indexEntryCost*int64(bytes.Count(data, []byte{'"'})/4)
	if err := vfs.Reserve(dir, name, cost); err != nil {
		return nil, err
	}
	defer vfs.Release(dir, cost+int64(len(data)))
	x, err := parseIndex(name, string(data))
	if err != nil {
		return nil, err
	}
	d, err := openFiles(dir, x.shards)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s names a file that is missing (download all files of the model): %w", name, err)
	}
	if err != nil {
		return nil, err
	}
	if err := x.check(d); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// parseIndex decodes {"metadata": …, "weight_map": {tensor: file, …}}.
func parseIndex(path, text string) (*index, error) {
	x := &index{path: path}
	s := &scanner{path: path, text: text}
	if !utf8.ValidString(text) {
		s.fail("the text is not valid UTF-8")
	}
	found := false
	s.object(func(key string) {
		switch {
		case key != "weight_map":
			s.skip(0)
		case found:
			s.fail("weight_map occurs twice")
		default:
			found = true
			x.readMap(s)
		}
	})
	if s.peek() != 0 || s.pos < len(text) {
		s.fail("something follows the closing brace")
	}
	if s.err != nil {
		return nil, s.err
	}
	if len(x.shards) == 0 {
		return nil, x.formatError("weight_map", "is missing or empty")
	}
	return x, x.sortEntries()
}

// readMap reads the weight map. It estimates the number of entries from the number of
// quotes: an entry has four.
func (x *index) readMap(s *scanner) {
	x.entries = make([]indexEntry, 0, strings.Count(s.text[s.pos:], `"`)/4)
	byName := make(map[string]int32)
	s.object(func(tensor string) {
		name := s.str()
		shard, known := byName[name]
		if !known && s.err == nil {
			shard = int32(len(x.shards))
			byName[name] = shard
			x.addShard(s, name)
		}
		x.entries = append(x.entries, indexEntry{tensor, shard})
	})
}

// addShard rejects names outside the directory of the model. The file system checks the
// path again, including links.
func (x *index) addShard(s *scanner, name string) {
	switch {
	case !filepath.IsLocal(name) || strings.Contains(name, `\`):
		s.fail("file %q is outside the model's directory", name)
	case len(x.shards) == maxShards:
		s.fail("more than %d files", maxShards)
	default:
		x.shards = append(x.shards, name)
	}
}

// sortEntries sorts the entries by tensor and rejects duplicates.
func (x *index) sortEntries() error {
	slices.SortFunc(x.entries, func(a, b indexEntry) int { return strings.Compare(a.tensor, b.tensor) })
	for i := 1; i < len(x.entries); i++ {
		if x.entries[i].tensor == x.entries[i-1].tensor {
			return x.formatError("weight_map", "tensor %q occurs twice", x.entries[i].tensor)
		}
	}
	return nil
}

// check compares the index with the contents of the files.
func (x *index) check(d *Dir) error {
	for _, e := range x.entries {
		if _, ok := d.auxiliary[e.tensor]; ok {
			continue
		}
		t, ok := d.Tensor(e.tensor)
		if !ok {
			return x.formatError("weight_map", "tensor %q is not in %s", e.tensor, x.shards[e.shard])
		}
		if t.File != int(e.shard) {
			return x.formatError("weight_map", "tensor %q is in %s, not in %s", e.tensor, x.shards[t.File], x.shards[e.shard])
		}
	}
	return nil
}
