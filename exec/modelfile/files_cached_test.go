package modelfile_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/internal/modeltest"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/internal/testutil/hubmodel"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/pack"
	"github.com/llmrun/llmrun/store/vfs"
)

// cachedOpen opens m.gguf through a cache and returns the notices.
func cachedOpen(t *testing.T, fsys, cache vfs.FS) (*modelfile.Files, []string) {
	t.Helper()
	var notices []string
	f, err := modelfile.OpenCached(context.Background(), fsys, "m.gguf", modelfile.CacheOptions{
		FS: cache, Dir: "cache", Import: weights.ImportWith(weights.ImportOptions{}), Notify: func(err error) { notices = append(notices, err.Error()) },
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f, notices
}

func cachedNames(t *testing.T, fsys vfs.FS) (names []string) {
	c, err := pack.OpenCache(fsys, "cache", 0)
	require.NoError(t, err)
	list, err := c.List()
	require.NoError(t, err)
	for _, p := range list {
		names = append(names, p.Name)
		require.Equal(t, "m.gguf", p.Source)
	}
	return names
}

// TestCachedModels imports a model on first use and uses the pack until the model changes.
func TestCachedModels(t *testing.T) {
	cache := vfs.NewMem()
	model := modeltest.RandomTensors(t, quant.Q4_0)
	fsys := model.Write(t)
	for range 2 {
		f, notices := cachedOpen(t, fsys, cache)
		require.Empty(t, notices)
		require.NotNil(t, f.Packed())
		require.Equal(t, "gguf", f.Format(), "the format is that of the user's file")
		require.Equal(t, "m.gguf", f.Path)
		require.Len(t, cachedNames(t, cache), 1)
	}
	model.Tensor(t, "blk.1.ffn_up.weight").Data[7] ^= 1
	f, notices := cachedOpen(t, model.Write(t), cache)
	require.Empty(t, notices)
	tensor, _ := f.Source.Tensor("blk.1.ffn_up.weight")
	raw := make([]byte, 8)
	_, err := f.Source.ReadAt(tensor, raw, 0)
	require.NoError(t, err)
	require.Equal(t, model.Tensor(t, "blk.1.ffn_up.weight").Data[:8], raw)
	require.Len(t, cachedNames(t, cache), 2)
}

// TestFloatModelsAreNotCached requires that a model of floats does not enter the cache.
func TestFloatModelsAreNotCached(t *testing.T) {
	cache := vfs.NewMem()
	f, notices := cachedOpen(t, modeltest.TinyGGUF().Write(t), cache)
	require.Empty(t, notices)
	require.Nil(t, f.Packed())
	require.Empty(t, cachedNames(t, cache))
}

// TestDamagedCache damages the cached pack: in its index, which opening detects, and in its
// weights, which loading detects.
func TestDamagedCache(t *testing.T) {
	fsys := modeltest.RandomTensors(t, quant.Q8_0).Write(t)
	cache := vfs.NewMem()
	cachedOpen(t, fsys, cache)
	path := vfs.Join("cache", cachedNames(t, cache)[0])
	whole, err := vfs.ReadFile(cache, path, 1<<30)
	require.NoError(t, err)
	for _, at := range []int{len(whole) - 100, 0} {
		data := append([]byte(nil), whole...)
		data[at] ^= 1
		require.NoError(t, vfs.WriteFile(cache, path, data))
		f, notices := cachedOpen(t, fsys, cache)
		require.Empty(t, notices)
		require.NotNil(t, f.Packed(), "the pack was imported again")
	}
	data := append([]byte(nil), whole...)
	for i := 8192; i < len(data)/2; i += 4096 {
		data[i] ^= 1
	}
	require.NoError(t, vfs.WriteFile(cache, path, data))
	f, _ := cachedOpen(t, fsys, cache)
	require.ErrorContains(t, f.Packed().Verify(context.Background(), nil), "checksum")
	ok, err := f.DiscardCached()
	require.True(t, ok)
	require.NoError(t, err)
	require.Empty(t, cachedNames(t, cache))
	direct, err := modelfile.Open(fsys, "m.gguf")
	require.NoError(t, err)
	defer direct.Close()
	ok, err = direct.DiscardCached()
	require.False(t, ok)
	require.NoError(t, err)
}

// TestPackOfAnotherModelInTheCache gives the pack of one model the name of another's. The
// other model is imported again.
func TestPackOfAnotherModelInTheCache(t *testing.T) {
	cache := vfs.NewMem()
	cachedOpen(t, modeltest.RandomTensors(t, quant.Q4_0).Write(t), cache)
	foreign, err := vfs.ReadFile(cache, vfs.Join("cache", cachedNames(t, cache)[0]), 1<<30)
	require.NoError(t, err)

	fsys, cache := modeltest.RandomTensors(t, quant.Q8_0).Write(t), vfs.NewMem()
	f, _ := cachedOpen(t, fsys, cache)
	want, path := f.Packed().About(), vfs.Join("cache", cachedNames(t, cache)[0])
	require.NoError(t, vfs.WriteFile(cache, path, foreign))
	f, notices := cachedOpen(t, fsys, cache)
	require.Empty(t, notices)
	require.NotNil(t, f.Packed())
	require.Equal(t, want, f.Packed().About())
}

// TestUnusableCaches requires that the model opens without the cache and that a notice
// says why.
func TestUnusableCaches(t *testing.T) {
	fsys := modeltest.RandomTensors(t, quant.Q4_K).Write(t)
	full := errors.New("no space left")
	for _, c := range []struct {
		name   string
		cache  func() vfs.FS
		limit  int64
		notice string
	}{
		{"read-only", func() vfs.FS { return vfs.FromIOFS(fstest.MapFS{}) }, 0, "read-only"},
		{"too small", func() vfs.FS { return vfs.NewMem() }, 100, "may take 100 B"},
		{"disk full", func() vfs.FS {
			return vfs.NewFaulty(vfs.NewMem(), func(op vfs.Op) error {
				if op.Kind == vfs.OpWrite {
					return full
				}
				return nil
			})
		}, 0, "no space left"},
		{"an import is under way", func() vfs.FS {
			mem := vfs.NewMem()
			source := &modelfile.Files{Path: "m.gguf", FS: fsys}
			content, err := source.Content(t.Context())
			require.NoError(t, err)
			packs, err := pack.OpenCache(mem, "cache", 0)
			require.NoError(t, err)
			path, err := packs.Path("m.gguf", content.Fingerprint)
			require.NoError(t, err)
			_, err = vfs.Lock(mem, path+".lock")
			require.NoError(t, err)
			return mem
		}, 0, "locked by another process or session"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var notices []string
			f, err := modelfile.OpenCached(context.Background(), fsys, "m.gguf", modelfile.CacheOptions{
				FS: c.cache(), Dir: "cache", Import: weights.ImportWith(weights.ImportOptions{}), Limit: c.limit, Notify: func(err error) { notices = append(notices, err.Error()) },
			})
			require.NoError(t, err)
			defer f.Close()
			require.Nil(t, f.Packed())
			require.Len(t, notices, 1)
			require.Contains(t, notices[0], c.notice)
		})
	}
}

// TestCancelledFirstUse requires that a cancelled import ends with the context's error instead
// of opening the model without the cache.
func TestCancelledFirstUse(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := modelfile.OpenCached(ctx, modeltest.RandomTensors(t, quant.Q4_0).Write(t), "m.gguf", modelfile.CacheOptions{FS: vfs.NewMem(), Dir: "cache", Import: weights.ImportWith(weights.ImportOptions{})})
	require.ErrorIs(t, err, context.Canceled)
}

// TestBrokenModelsWithACache requires that the error of a broken model does not mention the cache.
func TestBrokenModelsWithACache(t *testing.T) {
	fsys := vfs.NewMem()
	require.NoError(t, vfs.WriteFile(fsys, "m.gguf", []byte("GGUF")))
	for _, path := range []string{"m.gguf", "missing.gguf"} {
		_, want := modelfile.Open(fsys, path)
		_, err := modelfile.OpenCached(context.Background(), fsys, path, modelfile.CacheOptions{FS: vfs.NewMem(), Dir: "cache", Import: weights.ImportWith(weights.ImportOptions{})})
		require.Equal(t, want, err)
	}
}

// TestSourceFiles lists the files that a fingerprint covers.
func TestSourceFiles(t *testing.T) {
	fsys := vfs.NewMem()
	for _, name := range []string{
		"a.gguf", "s-00001-of-00002.gguf", "s-00002-of-00002.gguf", "s-00001-of-00003.gguf", "hub/config.json", "hub/model.safetensors",
		"hub/README.md", "hub/chat_template.jinja", "hub/other.safetensors", "hub/other.json",
		"shards/config.json", "shards/model.safetensors.index.json", "shards/model-1.safetensors", "shards/model-2.safetensors",
	} {
		dir, _ := vfs.Split(name)
		require.NoError(t, fsys.MkdirAll(dir))
		require.NoError(t, vfs.WriteFile(fsys, name, nil))
	}
	for path, want := range map[string]string{
		"a.gguf":                              "a.gguf",
		"s-00002-of-00002.gguf":               "s-00001-of-00002.gguf s-00002-of-00002.gguf",
		"hub":                                 "hub/chat_template.jinja hub/config.json hub/model.safetensors",
		"hub/model.safetensors":               "hub/chat_template.jinja hub/config.json hub/model.safetensors",
		"hub/other.safetensors":               "hub/chat_template.jinja hub/config.json hub/other.safetensors",
		"shards":                              "shards/config.json shards/model-1.safetensors shards/model-2.safetensors shards/model.safetensors.index.json",
		"shards/model.safetensors.index.json": "shards/config.json shards/model-1.safetensors shards/model-2.safetensors shards/model.safetensors.index.json",
	} {
		got, err := (&modelfile.Files{Path: path, FS: fsys}).SourceFiles()
		require.NoError(t, err)
		require.Equal(t, want, strings.Join(got, " "), path)
	}
}

// TestPackedTokenizer opens the tokenizer of a pack without its weights.
func TestPackedTokenizer(t *testing.T) {
	path := hubmodel.Dir(testutil.Root(t))
	packed := modeltest.ImportModel(t, vfs.OS(), path)
	tok, err := modelfile.OpenTokenizer(packed, "m.pack")
	require.NoError(t, err)
	want, err := modelfile.OpenTokenizer(vfs.OS(), path)
	require.NoError(t, err)
	require.Equal(t, want.VocabSize(), tok.VocabSize())
}

// countedFS counts the bytes that are read from its files.
type countedFS struct {
	vfs.FS
	bytes *atomic.Int64
}

func (c countedFS) Open(name string) (vfs.File, error) {
	f, err := c.FS.Open(name)
	return countedFile{f, c.bytes}, err
}

type countedFile struct {
	vfs.File
	bytes *atomic.Int64
}

func (c countedFile) ReadAt(p []byte, off int64) (int, error) {
	c.bytes.Add(int64(len(p)))
	return c.File.ReadAt(p, off)
}

// TestMalformedModelIsRefusedBeforeItIsHashed opens a large sparse file whose table names bytes
// beyond its end.
func TestMalformedModelIsRefusedBeforeItIsHashed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.gguf")
	good := modeltest.RandomTensors(t, quant.Q4_0).Write(t)
	header, err := vfs.ReadFile(good, "m.gguf", 1<<20)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, header[:len(header)/2], 0o600)) // the table is whole, the tensors are not
	var read atomic.Int64
	open := func() error {
		_, err := modelfile.OpenCached(t.Context(), countedFS{vfs.OS(), &read}, path, modelfile.CacheOptions{
			FS: vfs.NewMem(), Dir: "cache", Import: weights.ImportWith(weights.ImportOptions{}),
		})
		return err
	}
	require.ErrorIs(t, open(), store.ErrTruncated)
	require.NoError(t, os.Truncate(path, 64<<20))
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = file.WriteAt(bytes.Repeat([]byte{0xff}, 8), 8) // the number of tensors
	require.NoError(t, err)
	require.NoError(t, file.Close())
	read.Store(0)
	require.ErrorIs(t, open(), store.ErrTruncated)
	require.Less(t, read.Load(), int64(1<<20))
}
