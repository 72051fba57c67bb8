package exec

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/internal/modeltest"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// expertDirs returns the fixtures with experts.
func expertDirs(t *testing.T) (dirs []string) {
	for _, dir := range modeltest.FixtureDirs(t) {
		f, err := modelfile.Open(vfs.OS(), dir)
		require.NoError(t, err)
		spec, err := f.Spec()
		require.NoError(t, err)
		require.NoError(t, f.Close())
		if spec.Experts > 0 {
			dirs = append(dirs, dir)
		}
	}
	require.NotEmpty(t, dirs)
	return dirs
}

// expertPlan keeps all weights in memory but experts.
func expertPlan(spec *arch.Spec, slots int) *tiering.Plan {
	plan := &tiering.Plan{Pinned: make([]int64, len(spec.Layers)), HeadPinned: 1 << 40, ExpertSlots: slots, StreamedPerToken: 1}
	for i := range plan.Pinned {
		plan.Pinned[i] = 1 << 40
	}
	return plan
}

// TestExpertsOnFlashGiveTheSameLogits compares logits for expert caches of one slot up to one
// per expert, with every policy and with or without reads of guessed experts.
func TestExpertsOnFlashGiveTheSameLogits(t *testing.T) {
	for _, dir := range expertDirs(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			f := openPack(t, modeltest.ImportModel(t, vfs.OS(), dir))
			whole := loadPart(t, f, Options{Threads: 2, Chunk: 64})
			ids := longPrompt(whole.Spec.Vocab, 70, 7)
			want := allLogits(t, whole, ids)
			all, random := len(whole.Spec.Layers)*whole.Spec.Experts, testutil.Random(t)
			for _, slots := range []int{1, whole.Spec.ExpertsUsed, all - 1, all, 2 + random.IntN(all-2), 2 + random.IntN(all-2)} {
				o := Options{Threads: 1 + random.IntN(3), Chunk: 1 + random.IntN(70), Plan: expertPlan(whole.Spec, slots), Experts: weights.ExpertPolicy(random.IntN(2))}
				m := loadPart(t, f, o)
				m.experts.Trust = float64(random.IntN(2)) // whether guessed experts are read
				require.Equal(t, want, allLogits(t, m, ids), "%d slots, %+v", slots, o)
				require.Equal(t, want, inSteps(t, m, ids), "%d slots, %+v", slots, o)
				stats := m.ExpertStats()
				require.Equal(t, slots, stats.Slots)
				require.LessOrEqual(t, stats.Hits+stats.Early, stats.Used)
				if slots == all {
					require.Equal(t, stats.Used, stats.Hits, "all experts were read at load")
				} else {
					require.Less(t, stats.Hits, stats.Used)
				}
				require.Equal(t, int64(slots*m.experts.SlotBytes)+rowBytesCached(m), m.Budget().Usage().By[tiering.Cached])
			}
		})
	}
}

// TestExpertsAllocateNothing decodes with slots for half of the experts.
func TestExpertsAllocateNothing(t *testing.T) {
	for _, dir := range expertDirs(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			f := openPack(t, modeltest.ImportModel(t, vfs.OS(), dir))
			spec := packSpec(t, f)
			m := loadPart(t, f, Options{Threads: 2, Plan: expertPlan(spec, len(spec.Layers)*spec.Experts/2)})
			m.experts.Trust = 1
			requireNoAllocs(t, m)
		})
	}
}

// expertPack returns a pack with experts on a file system that can fail, and the hook that makes
// its operations fail.
func expertPack(t *testing.T) (f *modelfile.Files, fault *atomic.Pointer[func(vfs.Op) error]) {
	fault = new(atomic.Pointer[func(vfs.Op) error])
	f = openPack(t, vfs.NewFaulty(modeltest.ImportModel(t, vfs.OS(), expertDirs(t)[0]), func(op vfs.Op) error {
		if decide := fault.Load(); decide != nil && op.Kind == vfs.OpRead {
			return (*decide)(op)
		}
		return nil
	}))
	return f, fault
}

