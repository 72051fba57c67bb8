package exec

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/store/pack"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// partPlan keeps a random part of each section in memory and streams the rest
// through a small ring.
func partPlan(rng *rand.Rand, layers int) *tiering.Plan {
	plan := &tiering.Plan{Piece: pack.BlockBytes << rng.IntN(2), Pinned: make([]int64, layers)}
	plan.Ring = plan.Piece * int64(4+rng.IntN(5))
	some := func() int64 {
		switch rng.IntN(4) {
		case 0:
			return 0
		case 1:
			return 1 << 40
		}
		return rng.Int64N(6) * pack.BlockBytes
	}
	for i := range plan.Pinned {
		plan.Pinned[i] = some()
	}
	plan.HeadPinned = some()
	plan.StreamedPerToken = 1
	return plan
}

// TestStreamedWeightsGiveTheSameLogits: whatever part of a pack is in memory, the
// logits are those of having all of it there, to the last bit.
func TestStreamedWeightsGiveTheSameLogits(t *testing.T) {
	for _, dir := range fixtureDirs(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			packed := importModel(t, vfs.OS(), dir)
			f, err := Open(packed, "m.pack")
			require.NoError(t, err)
			defer f.Close()
			load := func(o Options) *Model {
				o.Budget = tiering.New(0)
				m, err := Load(context.Background(), f, o)
				require.NoError(t, err)
				t.Cleanup(func() {
					m.Close()
					require.NoError(t, o.Budget.Check())
				})
				return m
			}
			whole := load(Options{Threads: 2, Chunk: 64})
			ids := longPrompt(whole.Spec.Vocab, 70, 7)
			want := allLogits(t, whole, ids)
			for seed := range uint64(4) {
				rng := rand.New(rand.NewPCG(seed, 3))
				plan := partPlan(rng, len(whole.Spec.Layers))
				m := load(Options{Threads: 1 + rng.IntN(3), Chunk: 1 + rng.IntN(70), Plan: plan})
				require.Equal(t, want, allLogits(t, m, ids), "seed %d: %+v", seed, plan)
				require.Equal(t, want, inSteps(t, m, ids), "seed %d: %+v", seed, plan)
			}
		})
	}
}
