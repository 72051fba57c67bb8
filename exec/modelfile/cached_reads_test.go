package modelfile_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/store/digest"
	"github.com/llmrun/llmrun/store/synth"
	"github.com/llmrun/llmrun/store/vfs"
)

// openings opens a model through a cache and counts what that reads.
type openings struct {
	path, cache string

	mu    sync.Mutex
	calls int              // operations on files
	bytes map[string]int64 // read, by path
}

// count counts an operation.
func (o *openings) count(op vfs.Op) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls++
	if op.Kind == vfs.OpRead {
		o.bytes[op.Path] += int64(op.Len)
	}
	return nil
}

// open opens the model and returns the path of its pack.
func (o *openings) open(t *testing.T) (packed string) {
	o.calls, o.bytes = 0, map[string]int64{}
	fsys := vfs.NewFaulty(vfs.OS(), o.count)
	f, err := modelfile.OpenCached(t.Context(), fsys, o.path, modelfile.CacheOptions{
		FS: fsys, Dir: o.cache, Import: weights.ImportWith(weights.ImportOptions{}), Hashes: digest.NewMemo(fsys, o.cache),
		Notify: func(err error) { t.Error(err) },
	})
	require.NoError(t, err)
	require.True(t, f.Cached())
	_, err = f.Spec()
	require.NoError(t, err)
	packed = f.Packed().Path()
	require.NoError(t, f.Close())
	return packed
}

// TestWrittenModelIsReadOnce counts what the first use of a model reads whose writer has handed over its hash: each
// tensor once for the pack, and the header when it is opened, but the file is not hashed.
func TestWrittenModelIsReadOnce(t *testing.T) {
	t.Parallel()
	shape, ok := synth.FindShape("tiny")
	require.True(t, ok)
	shape.FFN, shape.Tied = 4096, false
	o := &openings{path: filepath.Join(t.TempDir(), "m.gguf"), cache: t.TempDir()}
	require.NoError(t, synth.Write(t.Context(), vfs.OS(), o.path, synth.Options{Shape: shape, Quant: "q8_0"}))
	sum, err := digest.Of(t.Context(), vfs.OS(), o.path, nil)
	require.NoError(t, err)
	require.NoError(t, digest.NewMemo(vfs.OS(), o.cache).Written(vfs.OS(), o.path, sum.Sum, sum.Size))
	o.open(t)
	read := o.bytes[o.path]
	require.Less(t, read, o.size(t)+o.size(t)/4, "headers are read more than once")
	o.open(t)
	require.LessOrEqual(t, o.bytes[o.path], int64(64))
	t.Logf("%d bytes read of a file of %d", read, o.size(t))
}

// size returns the size of the model's file.
func (o *openings) size(t *testing.T) int64 {
	info, err := os.Stat(o.path)
	require.NoError(t, err)
	return info.Size()
}

// TestCachedModelOpensWithoutReadingItsFile counts what opening models of two sizes reads, whose packs
// are in the cache: nothing of the file but its magic, and the index of the pack, with as many operations for the
// large one. A file whose time has changed is read again as a whole.
func TestCachedModelOpensWithoutReadingItsFile(t *testing.T) {
	t.Parallel()
	shape, ok := synth.FindShape("tiny")
	require.True(t, ok)
	models := []*openings{}
	for _, shape.FFN = range []int{256, 4096} {
		o := &openings{path: filepath.Join(t.TempDir(), "m.gguf"), cache: t.TempDir()}
		require.NoError(t, synth.Write(t.Context(), vfs.OS(), o.path, synth.Options{Shape: shape, Quant: "q8_0"}))
		o.open(t)
		require.GreaterOrEqual(t, o.bytes[o.path], o.size(t), "the first use imports it")
		models = append(models, o)
	}
	for _, o := range models {
		packed := ""
		testutil.Eventually(t, "the file is old enough for its hash to be remembered", func() bool {
			packed = o.open(t)
			return o.bytes[o.path] < o.size(t)
		})
		require.LessOrEqual(t, o.bytes[o.path], int64(64))
		require.Less(t, o.bytes[packed], int64(128<<10), "the index of the pack")
		require.Less(t, o.calls, 100)
		require.Equal(t, models[0].calls, o.calls)
		t.Logf("%d bytes: %d operations, %d bytes of the pack", o.size(t), o.calls, o.bytes[packed])
	}
	for _, o := range models[1:] {
		require.NoError(t, os.Chtimes(o.path, time.Time{}, time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)))
		o.open(t)
		require.GreaterOrEqual(t, o.bytes[o.path], o.size(t), "its time has changed")
	}
}
