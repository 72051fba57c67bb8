package exec

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// TestRestartedReadsWasteLittle counts the bytes that are read again because a page that leaves memory
// starts the reads ahead again: once for each page of decoded tokens, and at most the bytes in the
// ring. The rings hold less than the KV on flash, which each token reads.
func TestRestartedReadsWasteLittle(t *testing.T) {
	dir := longFixture(t, "llama3", 4096, 0)
	for _, ring := range []int{1 << 14, 1 << 16} {
		budget := tiering.New(0)
		m := loadModel(t, vfs.OS(), dir, Options{
			Threads: 1, Chunk: 32, KV: kv.K8V8, Budget: budget, KVHot: 1, KVRing: int64(ring),
			KVSpill: kv.NewScratch(vfs.NewMem(), "kv", budget),
		})
		s, err := m.NewSequence(0)
		require.NoError(t, err)
		require.NoError(t, m.Extend(context.Background(), s, longPrompt(m.Spec.Vocab, 20*kv.BlockTokens, 7), &ExtendOptions{}))
		reads := map[int][]int64{} // bytes of each token, by the pages on flash
		var all, restarts int64
		last := m.KVStats()
		for range 5 * kv.BlockTokens {
			require.NoError(t, m.Extend(context.Background(), s, []int32{5}, &ExtendOptions{}))
			now := m.KVStats()
			if now.ColdPages > last.ColdPages {
				restarts++
			}
			reads[now.ColdPages] = append(reads[now.ColdPages], now.Read-last.Read)
			all, last = all+now.Read-last.Read, now
		}
		again := all
		for _, tokens := range reads { // most tokens restart nothing
			slices.Sort(tokens)
			again -= tokens[len(tokens)/2] * int64(len(tokens))
		}
		t.Logf("ring of %d: %d restarts, %d bytes read, %d of them again: %+.2f %%", ring, restarts, all, again, 100*float64(again)/float64(all))
		require.GreaterOrEqual(t, restarts, int64(4))
		require.Less(t, float64(again), 0.05*float64(all))
		s.Close()
	}
}
