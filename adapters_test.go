package llmrun_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
)

// adapted generates some tokens in a session, and returns them with their probabilities.
func adapted(t testing.TB, s *llmrun.Session, tokens int) (pieces []llmrun.Piece) {
	t.Helper()
	o := limit(tokens)
	o.LogProbs = true
	for piece, err := range s.Generate(t.Context(), foxPrompt, o) {
		require.NoError(t, err)
		pieces = append(pieces, piece)
	}
	return pieces
}

// textOf returns tokens of the demo model.
func textOf(n int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32(300 + i%97)
	}
	return ids
}

// TestSessionsWithAdapters compares sessions with different adapters that share passes with sessions that run
// alone, and switches a session back and forth.
func TestSessionsWithAdapters(t *testing.T) {
	o := llmrun.Options{Threads: 2, Context: 512, Adapters: []string{"a=" + demoAdapter(t, 4), "b=" + demoAdapter(t, 9)}}
	alone, together := open(t, demoModel, o), open(t, demoModel, o)
	require.Equal(t, []string{"a", "b"}, alone.Adapters())
	uses := [][]string{nil, {"a"}, {"b"}, {"a:-0.5", "b"}}
	var want [][]llmrun.Piece
	for _, use := range uses {
		s := newSession(t, alone)
		require.NoError(t, s.UseAdapters(use...))
		require.Equal(t, use, s.Adapters())
		want = append(want, adapted(t, s, 12))
		require.NotContains(t, want[:len(want)-1], want[len(want)-1])
	}
	plain := open(t, demoModel, llmrun.Options{Threads: 2, Context: 512})
	require.Equal(t, adapted(t, newSession(t, plain), 12), want[0])

	var running sync.WaitGroup
	got := make([][]llmrun.Piece, len(uses))
	for i, use := range uses {
		s := newSession(t, together)
		require.NoError(t, s.UseAdapters(use...))
		running.Go(func() { got[i] = adapted(t, s, 12) })
	}
	running.Wait()
	require.Equal(t, want, got)

	s := newSession(t, together)
	for _, i := range []int{1, 0, 3, 1} {
		require.NoError(t, s.UseAdapters(uses[i]...))
		require.NoError(t, s.Reset())
		require.Equal(t, want[i], adapted(t, s, 12))
	}
	f, err := s.Fork()
	require.NoError(t, err)
	require.Equal(t, s.Adapters(), f.Adapters())
	require.NoError(t, f.Close())
	require.ErrorIs(t, s.UseAdapters("c"), llmrun.ErrNoAdapter)
	require.ErrorIs(t, s.UseAdapters("a:NaN"), llmrun.ErrOptions)
	require.ErrorIs(t, s.UseAdapters("a:3e38", "a:3e38"), llmrun.ErrOptions)
	require.Equal(t, []string{"a"}, s.Adapters())
}

// TestSavedSessionsRememberAdapters saves a session with adapters and opens it again: with them, with others, and in
// engines that lack them or have others of their names.
func TestSavedSessionsRememberAdapters(t *testing.T) {
	dir, a := t.TempDir(), demoAdapter(t, 4)
	engine := func(adapters ...string) *llmrun.Engine {
		return open(t, demoModel, llmrun.Options{Threads: 2, Context: 512, Adapters: adapters, Cache: llmrun.CacheOptions{KVDir: dir}})
	}
	e := engine("a=" + a)
	s, err := e.OpenSession("talk", llmrun.SessionOptions{Adapters: []string{"a"}})
	require.NoError(t, err)
	long := textOf(200)
	first := complete(t, s.GenerateIDs(t.Context(), long, limit(8))).IDs
	require.NoError(t, s.Save(""))
	require.NoError(t, s.Close())
	again := func(e *llmrun.Engine, o llmrun.SessionOptions) (ids []llmrun.Piece, restored int, adapters []string) {
		s, err := e.OpenSession("talk", o)
		require.NoError(t, err)
		defer s.Close()
		ids = adapted(t, s, 8)
		return ids, s.Stats().RestoredTokens, s.Adapters()
	}
	ids, restored, adapters := again(e, llmrun.SessionOptions{})
	require.Positive(t, restored)
	require.Equal(t, []string{"a"}, adapters)
	whole := newSession(t, e)
	require.NoError(t, whole.UseAdapters("a"))
	require.Equal(t, first, complete(t, whole.GenerateIDs(t.Context(), long, limit(8))).IDs)
	require.Equal(t, adapted(t, whole, 8), ids, "the restored session goes on as one that was not saved")

	var notes []string
	_, restored, adapters = again(e, llmrun.SessionOptions{Adapters: []string{}, Notify: func(text string) { notes = append(notes, text) }})
	require.Zero(t, restored)
	require.Empty(t, adapters)
	require.Contains(t, notes, "the session is re-prefilled with other adapters")

	_, err = engine().OpenSession("talk", llmrun.SessionOptions{RePrefill: true})
	require.ErrorIs(t, err, llmrun.ErrNoAdapter)
	require.ErrorContains(t, err, "it was saved with the adapters a")
	other := engine("a=" + demoAdapter(t, 9))
	_, err = other.OpenSession("talk", llmrun.SessionOptions{})
	require.ErrorIs(t, err, llmrun.ErrOtherSettings)
	_, restored, _ = again(other, llmrun.SessionOptions{RePrefill: true})
	require.Zero(t, restored)
}

// TestPrefixCacheKnowsAdapters saves the prefix of a long prompt with an adapter, which serves that adapter only.
func TestPrefixCacheKnowsAdapters(t *testing.T) {
	o := llmrun.Options{Threads: 2, Context: 1024, Adapters: []string{"a=" + demoAdapter(t, 4)}, Cache: llmrun.CacheOptions{KVDir: t.TempDir()}}
	long := textOf(600)
	restored := func(use ...string) int {
		e := open(t, demoModel, o)
		s := newSession(t, e)
		require.NoError(t, s.UseAdapters(use...))
		complete(t, s.GenerateIDs(t.Context(), long, limit(1)))
		require.NoError(t, s.Flush())
		return s.Stats().RestoredTokens
	}
	require.Zero(t, restored("a"))
	require.Zero(t, restored())
	require.Positive(t, restored("a"))
}

// TestRefusedAdapters checks the errors of adapters that contradict each other.
func TestRefusedAdapters(t *testing.T) {
	a := demoAdapter(t, 4)
	for text, o := range map[string]llmrun.Options{
		"two have the name a":                 {Adapters: []string{"a=" + a, "a=" + a}},
		"SessionAdapters: no adapter":         {Adapters: []string{"a=" + a}, SessionAdapters: []string{"b"}},
		"AdaptersBeside needs Adapters":       {Adapters: []string{"a=" + a}, AdaptersBeside: true},
		"it excludes AdaptersBeside and Adap": {Adapters: []string{"a=" + a}, Lab: llmrun.LabOptions{W8A8: &llmrun.W8A8{}}},
	} {
		_, err := llmrun.Open(demoModel, o)
		require.ErrorIs(t, err, llmrun.ErrOptions)
		require.ErrorContains(t, err, text)
	}
	_, err := llmrun.Import(t.Context(), demoModel, t.TempDir()+"/m.pack", llmrun.ImportOptions{Adapters: []string{"a=" + a}})
	require.ErrorContains(t, err, "sessions choose adapters by their names")
}
