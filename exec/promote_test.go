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
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/tiering"
)

// loadMapped loads a pack that the page cache holds, mapped at first; it skips the
// test where the system does not tell what the cache holds.
func loadMapped(t *testing.T, f *modelfile.Files) *Model {
	m := loadPart(t, f, Options{Threads: 2, Chunk: 64, MapFirst: true, Plan: keepAll(t, f)})
	if !m.residency.Mapped {
		t.Skip("the page cache does not hold the file, or the system does not tell")
	}
	return m
}

// settled returns how many sections of a model with weights are mapped and how
// many are not.
func settled(m *Model) (mapped, own int) {
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

// Logits are those of a copy before, while and after weights move, the ledger holds
// what it held, and one pass after another finds fewer of them mapped.
func TestSettlingKeepsLogits(t *testing.T) {
	for _, dir := range fixtureDirs(t) {
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
			all, own := settled(m)
			require.Zero(t, own)
			require.Equal(t, want, allLogits(t, m, ids), "mapped")
			mapped, _ := settled(m)
			require.Equal(t, all, mapped, "nothing moves before the first pass is over")

			// Half of them, as after a pass of a large model.
			for i := 0; i < len(m.residency.Sections); i += 2 {
				moveOne(t, m, i)
			}
			m.residency.Settling = false
			require.Equal(t, want, allLogits(t, m, ids), "half mapped")
			mapped, own = settled(m)
			require.Positive(t, mapped)
			require.Positive(t, own)

			m.residency.Settling = true
			require.Equal(t, want, allLogits(t, m, ids), "moved")
			mapped, own = settled(m)
			require.Zero(t, mapped)
			require.Equal(t, all, own)
			require.Zero(t, m.Budget().Usage().By[tiering.Mapped])
			require.InDelta(t, before, held(), float64(all), "but for the ends of pages")
			require.False(t, m.residency.Settling || m.residency.Mapped)
			require.Equal(t, want, allLogits(t, m, ids))
		})
	}
}

// Plans change while weights move: whatever is mapped or not, logits stay, and all
// that a plan keeps ends in memory of its own.
func TestReplanWhileWeightsMove(t *testing.T) {
	for _, dir := range fixtureDirs(t)[:4] {
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
			mapped, _ := settled(m)
			require.Zero(t, mapped)
		})
	}
}

// Weights that there is no room to move stay mapped, until there
// is; the limit is never passed.
func TestSettlingNeedsRoom(t *testing.T) {
	_, f := packOnDisk(t, fixtureDirs(t)[0])
	tight := loadMapped(t, f)
	ids := longPrompt(tight.Spec.Vocab, 10, 7)
	all, _ := settled(tight)
	want := allLogits(t, tight, ids)
	limit := tight.Budget().Usage().Total
	require.True(t, tight.Budget().TrySetLimit(limit))
	require.Equal(t, want, allLogits(t, tight, ids))
	mapped, _ := settled(tight)
	require.Equal(t, all, mapped)
	require.LessOrEqual(t, tight.Budget().Usage().Total, limit)

	tight.Budget().SetLimit(0)
	require.NoError(t, tight.Replan(context.Background(), keepAll(t, f)))
	require.Equal(t, want, allLogits(t, tight, ids))
	mapped, _ = settled(tight)
	require.Zero(t, mapped)
}

// A budget that has no room for moving loads a copy at once.
func TestTightBudgetLoadsACopy(t *testing.T) {
	_, f := packOnDisk(t, fixtureDirs(t)[0])
	loadMapped(t, f) // or skips
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

// A model that is closed while weights move gives back what it has in either place.
func TestCloseWhileWeightsMove(t *testing.T) {
	defer testutil.NoGoroutinesLeft(t)()
	_, f := packOnDisk(t, fixtureDirs(t)[0])
	m := loadMapped(t, f)
	ids := longPrompt(m.Spec.Vocab, 10, 7)
	allLogits(t, m, ids)
	moveOne(t, m, 0)
	mapped, own := settled(m)
	require.Positive(t, mapped)
	require.Equal(t, 1, own)
	m.Close()
	require.NoError(t, m.Budget().Check())
	require.Zero(t, m.Budget().Usage().Total)
}

// moveOne moves a section, as settle does with those of a large model.
func moveOne(t *testing.T, m *Model, i int) {
	l := &m.residency.Sections[i]
	at := slices.Index(m.frames, l.Frame)
	require.NoError(t, m.residency.Own(l, m.workers))
	m.frames[at] = l.Frame
}

// A file that gets shorter while weights move ends the move; a section that was not
// moved is an error of the pass that needs it, and not the end of the process.
func TestTruncatedWhileWeightsMove(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a mapped file cannot be truncated there")
	}
	path, f := packOnDisk(t, fixtureDirs(t)[0])
	m := loadMapped(t, f)
	ids := longPrompt(m.Spec.Vocab, 30, 7)
	allLogits(t, m, ids)
	all, _ := settled(m)
	used := m.Budget().Usage()
	require.NoError(t, os.Truncate(path, 4096))
	s, err := m.NewSequence(0)
	require.NoError(t, err)
	defer s.Close()
	require.ErrorIs(t, m.Extend(context.Background(), s, ids, &Reader{}), store.ErrTruncated)
	mapped, _ := settled(m)
	require.Equal(t, all, mapped)
	require.False(t, m.residency.Settling)
	require.Equal(t, used.By[tiering.Mapped], m.Budget().Usage().By[tiering.Mapped])
	require.Equal(t, used.By[tiering.Pinned], m.Budget().Usage().By[tiering.Pinned])
}
