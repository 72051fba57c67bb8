package exec

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/internal/modeltest"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/store/pack"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// partPlan returns a plan that keeps a random part of each section in memory and streams the
// rest through a small ring. It has slots for some experts, sometimes for one.
func partPlan(rng *rand.Rand, spec *arch.Spec) *tiering.Plan {
	plan := &tiering.Plan{Piece: pack.BlockBytes << rng.IntN(2), Pinned: make([]int64, len(spec.Layers))}
	plan.ExpertSlots = 1 + rng.IntN(len(spec.Layers)*spec.Experts+1)>>rng.IntN(3)
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
	plan.Lookup = rng.Int64N(1 << 20)
	plan.StreamedPerToken = 1
	return plan
}

// loadPart loads from a pack and checks at the end that all memory was freed.
func loadPart(t *testing.T, f *modelfile.Files, o Options) *Model {
	o.Budget = tiering.New(0)
	m, err := Load(context.Background(), f, o)
	require.NoError(t, err)
	t.Cleanup(func() {
		m.Close()
		require.NoError(t, o.Budget.Check())
	})
	return m
}

func packSpec(t *testing.T, f *modelfile.Files) *arch.Spec {
	spec, err := f.Spec()
	require.NoError(t, err)
	return spec
}

func openPack(t *testing.T, fsys vfs.FS) *modelfile.Files {
	f, err := modelfile.Open(fsys, "m.pack")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f
}

// TestStreamedWeightsGiveTheSameLogits compares models that stream a random part of a pack with
// the all-resident model, to the last bit.
func TestStreamedWeightsGiveTheSameLogits(t *testing.T) {
	for _, dir := range modeltest.FixtureDirs(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			f := openPack(t, modeltest.ImportModel(t, vfs.OS(), dir))
			whole := loadPart(t, f, Options{Threads: 2, Chunk: 64})
			ids := longPrompt(whole.Spec.Vocab, 70, 7)
			want := allLogits(t, whole, ids)
			for seed := range uint64(4) {
				rng := rand.New(rand.NewPCG(seed, 3))
				plan := partPlan(rng, whole.Spec)
				m := loadPart(t, f, Options{Threads: 1 + rng.IntN(3), Chunk: 1 + rng.IntN(70), Plan: plan})
				require.Equal(t, want, allLogits(t, m, ids), "seed %d: %+v", seed, plan)
				for i, l := range m.residency.Sections {
					pinned := append(plan.Pinned, plan.HeadPinned)[i]
					require.LessOrEqual(t, int64(l.Size), min(pinned, int64(l.SectionSize))+int64(m.residency.MaxUnit), "section %s", l.Name)
				}
				require.Equal(t, want, inSteps(t, m, ids), "seed %d: %+v", seed, plan)
			}
		})
	}
}

// TestReplanWhileGenerating applies new plans again and again while another goroutine computes
// tokens: the logits stay the same, and the memory is as planned.
func TestReplanWhileGenerating(t *testing.T) {
	for _, dir := range modeltest.FixtureDirs(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			f := openPack(t, modeltest.ImportModel(t, vfs.OS(), dir))
			m := loadPart(t, f, Options{Threads: 2, Chunk: 16, Plan: partPlan(rand.New(rand.NewPCG(1, 1)), packSpec(t, f))})
			ids := longPrompt(m.Spec.Vocab, 60, 7)
			want := allLogits(t, m, ids)
			stop, done := make(chan struct{}), make(chan error)
			go func() {
				rng := rand.New(rand.NewPCG(2, 2))
				for {
					select {
					case <-stop:
						done <- nil
						return
					default:
					}
					plan := partPlan(rng, m.Spec)
					if err := m.Replan(context.Background(), plan); err != nil {
						done <- err
						return
					}
				}
			}()
			for range 5 {
				require.Equal(t, want, inSteps(t, m, ids))
			}
			close(stop)
			require.NoError(t, <-done)

			all := &tiering.Plan{Pinned: make([]int64, len(m.Spec.Layers)), HeadPinned: 1 << 40, ExpertSlots: 1 << 30}
			for i := range all.Pinned {
				all.Pinned[i] = 1 << 40
			}
			require.NoError(t, m.Replan(context.Background(), all))
			require.Zero(t, m.Budget().Usage().By[tiering.Ring])
			most := m.Budget().Usage().By[tiering.Pinned]
			none := &tiering.Plan{Pinned: make([]int64, len(m.Spec.Layers)), Piece: 1 << 16, Ring: 8 << 16, ExpertSlots: 1}
			require.NoError(t, m.Replan(context.Background(), none))
			require.Less(t, m.Budget().Usage().By[tiering.Pinned], most)
			require.Equal(t, want, allLogits(t, m, ids))
		})
	}
}

