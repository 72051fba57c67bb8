package gguf

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/vfs"
)

// Keys of the shards of a split model.
const (
	splitNoKey      = "split.no"            // number of the shard, from 0
	splitCountKey   = "split.count"         // number of shards
	splitTensorsKey = "split.tensors.count" // tensors of all shards
)

// maxShards limits the number of open files. The largest models have fewer than 200 shards.
const maxShards = 1024

// splitInfo returns the number of the shard and the shard count; 0 of 1 for a file that is
// not split.
func (m *Metadata) splitInfo() (no, count uint64, err error) {
	count, ok, err := m.Uint(splitCountKey)
	if err != nil {
		return 0, 0, err
	}
	if !ok || count <= 1 {
		return 0, 1, nil
	}
	if count > maxShards {
		return 0, 0, m.Errorf(splitCountKey, "%d shards; this program reads at most %d", count, maxShards)
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

// shardSuffix returns the end of the file name of shard no.
func shardSuffix(no, count uint64) string {
	return fmt.Sprintf("-%05d-of-%05d.gguf", no+1, count)
}

// openSiblings returns all shards in order; named is one of them. On failure it closes all
// of them, named included.
func openSiblings(fsys vfs.FS, path string, named *shard, lean bool) (shards []*shard, err error) {
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
			Reason: fmt.Sprintf("this is shard %d of %d, but its name does not end in %s", no+1, count, shardSuffix(no, count)),
			Hint:   "restore the original file names", Kind: store.ErrFormat,
		}
	}
	shards = make([]*shard, count)
	for i := range count {
		if i == no {
			shards[i] = named
			continue
		}
		if shards[i], err = openSibling(fsys, prefix, i, count, lean); err != nil {
			return nil, err
		}
		opened = append(opened, shards[i])
	}
	return shards, checkTensorTotal(shards)
}

// openSibling opens shard no and checks that its metadata agrees. A link out of the directory
// is refused, because the file that the user named chooses its siblings.
func openSibling(fsys vfs.FS, prefix string, no, count uint64, lean bool) (*shard, error) {
	dir, base := vfs.Split(prefix + shardSuffix(no, count))
	p, err := openShard(vfs.Confine(fsys, dir), base, lean)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("shard %d of %d of a split model is missing (download all shards into one directory): %w", no+1, count, err)
	}
	if err != nil {
		return nil, err
	}
	gotNo, gotCount, err := p.meta.splitInfo()
	if err == nil && (gotNo != no || gotCount != count) {
		err = p.meta.Errorf(splitNoKey, "the file says shard %d of %d, its name shard %d of %d", gotNo+1, gotCount, no+1, count)
	}
	if err != nil {
		return nil, errors.Join(err, p.file.Close())
	}
	return p, nil
}

// checkTensorTotal compares the number of tensors with the total in the first shard.
func checkTensorTotal(shards []*shard) error {
	want, ok, err := shards[0].meta.Uint(splitTensorsKey)
	if err != nil || !ok {
		return err
	}
	have := uint64(0)
	for _, p := range shards {
		have += uint64(len(p.tensors))
	}
	if have != want {
		return shards[0].meta.Errorf(splitTensorsKey, "%d tensors declared, but the %d shards hold %d", want, len(shards), have)
	}
	return nil
}
