package llmrun

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/store/vfs"
)

// TestWaitingForAnImportIsCancelled checks that a program that waits for another one's import can be stopped.
func TestWaitingForAnImportIsCancelled(t *testing.T) {
	o := Options{importLock: filepath.Join(t.TempDir(), "a.pack.lock")}
	require.NoError(t, o.awaitImport(t.Context()), "nobody imports it")
	lock, err := vfs.Lock(vfs.OSOwn(), o.importLock)
	require.NoError(t, err)
	defer lock.Close()
	ended := errors.New("ended")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(ended)
	err = o.awaitImport(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, ended)
}

// TestWaitingForAnImportIsSaidOnce looks many times whether another process has written a pack.
func TestWaitingForAnImportIsSaidOnce(t *testing.T) {
	var said []string
	o := Options{Notify: func(text string) { said = append(said, text) }}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // no look takes time
	name := filepath.Join(t.TempDir(), "a.pack.lock")
	lock, err := vfs.Lock(vfs.OSOwn(), name)
	require.NoError(t, err)
	defer lock.Close()
	_, held := vfs.Lock(vfs.OSOwn(), name)
	for range 5 {
		o.refuseImport(fmt.Errorf("a pack: %w", held))
		require.Equal(t, name, o.importLock)
		require.ErrorIs(t, o.awaitImport(ctx), context.Canceled)
	}
	require.Len(t, said, 2)
	require.Contains(t, said[1], "waiting")
	o.refuseImport(errors.New("no room"))
	require.Len(t, said, 3, "another reason is said")
	require.Empty(t, o.importLock)
}
