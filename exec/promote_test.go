package exec

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/internal/modeltest"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/tiering"
)

// loadMapped loads a pack that the page cache holds, so that its weights are mapped first. It
// skips the test on systems that do not report the page cache.
func loadMapped(t *testing.T, f *modelfile.Files) *Model {
	m := loadPart(t, f, Options{Threads: 2, Chunk: 64, MapFirst: true, Plan: keepAll(t, f)})
	if !m.residency.Mapped {
		t.Skip("the page cache does not hold the file, or the system does not report it")
	}
	return m
}

// countMapped returns how many sections with weights are mapped and how many are not.
func countMapped(m *Model) (mapped, own int) {
	for i := range m.residency.Sections {
		switch l := &m.residency.Sections[i]; {
		case l.Mapped:
			mapped++
		case l.Frame != nil:
			own++
		}
	}
	return mapped, own
}

// TestPromotionKeepsLogits compares the logits before, during and after the promotion of
// weights. The ledger's total stays the same, and each pass maps fewer sections.
func TestPromotionKeepsLogits(t *testing.T) {
	for _, dir := range modeltest.FixtureDirs(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			_, f := packOnDisk(t, dir)
			whole := loadPart(t, f, Options{Threads: 2, Chunk: 64})
			ids := longPrompt(whole.Spec.Vocab, 20, 7)
			want := allLogits(t, whole, ids)
			m := loadMapped(t, f)
			held := func() int64 {
				u := m.Budget().Usage()
				return (u.By[tiering.Mapped] + u.By[tiering.Pinned]) / int64(os.Getpagesize())
			}
			before := held()
			all, own := countMapped(m)
			require.Zero(t, own)
			require.Equal(t, want, allLogits(t, m, ids), "mapped")
			mapped, _ := countMapped(m)
			require.Equal(t, all, mapped, "no section moves before the first pass is complete")

			// Half of the sections, as after a pass of a large model.
			for i := 0; i < len(m.residency.Sections); i += 2 {
				moveOne(t, m, i)
			}
			m.residency.Promoting = false
			require.Equal(t, want, allLogits(t, m, ids), "half mapped")
			mapped, own = countMapped(m)
			require.Positive(t, mapped)
			require.Positive(t, own)

			m.residency.Promoting = true
			require.Equal(t, want, allLogits(t, m, ids), "moved")
			mapped, own = countMapped(m)
			require.Zero(t, mapped)
			require.Equal(t, all, own)
			require.Zero(t, m.Budget().Usage().By[tiering.Mapped])
			require.InDelta(t, before, held(), float64(all), "up to the padding of pages")
			require.False(t, m.residency.Promoting || m.residency.Mapped)
			require.Equal(t, want, allLogits(t, m, ids))
		})
	}
}

// TestReplanDuringPromotion changes plans while weights move: the logits stay the same, and all
// pinned bytes end in anonymous memory.
func TestReplanDuringPromotion(t *testing.T) {
	for _, dir := range modeltest.FixtureDirs(t)[:4] {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			_, f := packOnDisk(t, dir)
			whole := loadPart(t, f, Options{Threads: 2, Chunk: 64})
			ids := longPrompt(whole.Spec.Vocab, 30, 7)
			want := allLogits(t, whole, ids)
			rng := rand.New(rand.NewPCG(4, 9))
			m := loadMapped(t, f)
			for range 4 {
				require.NoError(t, m.Replan(context.Background(), partPlan(rng, whole.Spec)))
				require.Equal(t, want, allLogits(t, m, ids))
			}
			require.NoError(t, m.Replan(context.Background(), keepAll(t, f)))
			require.Equal(t, want, allLogits(t, m, ids))
			mapped, _ := countMapped(m)
			require.Zero(t, mapped)
		})
	}
}

