package exec

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// TestFilledContext fills a context with made-up KV, partly on flash, with early
// and late reads: the logits after it equal those with all KV in memory.
func TestFilledContext(t *testing.T) {
	ctx := context.Background()
	dir := longFixture(t, "gemma3", 2048, 200)
	behind := func(late bool, hot int64) ([][]float32, KVStats) {
		budget, disk := tiering.New(0), vfs.OS()
		if late {
			disk = vfs.Throttled(disk, 0, time.Millisecond) // files in memory are read without a wait
		}
		m := openFixture(t, dir, "config.json", Options{
			Threads: 2, KV: kv.K8V8, Budget: budget, KVHot: hot, KVSpill: kv.NewScratch(disk, t.TempDir(), budget),
		})
		s, err := m.NewSequence(0)
		require.NoError(t, err)
		defer s.Close()
		m.ReadKVLate(late)
		require.NoError(t, m.Fill(ctx, s, 70))
		require.NoError(t, m.Fill(ctx, s, 1000))
		require.NoError(t, m.Fill(ctx, s, 10), "a longer sequence stays unchanged")
		require.Equal(t, 1000, s.Len())
		var all [][]float32
		for _, id := range longPrompt(m.Spec.Vocab, 6, 1) {
			all = append(all, extendAll(t, m, s, []int32{id})...)
		}
		require.ErrorIs(t, m.Fill(ctx, s, 2049), ErrContextFull)
		stopped, cancel := context.WithCancel(ctx)
		cancel()
		require.ErrorIs(t, m.Fill(stopped, s, 1500), context.Canceled)
		return all, m.KVStats()
	}
	want, stats := behind(false, 0)
	require.Zero(t, stats.Read)
	got, stats := behind(false, 1)
	require.Equal(t, want, got)
	require.Positive(t, stats.Read)
	got, stats = behind(true, 1)
	require.Equal(t, want, got)
	require.Positive(t, stats.Stalls, "a read that begins when it is needed is waited for")
}
