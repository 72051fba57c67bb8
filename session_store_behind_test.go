package llmrun_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
)

// TestPrefixesSavedBehindAreFound uses prefixes while they are being saved, or right after their
// session was closed: a session of the same engine and one of another engine find all of them.
func TestPrefixesSavedBehindAreFound(t *testing.T) {
	model, dir := longTextModel(t), t.TempDir()
	o := llmrun.Options{Notify: func(text string) { t.Error(text) }, Cache: llmrun.CacheOptions{KVDir: dir}, Lab: llmrun.LabOptions{Disk: llmrun.DiskSpeed{BytesPerSecond: 200 << 20}}}
	e := open(t, model, o)
	generate := func(s *llmrun.Session, prompt []int32) {
		complete(t, s.GenerateIDs(context.Background(), prompt, drawn(1)))
	}
	first, second := newSession(t, e), newSession(t, e)
	generate(first, document(700))
	generate(second, document(701))
	require.Equal(t, 640, second.Stats().ReusedTokens, "the other session has them in memory")
	require.NoError(t, first.Flush())
	require.Positive(t, first.Stats().SavedBytes)
	require.NoError(t, second.Flush())
	require.Zero(t, second.Stats().SavedBytes, "it is already saved")

	third, other := newSession(t, e), document(900)
	other[0]++
	generate(third, other)
	require.NoError(t, third.Close())
	require.ErrorIs(t, third.Flush(), llmrun.ErrClosed)
	again := newSession(t, open(t, model, o))
	generate(again, other)
	require.Equal(t, 896, again.Stats().RestoredTokens)
}

// TestSessionIsSavedBehind continues a session that is saved after each answer: Flush and Close
// return when it is saved, with its last answer. A save that fails keeps the saved version, and its
// error is returned by the next Flush, Save or Close.
func TestSessionIsSavedBehind(t *testing.T) {
	model, dir := longTextModel(t), t.TempDir()
	o := llmrun.Options{Cache: llmrun.CacheOptions{KVDir: dir}}
	behind := llmrun.SessionOptions{SaveBehind: true}
	e := open(t, model, o)
	answer := func(s *llmrun.Session, prompt []int32) []int32 {
		return complete(t, s.GenerateIDs(context.Background(), prompt, drawn(4))).IDs
	}
	alone := newSession(t, open(t, model, llmrun.Options{}))
	prompts := [][]int32{document(200), {50}, {51}, {52}}
	var want [][]int32
	for _, prompt := range prompts {
		want = append(want, answer(alone, prompt))
	}

	s := openSession(t, e, "talk", behind)
	require.Equal(t, want[0], answer(s, prompts[0]))
	require.NoError(t, s.Flush())
	require.Positive(t, s.Stats().SavedBytes)
	shown, err := llmrun.ShowSession(dir, "talk")
	require.NoError(t, err)
	require.Equal(t, s.Len(), shown.Tokens)
	require.Equal(t, want[1], answer(s, prompts[1]))
	tokens := s.Len()
	require.NoError(t, s.Close())
	_, err = llmrun.VerifySession(dir, "talk")
	require.NoError(t, err)

	s = openSession(t, e, "talk", behind)
	require.Equal(t, tokens, s.Len())
	sessions, away := filepath.Join(dir, "sessions"), filepath.Join(dir, "away")
	require.NoError(t, os.Rename(sessions, away))
	require.NoError(t, os.WriteFile(sessions, nil, 0o600)) // no session can be saved
	require.Equal(t, want[2], answer(s, prompts[2]))
	require.Error(t, s.Flush())
	require.NoError(t, s.Flush(), "an error is returned once")
	require.Equal(t, want[3], answer(s, prompts[3]))
	require.NoError(t, os.Remove(sessions))
	require.NoError(t, os.Rename(away, sessions))
	require.NoError(t, s.Save(""), "it repairs what failed")
	require.NoError(t, s.Close())
	s = openSession(t, e, "talk", llmrun.SessionOptions{})
	require.Equal(t, tokens+10, s.Len())
}
