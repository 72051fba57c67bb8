package llmrun_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/store/synth"
)

// TestInterruptedPromptResumes checks that the processed part of an interrupted prompt is
// saved, and that another process continues from there.
func TestInterruptedPromptResumes(t *testing.T) {
	model := longTextModel(t)
	dir := t.TempDir()
	doc := document(1100)
	want := ids(t, newSession(t, open(t, model, llmrun.Options{})), doc, 8)
	o := llmrun.Options{Notify: func(text string) { t.Error(text) }, Cache: llmrun.CacheOptions{KVDir: dir}, Memory: llmrun.MemoryOptions{Chunk: 64}}

	ctx, cancel := context.WithCancel(context.Background())
	options := drawn(8)
	options.OnPrefill = func(done, _ int) {
		if done >= 900 {
			cancel()
		}
	}
	e := open(t, model, o)
	s := newSession(t, e)
	for _, err := range s.GenerateIDs(ctx, doc, options) {
		require.ErrorIs(t, err, context.Canceled)
	}
	require.Zero(t, s.Len(), "the session did not change")
	require.NoError(t, s.Flush())
	require.Positive(t, s.Stats().SavedBytes)
	require.NoError(t, e.Close())

	s = newSession(t, open(t, model, o))
	require.Equal(t, want, ids(t, s, doc, 8))
	require.Equal(t, 960, s.Stats().RestoredTokens, "the interrupted chunk was completed")
}

// TestLongPromptIsSavedDuringPrefill checks that a long prompt is saved segment by segment
// during prefill, each segment once.
func TestLongPromptIsSavedDuringPrefill(t *testing.T) {
	if portable() && testing.Short() {
		t.Skip("saving does not depend on kernels; the test takes 5000 tokens")
	}
	shape, ok := synth.FindShape("tiny")
	require.True(t, ok)
	shape.Vocab, shape.Context = 1024, 8192
	dir := t.TempDir()
	options := drawn(1)
	var before, after int
	options.OnPrefill = func(done, _ int) {
		if done <= 4096 {
			before = len(kvFiles(t, dir))
		} else {
			testutil.Eventually(t, "four segments are saved", func() bool { return len(kvFiles(t, dir)) == 4 })
			after = done
		}
	}
	e := open(t, writeShape(t, shape, "f16"), llmrun.Options{Cache: llmrun.CacheOptions{KVDir: dir}})
	s := newSession(t, e)
	for _, err := range s.GenerateIDs(context.Background(), document(5000), options) {
		require.NoError(t, err)
	}
	require.Zero(t, before)
	require.Positive(t, after)
	require.NoError(t, s.Flush())
	require.Len(t, kvFiles(t, dir), 5)
}
