package llmrun_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil"
)

// TestSavedSessionSelectsSamePages opens a long session again, once into memory and once with
// its pages on flash. New tokens select the same blocks, and the answer does not change.
func TestSavedSessionSelectsSamePages(t *testing.T) {
	t.Parallel()
	skipLongTexts(t)
	model, formats := demoModel, []string{"k8v8", "k4v8", "f32"}
	for _, kv := range formats[:testutil.Effort(1, len(formats))] {
		// 57 full pages and the last token, which is not processed.
		text, question := document(3645), document(3662)[3652:]
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

// TestReopenedSessionAttendsAsBefore reopens sessions whose text does not end with a page. The end
// of the text is computed again: exactly if it was the end of a long input, and with selection if
// it was an answer. Its tokens do not count with those of the question.
// LLMRUN_TEST_SWEEP=1 asks a short question too.
func TestReopenedSessionAttendsAsBefore(t *testing.T) {
	t.Parallel()
	skipLongTexts(t)
	model := demoModel
	cases := []struct{ text, answer, question int }{{3690, 1, 55}, {3645, 20, 62}, {3690, 1, 10}}
	for _, c := range cases[:testutil.Effort(2, len(cases))] {
		o := llmrun.Options{Memory: llmrun.MemoryOptions{KV: "k8v8", KVSelect: "0.1"}, Cache: llmrun.CacheOptions{KVDir: t.TempDir(), NoKV: true}}
		s := openSession(t, open(t, model, o), "book", llmrun.SessionOptions{})
		ids(t, s, document(c.text), c.answer)
		require.NoError(t, s.Save(""))
		question := document(5000)[5000-c.question:]
		want := ids(t, s, question, 8)
		require.NoError(t, s.Close())
		o.Memory.KVRAM = 1
		s = openSession(t, open(t, model, o), "book", llmrun.SessionOptions{})
		require.Equal(t, want, ids(t, s, question, 8), "%+v", c)
		require.NoError(t, s.Close())
	}
}

// TestRestoredPromptIsPrefilledExactly repeats a long prompt. Its last tokens are not in the
// prefix cache; they are few, but attend to the whole context as the first time.
func TestRestoredPromptIsPrefilledExactly(t *testing.T) {
	skipLongTexts(t)
	text := document(3702)
	o := llmrun.Options{Memory: llmrun.MemoryOptions{KV: "k8v8", KVSelect: "0.1"}, Cache: llmrun.CacheOptions{KVDir: t.TempDir()}}
	model := demoModel
	first := newSession(t, open(t, model, o))
	want := ids(t, first, text, 8)
	used := first.Stats().Selection
	require.Positive(t, used.Blocks, "tokens of the answer select")
	found := newSession(t, open(t, model, o))
	require.Equal(t, want, ids(t, found, text, 8))
	require.Equal(t, 3648, found.Stats().RestoredTokens)
	require.Equal(t, used, found.Stats().Selection)
}
