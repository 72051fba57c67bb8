package llmrun_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
)

// TestSavedSessionSelectsSamePages opens a long session again, once into memory and once with
// its pages on flash. New tokens select the same blocks, and the answer does not change.
func TestSavedSessionSelectsSamePages(t *testing.T) {
	model, formats := longTextModel(t), []string{"k8v8", "k4v8", "f32"}
	if portable() {
		formats = formats[:1]
	}
	for _, kv := range formats {
		// 24 full pages and the last token, which is not processed.
		text, question := document(1533), document(1550)[1540:]
		o := llmrun.Options{Memory: llmrun.MemoryOptions{KV: kv, KVSelect: "0.1"}, Cache: llmrun.CacheOptions{KVDir: t.TempDir()}}
		e := open(t, model, o)
		s := openSession(t, e, "book", llmrun.SessionOptions{})
		ids(t, s, text, 4)
		require.NoError(t, s.Save(""))
		require.Positive(t, s.Stats().SavedBytes)
		want := ids(t, s, question, 8)
		selected := s.Stats().Selection
		require.Positive(t, selected.Blocks)
		require.Less(t, selected.Selected, selected.Blocks/2)
		require.NoError(t, s.Close())

		for _, ram := range []int64{0, 1} {
			o.Memory.KVRAM, o.Cache.NoKV, o.Threads = ram, true, int(1+ram)
			e := open(t, model, o)
			s := openSession(t, e, "book", llmrun.SessionOptions{})
			require.Equal(t, ram > 0, e.KVUse().ColdPages > 0)
			require.Equal(t, want, ids(t, s, question, 8))
			got := s.Stats().Selection
			require.Equal(t, ram > 0, got.Read > 0)
			got.Read = 0
			require.Equal(t, selected, got)
			require.NoError(t, s.Close())
		}
	}
}

// TestRestoredPromptIsPrefilledExactly repeats a long prompt. Its last tokens are not in the
// prefix cache; they are few, but attend to the whole context as the first time.
func TestRestoredPromptIsPrefilledExactly(t *testing.T) {
	text := document(1590)
	o := llmrun.Options{Memory: llmrun.MemoryOptions{KV: "k8v8", KVSelect: "0.1"}, Cache: llmrun.CacheOptions{KVDir: t.TempDir()}}
	model := longTextModel(t)
	first := newSession(t, open(t, model, o))
	want := ids(t, first, text, 8)
	used := first.Stats().Selection
	require.Positive(t, used.Blocks, "tokens of the answer select")
	found := newSession(t, open(t, model, o))
	require.Equal(t, want, ids(t, found, text, 8))
	require.Equal(t, 1536, found.Stats().RestoredTokens)
	require.Equal(t, used, found.Stats().Selection)
}
