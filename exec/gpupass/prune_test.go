package gpupass

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/internal/testutil"
)

// TestPrunedRowsKeepLogits requests the logits of the last token of a chunk, of none, and
// of random tokens. The last layer computes only the rows whose logits are wanted, and they
// are unchanged.
func TestPrunedRowsKeepLogits(t *testing.T) {
	const chunk = 48 // attention processes at most 32 at a time
	for _, c := range []struct {
		name   string
		layers int
	}{{"llama32", All}, {"llama32", 1}, {"qwen3", All}, {"qwen3", 2}, {"mistral", All}} {
		t.Run(c.name, func(t *testing.T) {
			m := load(t, testutil.Shared(t, "fixtures", c.name), exec.Options{Accelerator: Accelerator{Layers: c.layers}, Chunk: chunk})
			ids := someIDs(4*chunk, m.Spec.Vocab)
			want := teacherForced(t, m, ids)
			random := rand.New(rand.NewPCG(5, 6))
			wanted := make([]bool, len(ids))
			left := 0
			for i := range wanted {
				if wanted[i] = i == chunk-1 || i >= 2*chunk && random.IntN(4) == 0; wanted[i] {
					left++
				}
			}
			require.NotZero(t, left)
			s, err := m.NewSequence(0)
			require.NoError(t, err)
			defer s.Close()
			reader := &exec.ExtendOptions{
				Want: func(pos int) bool { return wanted[pos] },
				Each: func(pos int, logits []float32) error {
					require.True(t, wanted[pos])
					require.Equal(t, want[pos], logits, "position %d", pos)
					left--
					return nil
				},
			}
			for _, part := range forced(ids) {
				require.NoError(t, m.Extend(context.Background(), s, part, reader))
			}
			require.Zero(t, left)
		})
	}
}

// TestPrunedRowsLaunchLess counts the launches of chunks.
func TestPrunedRowsLaunchLess(t *testing.T) {
	m, network := loadSmall(t)
	ids := someIDs(testChunk, m.Spec.Vocab)
	layers := len(m.Spec.Layers)
	for _, c := range []struct {
		name             string
		tokens, launches int
		want             func(pos int) bool
	}{
		{"none of many", testChunk, 8*(layers-1) + 3, func(int) bool { return false }},
		{"the last of many", testChunk, 8*layers + 1, func(pos int) bool { return pos == testChunk-1 }},
		{"one without logits", 1, 5*(layers-1) + 2, func(int) bool { return false }},
		{"one", 1, 5*layers + 1, func(int) bool { return true }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := m.NewSequence(0)
			require.NoError(t, err)
			defer s.Close()
			before := network.context.Stats()
			require.NoError(t, m.Extend(context.Background(), s, ids[:c.tokens], &exec.ExtendOptions{
				Want: c.want, Each: func(int, []float32) error { return nil },
			}))
			require.EqualValues(t, c.launches, network.context.Stats().Since(before).Launches)
		})
	}
}
