package gguf

import (
	"fmt"
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/vfs"
)

// writeShards writes a model of n shards with one tensor each. edit may change the content
// of a shard.
func writeShards(t *testing.T, n int, edit func(no int, keys []KV, tensors []TensorData) ([]KV, []TensorData)) *vfs.Mem {
	t.Helper()
	fsys := vfs.NewMem()
	require.NoError(t, fsys.MkdirAll("dir"))
	for no := range n {
		keys := []KV{{splitNoKey, uint16(no)}, {splitCountKey, uint16(n)}, {splitTensorsKey, int32(n)}}
		if no == 0 {
			keys = append(keys, KV{"general.architecture", "llama"})
		}
		tensors := []TensorData{{Name: fmt.Sprintf("t%d", no), Type: quant.F32, Shape: []int{8}, Data: pattern(32, byte(no))}}
		if edit != nil {
			keys, tensors = edit(no, keys, tensors)
		}
		require.NoError(t, Write(fsys, shardPath(no, n), keys, tensors))
	}
	return fsys
}

func shardPath(no, n int) string { return "dir/m" + shardSuffix(uint64(no), uint64(n)) }

func TestOpensSplitModelByAnyShard(t *testing.T) {
	const n = 3
	fsys := writeShards(t, n, nil)
	for named := range n {
		f, err := Open(fsys, shardPath(named, n))
		require.NoError(t, err)
		require.Equal(t, []string{shardPath(0, n), shardPath(1, n), shardPath(2, n)}, f.Files())
		arch, ok, err := f.Meta().String("general.architecture")
		require.NoError(t, err)
		require.True(t, ok, "the metadata is that of the first shard")
		require.Equal(t, "llama", arch)
		for no := range n {
			tensor, ok := f.Tensor(fmt.Sprintf("t%d", no))
			require.True(t, ok)
			require.Equal(t, no, tensor.File)
			data := make([]byte, tensor.Size)
			_, err := f.ReadAt(tensor, data, 0)
			require.NoError(t, err)
			require.Equal(t, pattern(32, byte(no)), data)
		}
		require.NoError(t, f.Close())
	}
}

func TestOpenRejectsBrokenSplits(t *testing.T) {
	const n = 3
	path := shardPath(0, n)
	t.Run("missing shard", func(t *testing.T) {
		fsys := writeShards(t, n, nil)
		require.NoError(t, fsys.Remove(shardPath(1, n)))
		_, err := Open(fsys, path)
		require.ErrorIs(t, err, fs.ErrNotExist)
		require.ErrorContains(t, err, "shard 2 of 3")
		require.ErrorContains(t, err, shardPath(1, n))
	})
	t.Run("wrong shard number", func(t *testing.T) {
		fsys := writeShards(t, n, func(no int, keys []KV, tensors []TensorData) ([]KV, []TensorData) {
			keys[0].Value = uint16(min(no, 1))
			return keys, tensors
		})
		_, err := Open(fsys, path)
		requireRejected(t, err, store.ErrFormat, "the file says shard 2 of 3, its name shard 3 of 3")
	})
	t.Run("shard of another model", func(t *testing.T) {
		fsys := writeShards(t, n, func(no int, keys []KV, tensors []TensorData) ([]KV, []TensorData) {
			keys[1].Value = uint16(n + no)
			return keys, tensors
		})
		_, err := Open(fsys, path)
		requireRejected(t, err, store.ErrFormat, "the file says shard 2 of 4")
	})
	t.Run("missing tensors", func(t *testing.T) {
		fsys := writeShards(t, n, func(no int, keys []KV, tensors []TensorData) ([]KV, []TensorData) {
			if no == 2 {
				tensors = nil
			}
			return keys, tensors
		})
		_, err := Open(fsys, path)
		requireRejected(t, err, store.ErrFormat, "3 tensors declared, but the 3 shards hold 2")
	})
	t.Run("tensor in two shards", func(t *testing.T) {
		fsys := writeShards(t, n, func(_ int, keys []KV, tensors []TensorData) ([]KV, []TensorData) {
			tensors[0].Name = "same"
			return keys, tensors
		})
		_, err := Open(fsys, path)
		requireRejected(t, err, store.ErrFormat, `tensor "same": the name occurs twice`)
	})
}

// TestSplitClosesFiles checks that Open closes every file it opened when a split model is
// broken.
func TestSplitClosesFiles(t *testing.T) {
	for broken := range 3 {
		fsys := writeShards(t, 3, func(no int, keys []KV, tensors []TensorData) ([]KV, []TensorData) {
			if no == broken {
				keys[0].Value = uint16(no + 1)
			}
			return keys, tensors
		})
		opened := 0
		_, err := Open(vfs.NewFaulty(fsys, func(op vfs.Op) error {
			switch op.Kind {
			case vfs.OpOpen:
				opened++
			case vfs.OpClose:
				opened--
			}
			return nil
		}), shardPath(0, 3))
		require.Error(t, err)
		require.Zero(t, opened)
	}
}
