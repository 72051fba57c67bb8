package llmrun_test

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/store/vfs"
)

// countingFS counts how often its files are opened.
type countingFS struct {
	fs.FS
	opens atomic.Int64
}

func (c *countingFS) Open(name string) (fs.File, error) {
	c.opens.Add(1)
	return c.FS.Open(name)
}

// TestWaitingForAnImportLeavesTheModelClosed opens a model that needs its pack while another process writes it: for
// a minute, and the wait is given up, or until the other process ends without one.
func TestWaitingForAnImportLeavesTheModelClosed(t *testing.T) {
	model, dir := writeShape(t, small(t), "q8_0"), t.TempDir()
	imported, err := llmrun.ImportCached(t.Context(), model, dir, 0, nil)
	require.NoError(t, err)
	require.NoError(t, llmrun.RemoveCachedPack(dir, filepath.Base(imported.Path)))
	files := &countingFS{FS: os.DirFS(filepath.Dir(model))}
	options := llmrun.Options{FS: files, Threads: 1, Context: 256, Memory: llmrun.MemoryOptions{RAM: 1 << 20}, Cache: llmrun.CacheOptions{Dir: dir}}
	_, err = llmrun.Open(filepath.Base(model), options)
	var least *llmrun.MinimumError
	require.ErrorAs(t, err, &least)
	options.Memory.RAM = least.Minimum

	synctest.Test(t, func(t *testing.T) {
		lock, err := vfs.Lock(vfs.OSOwn(), imported.Path+".lock")
		require.NoError(t, err)
		waits, before := 0, int64(0)
		options.Notify = func(text string) {
			if strings.Contains(text, "waiting for it") {
				waits, before = waits+1, files.opens.Load()
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = llmrun.OpenContext(ctx, filepath.Base(model), options)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 1, waits)
		require.Equal(t, before, files.opens.Load())

		opens := int64(0)
		time.AfterFunc(time.Minute, func() {
			opens = files.opens.Load() - before
			_ = lock.Close()
		})
		e, err := llmrun.Open(filepath.Base(model), options)
		require.NoError(t, err)
		require.Equal(t, 2, waits)
		require.Zero(t, opens, "the model was opened while another process imported it")
		require.NoError(t, e.Close())
	})
	packs, err := llmrun.CachedPacks(dir)
	require.NoError(t, err)
	require.Len(t, packs, 1, "it imports the model itself")
}
