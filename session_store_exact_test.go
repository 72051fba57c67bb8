package llmrun_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
)

// TestSelectedKVIsNotUsedAsExact checks that keys and values computed with KVSelect are not
// used without it, neither from the prefix cache nor from a session. Those of exact prefill
// are.
func TestSelectedKVIsNotUsedAsExact(t *testing.T) {
	t.Parallel()
	skipLongTexts(t)
	model := demoModel
	exact := llmrun.Options{Memory: llmrun.MemoryOptions{KV: "k8v8"}, Cache: llmrun.CacheOptions{KVDir: t.TempDir()}}
	selects := exact
	selects.Memory.KVSelect = "0.1"
	text, question := document(3328), []int32{30, 31}

	e := open(t, model, selects)
	s := openSession(t, e, "book", llmrun.SessionOptions{})
	answer := ids(t, s, text, 140)
	require.Less(t, s.Stats().Selection.Selected, s.Stats().Selection.Blocks)
	require.NoError(t, s.Save(""))
	require.NoError(t, s.Save("")) // reuses all saved segments
	require.NoError(t, e.Close())
	all := slices.Concat(text, answer, question)

	e = open(t, model, exact)
	alone := newSession(t, open(t, model, llmrun.Options{Memory: llmrun.MemoryOptions{KV: "k8v8"}}))
	s = newSession(t, e)
	require.Equal(t, ids(t, alone, all, 4), ids(t, s, all, 4))
	require.Equal(t, 3328, s.Stats().RestoredTokens, "the prompt was prefilled exactly")
	_, err := e.OpenSession("book", llmrun.SessionOptions{})
	require.ErrorIs(t, err, llmrun.ErrOtherSettings)
	require.ErrorContains(t, err, "kv k8v8, selected")
	require.NoError(t, e.Close())

	e = open(t, model, selects)
	s = openSession(t, e, "book", llmrun.SessionOptions{})
	ids(t, s, question, 1)
	require.Equal(t, 3456, s.Stats().RestoredTokens)
	require.NoError(t, s.Save(""))
	_, err = llmrun.VerifySession(exact.Cache.KVDir, "book")
	require.NoError(t, err)
}