// TestFailedExpertReads makes read k fail, for every k: the request ends with an error that
// names the file and offset, and the next request gives the right logits.
func TestFailedExpertReads(t *testing.T) {
	f, fault := expertPack(t)
	spec := packSpec(t, f)
	ids := longPrompt(spec.Vocab, 12, 7)
	want := allLogits(t, loadPart(t, f, Options{Threads: 2}), ids)
	broken := errors.New("a bad sector")
	m := loadPart(t, f, Options{Threads: 2, Chunk: 5, Plan: expertPlan(spec, 5)})
	failures := 0
	for k := int64(0); ; k += 1 + k/8 {
		s, err := m.NewSequence(0)
		require.NoError(t, err)
		m.experts.Trust = float64(k % 2)
		var reads atomic.Int64
		decide := func(vfs.Op) error {
			if reads.Add(1)-1 == k {
				return broken
			}
			return nil
		}
		fault.Store(&decide)
		err = m.Extend(context.Background(), s, ids, &ExtendOptions{})
		fault.Store(nil)
		s.Close()
		if err != nil {
			failures++
			require.ErrorIs(t, err, broken)
			require.ErrorContains(t, err, "m.pack")
			require.ErrorContains(t, err, "at offset")
		}
		require.Equal(t, want, allLogits(t, m, ids), "after read %d failed", k)
		if reads.Load() < k {
			break
		}
	}
	require.Greater(t, failures, 5)
}

// TestCancelledExpertReads cancels a request while the disk does not respond. The request ends
// at once, and the pending reads are dropped.
func TestCancelledExpertReads(t *testing.T) {
	f, fault := expertPack(t)
	spec := packSpec(t, f)
	ids := longPrompt(spec.Vocab, 12, 7)
	m := loadPart(t, f, Options{Threads: 2, Plan: expertPlan(spec, 7)})
	want := allLogits(t, m, ids)
	rows, ok := f.Packed().Tensor("token_embd.weight")
	require.True(t, ok)
	for range 5 {
		ctx, cancel := context.WithCancel(context.Background())
		answer := make(chan struct{})
		hang := func(op vfs.Op) error {
			if op.Offset < rows.Offset+rows.Size {
				return nil // a read of the embedding, the first in the file
			}
			cancel()
			<-answer
			return nil
		}
		fault.Store(&hang)
		s, err := m.NewSequence(0)
		require.NoError(t, err)
		require.ErrorIs(t, m.Extend(ctx, s, ids, &ExtendOptions{}), context.Canceled)
		require.Zero(t, s.Len())
		s.Close()
		fault.Store(nil)
		close(answer)
		require.Equal(t, want, allLogits(t, m, ids))
	}
}

// TestTruncatedExperts truncates the pack while the model is in use.
func TestTruncatedExperts(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "m.pack")
	from, err := modelfile.Open(vfs.OS(), expertDirs(t)[0])
	require.NoError(t, err)
	require.NoError(t, weights.Import(context.Background(), from, vfs.OS(), path, weights.ImportOptions{Made: "test"}))
	require.NoError(t, from.Close())
	f, err := modelfile.Open(vfs.OS(), path)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	m := loadPart(t, f, Options{Threads: 2, Plan: expertPlan(packSpec(t, f), 4)})
	defer m.Close()                                    // runs before the files close
	rows, ok := f.Packed().Tensor("token_embd.weight") // stays in the truncated file
	require.True(t, ok)
	require.NoError(t, os.Truncate(path, rows.Offset+rows.Size))
	s, err := m.NewSequence(0)
	require.NoError(t, err)
	defer s.Close()
	err = m.Extend(context.Background(), s, []int32{1, 2, 3}, &ExtendOptions{})
	require.ErrorIs(t, err, store.ErrTruncated)
	require.ErrorContains(t, err, path)
	require.ErrorContains(t, err, ".expert.")
}

// TestFewerSlotsKeepTheBestExperts removes slots: the most used experts stay.
func TestFewerSlotsKeepTheBestExperts(t *testing.T) {
	f, _ := expertPack(t)
	spec := packSpec(t, f)
	m := loadPart(t, f, Options{Threads: 2, Plan: expertPlan(spec, len(spec.Layers)*spec.Experts)})
	s, err := m.NewSequence(0)
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, m.Extend(context.Background(), s, longPrompt(spec.Vocab, 50, 7), &ExtendOptions{}))
	kept := len(spec.Layers) * spec.Experts / 3
	require.NoError(t, m.Replan(context.Background(), expertPlan(spec, kept)))
	c := m.experts
	least, most := 1e300, 0.0 // least value of the experts that stay, greatest of the others
	count := 0
	for id, at := range c.SlotOf {
		if at >= 0 {
			least = min(least, c.Policy.Value(id))
			count++
		} else {
			most = max(most, c.Policy.Value(id))
		}
	}
	require.Equal(t, kept, count)
	require.GreaterOrEqual(t, least, most)
	require.Equal(t, int64(kept*c.SlotBytes)+rowBytesCached(m), m.Budget().Usage().By[tiering.Cached])
}
