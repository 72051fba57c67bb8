package llmrun_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
)

// TestCloseDuringOpenAndSave closes an engine while its sessions are opened and saved. They
// return ErrClosed, and neither memory nor session names stay in use.
func TestCloseDuringOpenAndSave(t *testing.T) {
	model, dir := tinyModel(t, nil), t.TempDir()
	o := llmrun.Options{Threads: 1, Cache: llmrun.CacheOptions{KVDir: dir}}
	e := open(t, model, o)
	names := []string{"a", "b", "c", "d"}
	for _, name := range names {
		s := openSession(t, e, name, llmrun.SessionOptions{})
		ids(t, s, []int32{1, 2, 3}, 3)
		require.NoError(t, s.Save(""))
	}
	require.NoError(t, e.Close())
	for range 40 {
		e, err := llmrun.Open(model, o)
		require.NoError(t, err)
		var tasks sync.WaitGroup
		for _, name := range names {
			tasks.Go(func() {
				s, err := e.OpenSession(name, llmrun.SessionOptions{})
				if err == nil {
					err = s.Save("")
				}
				if err != nil {
					require.ErrorIs(t, err, llmrun.ErrClosed)
				}
			})
		}
		tasks.Go(func() { require.NoError(t, e.Close()) })
		tasks.Wait()
		require.NoError(t, e.CheckMemory())
	}
	for _, name := range names {
		_, err := llmrun.RemoveSession(dir, name)
		require.NoError(t, err)
	}
}