// TestPromotionNeedsRoom leaves weights mapped until the budget has room for them; usage never
// exceeds the limit.
func TestPromotionNeedsRoom(t *testing.T) {
	_, f := packOnDisk(t, modeltest.FixtureDirs(t)[0])
	tight := loadMapped(t, f)
	ids := longPrompt(tight.Spec.Vocab, 10, 7)
	all, _ := countMapped(tight)
	want := allLogits(t, tight, ids)
	limit := tight.Budget().Usage().Total
	require.True(t, tight.Budget().TrySetLimit(limit))
	require.Equal(t, want, allLogits(t, tight, ids))
	mapped, _ := countMapped(tight)
	require.Equal(t, all, mapped)
	require.LessOrEqual(t, tight.Budget().Usage().Total, limit)

	tight.Budget().SetLimit(0)
	require.NoError(t, tight.Replan(context.Background(), keepAll(t, f)))
	require.Equal(t, want, allLogits(t, tight, ids))
	mapped, _ = countMapped(tight)
	require.Zero(t, mapped)
}

// TestTightBudgetLoadsACopy: with a budget too small for promotion, loading copies the weights
// at once.
func TestTightBudgetLoadsACopy(t *testing.T) {
	_, f := packOnDisk(t, modeltest.FixtureDirs(t)[0])
	loadMapped(t, f) // skips if mapping is not possible
	plan := keepAll(t, f)
	plan.By[tiering.Pinned] = 1 << 30
	for _, c := range []struct {
		room   int64
		mapped bool
	}{{tiering.PromoteNeeds() - 1, false}, {tiering.PromoteNeeds(), true}} {
		budget := tiering.New(1<<30 + c.room)
		m, err := Load(context.Background(), f, Options{Threads: 2, Chunk: 64, MapFirst: true, Plan: plan, Budget: budget})
		require.NoError(t, err)
		require.Equal(t, c.mapped, m.residency.Mapped, "%d bytes of room", c.room)
		m.Close()
		require.NoError(t, budget.Check())
	}
}

// TestCloseDuringPromotion closes a model while weights move: all memory is freed.
func TestCloseDuringPromotion(t *testing.T) {
	t.Cleanup(testutil.NoGoroutinesLeft(t)) // runs after the model is closed, also where the test is skipped
	_, f := packOnDisk(t, modeltest.FixtureDirs(t)[0])
	m := loadMapped(t, f)
	ids := longPrompt(m.Spec.Vocab, 10, 7)
	allLogits(t, m, ids)
	moveOne(t, m, 0)
	mapped, own := countMapped(m)
	require.Positive(t, mapped)
	require.Equal(t, 1, own)
	m.Close()
	require.NoError(t, m.Budget().Check())
	require.Zero(t, m.Budget().Usage().Total)
}

// moveOne promotes one section, as a pass does with a large model.
func moveOne(t *testing.T, m *Model, i int) {
	l := &m.residency.Sections[i]
	at := slices.Index(m.frames, l.Frame)
	require.NoError(t, m.residency.Promote(l, m.workers))
	m.frames[at] = l.Frame
}

// TestTruncateDuringPromotion truncates the file while weights move: the promotion ends, and a
// pass that needs a missing section returns an error instead of crashing the process.
func TestTruncateDuringPromotion(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a mapped file cannot be truncated there")
	}
	path, f := packOnDisk(t, modeltest.FixtureDirs(t)[0])
	m := loadMapped(t, f)
	ids := longPrompt(m.Spec.Vocab, 30, 7)
	allLogits(t, m, ids)
	all, _ := countMapped(m)
	used := m.Budget().Usage()
	require.NoError(t, os.Truncate(path, 4096))
	s, err := m.NewSequence(0)
	require.NoError(t, err)
	defer s.Close()
	require.ErrorIs(t, m.Extend(context.Background(), s, ids, &ExtendOptions{}), store.ErrTruncated)
	mapped, _ := countMapped(m)
	require.Equal(t, all, mapped)
	require.False(t, m.residency.Promoting)
	require.Equal(t, used.By[tiering.Mapped], m.Budget().Usage().By[tiering.Mapped])
	require.Equal(t, used.By[tiering.Pinned], m.Budget().Usage().By[tiering.Pinned])
}
