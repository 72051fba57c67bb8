package llmrun_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/store/synth"
)

// quantizedModel writes a small model with random weights.
func quantizedModel(t *testing.T) string {
	t.Helper()
	shape, ok := synth.FindShape("tiny-moe")
	require.True(t, ok)
	return writeShape(t, shape, "q4_k_m")
}

// logitsOf returns some logits of a model, and the notices of opening it.
func logitsOf(t *testing.T, path string, opts llmrun.Options) (logits [][]float32, notices []string) {
	t.Helper()
	opts.Notify = func(text string) { notices = append(notices, text) }
	engine, err := llmrun.Open(path, opts)
	require.NoError(t, err)
	defer func() { require.NoError(t, engine.Close()) }()
	require.Equal(t, path, engine.Info().Path)
	logits, err = engine.Logits(context.Background(), []int32{1, 2, 3, 4}, []int{0, 3})
	require.NoError(t, err)
	return logits, notices
}

func TestImportThenReplace(t *testing.T) {
	path := quantizedModel(t)
	want, _ := logitsOf(t, path, llmrun.Options{})
	to := filepath.Join(filepath.Dir(path), "m.pack")
	var last llmrun.Progress
	done, err := llmrun.Import(context.Background(), path, to, llmrun.ImportOptions{
		Replace: true, Progress: func(p llmrun.Progress) { last = p },
	})
	require.NoError(t, err)
	require.Positive(t, last.Done)
	require.Equal(t, []string{path}, done.Removed)
	require.Equal(t, done.SourceBytes, done.Freed)
	require.NoFileExists(t, path)
	info, err := os.Stat(to)
	require.NoError(t, err)
	require.Equal(t, info.Size(), done.Bytes)
	require.NoError(t, llmrun.Verify(context.Background(), to, nil))
	got, _ := logitsOf(t, to, llmrun.Options{})
	require.Equal(t, want, got)

	_, err = llmrun.Import(context.Background(), to, filepath.Join(t.TempDir(), "x.gguf"), llmrun.ImportOptions{})
	require.ErrorIs(t, err, llmrun.ErrOptions)
	_, err = llmrun.Import(context.Background(), to, filepath.Join(t.TempDir(), "x.pack"), llmrun.ImportOptions{Replace: true})
	require.ErrorIs(t, err, llmrun.ErrOptions)
	require.FileExists(t, to)
}

func TestCacheDir(t *testing.T) {
	path, dir := quantizedModel(t), filepath.Join(t.TempDir(), "cache")
	want, _ := logitsOf(t, path, llmrun.Options{})
	require.NoDirExists(t, dir, "nothing is written without Cache.Dir")
	none, err := llmrun.CachedPacks(dir)
	require.NoError(t, err)
	require.Empty(t, none)
	require.Error(t, llmrun.RemoveCachedPack(dir, "x.pack"))

	imports := 0
	for range 2 {
		got, notices := logitsOf(t, path, llmrun.Options{
			Cache: llmrun.CacheOptions{Dir: dir, ImportProgress: func(p llmrun.Progress) {
				if p.Done == p.Total {
					imports++
				}
			}},
		})
		require.Equal(t, want, got)
		require.Empty(t, notices)
	}
	require.Equal(t, 1, imports)
	packs, err := llmrun.CachedPacks(dir)
	require.NoError(t, err)
	require.Len(t, packs, 1)
	require.Equal(t, path, packs[0].Source)
	require.False(t, packs[0].Used.IsZero())
	done, err := llmrun.ImportCached(context.Background(), path, dir, 0, nil)
	require.NoError(t, err)
	require.Equal(t, packs[0].Bytes, done.Bytes)

	// Loading detects damaged weights of a pack.
	name := filepath.Join(dir, packs[0].Name)
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	data[len(data)/2] ^= 1
	require.NoError(t, os.WriteFile(name, data, 0o600))
	got, notices := logitsOf(t, path, llmrun.Options{Cache: llmrun.CacheOptions{Dir: dir}})
	require.Equal(t, want, got)
	require.Len(t, notices, 1)
	require.Contains(t, notices[0], "damaged")
	require.NoError(t, llmrun.Verify(context.Background(), name, nil), "the model was imported again")

	require.NoError(t, llmrun.RemoveCachedPack(dir, packs[0].Name))
	_, err = llmrun.ImportCached(context.Background(), path, dir, 1000, nil)
	require.ErrorIs(t, err, llmrun.ErrNoRoom)
	_, err = llmrun.Open(path, llmrun.Options{Cache: llmrun.CacheOptions{Dir: dir, Size: -1}})
	require.ErrorIs(t, err, llmrun.ErrOptions)
}

