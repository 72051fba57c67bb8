package llmrun_test

import (
	"errors"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
)

// TestSessionWithoutRoom saves a session whose keys and values exceed the cache's limit. Its
// tokens and as many pages as fit are saved, and it continues with the same answers.
func TestSessionWithoutRoom(t *testing.T) {
	model := longTextModel(t)
	alone := newSession(t, open(t, model, llmrun.Options{Memory: llmrun.MemoryOptions{KV: "k8v8"}}))
	steps := [][]int32{document(150), document(300), {41}}
	for _, roomFor := range []int{0, 2} { // pages
		var notices []string
		o := llmrun.Options{Notify: func(text string) { notices = append(notices, text) }, Cache: llmrun.CacheOptions{KVDir: t.TempDir(), NoKV: true}, Memory: llmrun.MemoryOptions{KV: "k8v8"}}
		page := int64(open(t, model, o).KVUse().PageBytes)
		o.Cache.Size = 4 * (int64(roomFor)*page + 32<<10) // a quarter of the cache is for keys and values
		require.NoError(t, alone.Reset())
		for i, step := range steps {
			e := open(t, model, o)
			s := openSession(t, e, "talk", llmrun.SessionOptions{})
			require.Equal(t, ids(t, alone, step, 4), ids(t, s, step, 4), "step %d", i)
			require.NoError(t, s.Save(""))
			require.Equal(t, alone.Len(), s.Len())
			require.NoError(t, e.Close())
			_, err := llmrun.VerifySession(o.Cache.KVDir, "talk")
			require.NoError(t, err)
			shown, err := llmrun.ShowSession(o.Cache.KVDir, "talk")
			require.NoError(t, err)
			require.Equal(t, alone.Len(), shown.Tokens)
			require.Equal(t, roomFor*64, shown.SavedTokens)
		}
		require.NotEmpty(t, notices)
		require.Contains(t, notices[0], "not enough room")
	}
}

// TestSaveWhileKVIsDeleted saves a session while other goroutines delete all keys and values.
// Save succeeds and saves the tokens.
func TestSaveWhileKVIsDeleted(t *testing.T) {
	model, dir := longTextModel(t), t.TempDir()
	e := open(t, model, llmrun.Options{Cache: llmrun.CacheOptions{KVDir: dir, NoKV: true}, Memory: llmrun.MemoryOptions{KV: "k8v8"}})
	s := openSession(t, e, "talk", llmrun.SessionOptions{})
	ids(t, s, document(1100), 1)
	stop := make(chan struct{})
	var others sync.WaitGroup
	for range 2 {
		others.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				for _, file := range kvFiles(t, dir) {
					_ = os.Remove(file)
				}
			}
		})
	}
	var err error
	for range 5 {
		err = errors.Join(err, s.Save(""))
	}
	close(stop)
	others.Wait()
	require.NoError(t, err)
	require.NoError(t, e.Close())
	shown, err := llmrun.ShowSession(dir, "talk")
	require.NoError(t, err)
	require.Equal(t, 1101, shown.Tokens)
}