// TestARefusedRingIsNotRequired applies a plan whose ring the budget does not hold, and then one after which only the
// smallest ring fits: the model streams through what it gets, and the logits stay the same.
func TestARefusedRingIsNotRequired(t *testing.T) {
	f := openPack(t, modeltest.ImportModel(t, vfs.OS(), testutil.Shared(t, "fixtures", "llama3")))
	plan := &tiering.Plan{Pinned: make([]int64, len(packSpec(t, f).Layers)), Piece: 1 << 18, Ring: 8 << 18, ExpertSlots: 1, StreamedPerToken: 1}
	m := loadPart(t, f, Options{Threads: 1, Chunk: 16, Plan: plan})
	ids := longPrompt(m.Spec.Vocab, 30, 7)
	want := allLogits(t, m, ids)
	large := *plan
	large.Ring = 64 << 18
	m.Budget().SetLimit(m.Budget().Usage().Total + 1<<19)
	require.ErrorIs(t, m.Replan(t.Context(), &large), tiering.ErrBudget)
	require.Equal(t, want, allLogits(t, m, ids), "with the ring of the plan before")
	ring := m.Budget().Usage().By[tiering.Ring]
	require.Less(t, ring, int64(16<<18))

	m.residency.Stop()
	m.Budget().SetLimit(m.Budget().Usage().Total + 1<<20)
	require.ErrorIs(t, m.residency.Restart(&large, plan), tiering.ErrBudget)
	require.Equal(t, want, allLogits(t, m, ids), "with the smallest ring")
	require.Less(t, m.Budget().Usage().By[tiering.Ring], ring)
	m.Budget().SetLimit(0)
	require.NoError(t, m.Replan(t.Context(), &large))
	require.Equal(t, want, allLogits(t, m, ids))
}

// TestAFailedReplanLeavesTheRing raises the budget for a plan with a larger ring and more weights in memory, and makes each
// request for memory of the change fail in turn. Afterwards the budget is the old one again, as after a refused
// SetBudget: the ring is the one from before, no later pass needs the other, and the logits stay the same.
func TestAFailedReplanLeavesTheRing(t *testing.T) {
	f := openPack(t, modeltest.ImportModel(t, vfs.OS(), testutil.Shared(t, "fixtures", "llama3")))
	plan := &tiering.Plan{Pinned: make([]int64, len(packSpec(t, f).Layers)), Piece: 1 << 17, Ring: 4 << 17, Chunk: 16, ExpertSlots: 1, StreamedPerToken: 1}
	m := loadPart(t, f, Options{Threads: 1, Chunk: 16, Plan: plan})
	ids := longPrompt(m.Spec.Vocab, 20, 7)
	want := allLogits(t, m, ids)
	large := *plan
	large.Pinned = []int64{1 << 40} // the first layer
	large.Pinned = append(large.Pinned, plan.Pinned[1:]...)
	large.Ring, large.Chunk = 16<<17, 32
	budget := m.Budget()
	usage := budget.Usage()
	for nth := int64(1); ; nth++ {
		var requests atomic.Int64
		before := tiering.SetFaults(func(r tiering.Request) bool { return r.Budget == budget && requests.Add(1) == nth })
		budget.SetLimit(usage.Total + 64<<20)
		err := m.Replan(t.Context(), &large)
		tiering.SetFaults(before)
		budget.SetLimit(usage.Total)
		if requests.Load() < nth {
			require.NoError(t, err)
			require.Greater(t, nth, int64(4), "requests of a change")
			return
		}
		if err != nil {
			require.LessOrEqual(t, budget.Usage().By[tiering.Ring], usage.By[tiering.Ring], "request %d", nth)
		}
		require.Equal(t, want, allLogits(t, m, ids), "request %d", nth)
		require.NoError(t, m.Replan(t.Context(), plan), "request %d", nth)
		require.LessOrEqual(t, budget.Usage().Total, usage.Total, "request %d", nth)
	}
}