// TestDamageWhileStreaming damages a cached pack whose weights stay on flash, so that only a
// pass detects it. The pass computes the same logits, and the next engine imports a new pack.
func TestDamageWhileStreaming(t *testing.T) {
	shape, ok := synth.FindShape("tiny")
	require.True(t, ok)
	shape.Layers, shape.Dim, shape.FFN, shape.Vocab, shape.Tied = 6, 512, 1536, 4096, false
	path, dir := writeShape(t, shape, "q8_0"), filepath.Join(t.TempDir(), "cache")
	opts := llmrun.Options{Threads: 1, Context: 64, Memory: llmrun.MemoryOptions{RAM: 1 << 20}, Cache: llmrun.CacheOptions{Dir: dir}}
	var least *llmrun.MinimumError
	_, err := llmrun.Open(path, opts)
	require.ErrorAs(t, err, &least)
	opts.Memory.RAM = least.Minimum + 3<<20
	want, _ := logitsOf(t, path, opts)

	packs, err := llmrun.CachedPacks(dir)
	require.NoError(t, err)
	require.Len(t, packs, 1)
	name := filepath.Join(dir, packs[0].Name)
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	data[len(data)/2] ^= 1
	require.NoError(t, os.WriteFile(name, data, 0o600))
	engine, err := llmrun.Open(path, opts)
	require.NoError(t, err, "loading verifies only what stays in memory")
	got, err := engine.Logits(context.Background(), []int32{1, 2, 3, 4}, []int{0, 3})
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.NoError(t, engine.Close())
	require.NoFileExists(t, name)
	got, _ = logitsOf(t, path, opts)
	require.Equal(t, want, got)
}

// TestOverwrittenWhileMapped overwrites a cached pack that is mapped while it generates. No token
// of changed weights is returned, and the pack is removed.
func TestOverwrittenWhileMapped(t *testing.T) {
	path, dir := quantizedModel(t), filepath.Join(t.TempDir(), "cache")
	opts := llmrun.Options{Threads: 2, Memory: llmrun.MemoryOptions{Pin: "file"}, Cache: llmrun.CacheOptions{Dir: dir, NoKV: true}}
	generate := func(at func(n int)) (ids []int32, err error) {
		engine, err := llmrun.Open(path, opts)
		require.NoError(t, err)
		defer func() { require.NoError(t, engine.Close()) }()
		session, err := engine.NewSession()
		require.NoError(t, err)
		for piece, err := range session.GenerateIDs(t.Context(), []int32{1, 2, 3}, llmrun.GenerateOptions{MaxTokens: 20, IgnoreEOS: true}) {
			if err != nil {
				return ids, err
			}
			ids = append(ids, piece.ID)
			at(len(ids))
		}
		return ids, nil
	}
	want, err := generate(func(int) {})
	require.NoError(t, err)
	packs, err := llmrun.CachedPacks(dir)
	require.NoError(t, err)
	require.Len(t, packs, 1)
	name := filepath.Join(dir, packs[0].Name)
	got, err := generate(func(n int) {
		if n != 10 {
			return
		}
		testutil.NextFileTime(t) // the change gets another time
		file, err := os.OpenFile(name, os.O_WRONLY, 0)
		require.NoError(t, err)
		_, err = file.WriteAt(make([]byte, packs[0].Bytes*3/4), packs[0].Bytes/8)
		require.NoError(t, err)
		require.NoError(t, file.Close())
	})
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.NoFileExists(t, name)
	again, err := generate(func(int) {})
	require.NoError(t, err)
	require.Equal(t, want, again)
}

// TestImportCancelled checks that a cancelled import leaves only the model.
func TestImportCancelled(t *testing.T) {
	path := quantizedModel(t)
	ctx, cancel := context.WithCancel(context.Background())
	to := filepath.Join(filepath.Dir(path), "m.pack")
	_, err := llmrun.Import(ctx, path, to, llmrun.ImportOptions{Replace: true, Progress: func(llmrun.Progress) { cancel() }})
	require.ErrorIs(t, err, context.Canceled)
	left, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, left, 1)
	require.FileExists(t, path)
}

// TestRefusedModelIsNotImported opens a model in a budget in which its pack does not run either.
func TestRefusedModelIsNotImported(t *testing.T) {
	path := writeShape(t, layered(t, "tiny"), "q8_0")
	o := llmrun.Options{Threads: 1, Context: 64, Cache: llmrun.CacheOptions{Dir: t.TempDir()}}
	o.Notify = func(text string) { t.Error(text) }
	least := minimum(t, path, o)
	packs, err := llmrun.CachedPacks(o.Cache.Dir)
	require.NoError(t, err)
	require.Empty(t, packs)
	o.Memory.RAM = least
	open(t, path, o)
	packs, err = llmrun.CachedPacks(o.Cache.Dir)
	require.NoError(t, err)
	require.Len(t, packs, 1)
}
