package gguf

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/vfs"
)

// Keys that the parts of a split model carry.
const (
	splitNoKey      = "split.no"            // counts from 0
	splitCountKey   = "split.count"         // of parts
	splitTensorsKey = "split.tensors.count" // over all parts
)

// maxShards bounds the files held open; the largest models have under 200.
const maxShards = 1024

// splitInfo reads where a part stands; a file that is not split is 0 of 1.
func (m *Metadata) splitInfo() (no, count uint64, err error) {
	count, ok, err := m.Uint(splitCountKey)
	if err != nil {
		return 0, 0, err
	}
	if !ok || count <= 1 {
		return 0, 1, nil
	}
	if count > maxShards {
		return 0, 0, m.Errorf(splitCountKey, "%d parts, at most %d are read", count, maxShards)
	}
	no, ok, err = m.Uint(splitNoKey)
	switch {
	case err != nil:
		return 0, 0, err
	case !ok:
		return 0, 0, m.Errorf(splitNoKey, "is missing though %s is %d", splitCountKey, count)
	case no >= count:
		return 0, 0, m.Errorf(splitNoKey, "%d is not below %s %d", no, splitCountKey, count)
	}
	return no, count, nil
}

// shardSuffix is how the name of part no ends.
func shardSuffix(no, count uint64) string {
	return fmt.Sprintf("-%05d-of-%05d.gguf", no+1, count)
}

// openSiblings returns all parts in order, of which named is one. It closes
// everything, named included, when it fails.
func openSiblings(fsys vfs.FS, path string, named *shard) (parts []*shard, err error) {
	opened := []*shard{named}
	defer func() {
		if err != nil {
			for _, p := range opened {
				err = errors.Join(err, p.file.Close())
			}
		}
	}()
	no, count, err := named.meta.splitInfo()
	if err != nil {
		return nil, err
	}
	if count == 1 {
		return opened, nil
	}
	prefix, ok := strings.CutSuffix(path, shardSuffix(no, count))
	if !ok {
		return nil, &store.FormatError{
			Path: path, Off: store.NoOffset, Field: splitCountKey,
			Reason: fmt.Sprintf("this is part %d of %d, but its name does not end in %s", no+1, count, shardSuffix(no, count)),
			Hint:   "give the parts their original names", Kind: store.ErrFormat,
		}
	}
	parts = make([]*shard, count)
	for i := range count {
		if i == no {
			parts[i] = named
			continue
		}
		if parts[i], err = openSibling(fsys, prefix, i, count); err != nil {
			return nil, err
		}
		opened = append(opened, parts[i])
	}
	return parts, checkTensorTotal(parts)
}

// openSibling opens part no and checks that it says so itself.
func openSibling(fsys vfs.FS, prefix string, no, count uint64) (*shard, error) {
	path := prefix + shardSuffix(no, count)
	p, err := openShard(fsys, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("part %d of %d of a split model is missing (download all parts into one directory): %w", no+1, count, err)
	}
	if err != nil {
		return nil, err
	}
	gotNo, gotCount, err := p.meta.splitInfo()
	if err == nil && (gotNo != no || gotCount != count) {
		err = p.meta.Errorf(splitNoKey, "the file says part %d of %d, its name part %d of %d", gotNo+1, gotCount, no+1, count)
	}
	if err != nil {
		return nil, errors.Join(err, p.file.Close())
	}
	return p, nil
}

// checkTensorTotal compares the parts with the total that the first announces.
func checkTensorTotal(parts []*shard) error {
	want, ok, err := parts[0].meta.Uint(splitTensorsKey)
	if err != nil || !ok {
		return err
	}
	have := uint64(0)
	for _, p := range parts {
		have += uint64(len(p.tensors))
	}
	if have != want {
		return parts[0].meta.Errorf(splitTensorsKey, "%d tensors announced, the %d parts hold %d", want, len(parts), have)
	}
	return nil
}
