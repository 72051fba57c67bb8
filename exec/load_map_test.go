package exec

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/internal/modeltest"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// packOnDisk imports a model into a real file, which mappings need.
func packOnDisk(t *testing.T, dir string) (path string, f *modelfile.Files) {
	source, err := modelfile.Open(vfs.OS(), dir)
	require.NoError(t, err)
	defer source.Close()
	path = filepath.Join(t.TempDir(), "m.pack")
	require.NoError(t, weights.Import(context.Background(), source, vfs.OS(), path, weights.ImportOptions{}))
	f, err = modelfile.Open(vfs.OS(), path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return path, f
}

// keepAll returns a plan that keeps all weights in memory.
func keepAll(t *testing.T, f *modelfile.Files) *tiering.Plan {
	spec, err := f.Spec()
	require.NoError(t, err)
	plan := &tiering.Plan{Pinned: make([]int64, len(spec.Layers)), HeadPinned: 1 << 40, ExpertSlots: len(spec.Layers) * spec.Experts}
	for i := range plan.Pinned {
		plan.Pinned[i] = 1 << 40
	}
	return plan
}

// TestMappedWeightsGiveTheSameLogits compares weights that are mapped from the file with copied
// weights, for random plans.
func TestMappedWeightsGiveTheSameLogits(t *testing.T) {
	for _, dir := range modeltest.FixtureDirs(t)[:4] {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			_, f := packOnDisk(t, dir)
			whole := loadPart(t, f, Options{Threads: 2, Chunk: 64})
			ids := longPrompt(whole.Spec.Vocab, 50, 7)
			want := allLogits(t, whole, ids)
			rng := rand.New(rand.NewPCG(4, 4))
			m := loadPart(t, f, Options{Threads: 2, Chunk: 64, PinFile: true, Plan: partPlan(rng, whole.Spec)})
			for range 4 {
				require.Equal(t, want, allLogits(t, m, ids))
				require.Equal(t, m.Budget().Usage().By[tiering.Mapped] > 0, keepsAny(m))
				require.NoError(t, m.Replan(context.Background(), partPlan(rng, whole.Spec)))
			}
		})
	}
}

// keepsAny reports whether any section has bytes in memory.
func keepsAny(m *Model) bool {
	for _, l := range m.residency.Sections {
		if l.Size > 0 {
			return true
		}
	}
	return false
}

// TestTruncatedMappingIsAnError truncates a mapped file: the request ends with an error instead
// of a crash.
func TestTruncatedMappingIsAnError(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a mapped file cannot be truncated there")
	}
	path, f := packOnDisk(t, modeltest.FixtureDirs(t)[0])
	_, other := packOnDisk(t, modeltest.FixtureDirs(t)[0])
	plan := keepAll(t, f)
	m := loadPart(t, f, Options{Threads: 2, Chunk: 64, PinFile: true, Plan: plan})
	safe := loadPart(t, other, Options{Threads: 2, Chunk: 64, PinFile: true, Plan: plan})
	ids := longPrompt(m.Spec.Vocab, 30, 7)
	want := allLogits(t, m, ids)
	require.NoError(t, os.Truncate(path, 4096))
	s, err := m.NewSequence(0)
	require.NoError(t, err)
	defer s.Close()
	err = m.Extend(context.Background(), s, ids, &ExtendOptions{})
	require.ErrorIs(t, err, store.ErrTruncated)
	var truncated *store.FormatError
	require.ErrorAs(t, err, &truncated)
	require.Equal(t, path, truncated.Path)
	require.GreaterOrEqual(t, truncated.Off, int64(4096))
	require.Equal(t, want, allLogits(t, safe, ids), "another model is not affected")
}

// TestPassAfterAFault faults a pass at different points: the next pass gives the right
// logits.
func TestPassAfterAFault(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a mapped file cannot be truncated there")
	}
	path, f := packOnDisk(t, modeltest.Fixture(t, "qwen2"))
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	m := loadPart(t, f, Options{Threads: 2, Chunk: 64, PinFile: true, Plan: keepAll(t, f)})
	ids := longPrompt(m.Spec.Vocab, 30, 7)
	want := allLogits(t, m, ids)
	faults := 0
	for k := range 12 {
		s, err := m.NewSequence(0)
		require.NoError(t, err)
		require.NoError(t, os.Truncate(path, int64(len(data)*k/12)))
		if err := m.Extend(t.Context(), s, ids, &ExtendOptions{}); err != nil {
			require.ErrorIs(t, err, store.ErrTruncated)
			faults++
		}
		s.Close()
		file, err := os.OpenFile(path, os.O_WRONLY, 0)
		require.NoError(t, err)
		_, err = file.WriteAt(data, 0)
		require.NoError(t, err)
		require.NoError(t, file.Close())
		require.Equal(t, want, allLogits(t, m, ids), "cut at %d of 12", k)
	}
	require.Positive(t, faults)
}

// TestDamagedMappingIsRefused damages a block: loading detects it before a kernel reads it.
func TestDamagedMappingIsRefused(t *testing.T) {
	path, f := packOnDisk(t, modeltest.FixtureDirs(t)[0])
	at, ok := f.Packed().Find("blk.0.attn_q.weight")
	require.True(t, ok)
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	defer file.Close()
	tensor, _ := f.Packed().Tensor(at.Name)
	_, err = file.WriteAt([]byte{0xAA, 0x55, 0xAA}, tensor.Offset+7)
	require.NoError(t, err)
	budget := tiering.New(0)
	_, err = Load(context.Background(), f, Options{PinFile: true, Budget: budget, Plan: keepAll(t, f)})
	require.ErrorIs(t, err, store.ErrFormat)
	require.NoError(t, budget.Check())
}

// TestOverwrittenMappingIsAnError overwrites a block of a mapped file between two tokens, and
// within a pass before its logits are passed on. No logits of changed weights reach the caller,
// and the pass succeeds again when the bytes are restored.
func TestOverwrittenMappingIsAnError(t *testing.T) {
	path, f := packOnDisk(t, modeltest.Fixture(t, "qwen2"))
	m := loadPart(t, f, Options{Threads: 2, Chunk: 64, PinFile: true, Plan: keepAll(t, f)})
	if _, stamped, err := f.Packed().Stamp(); err != nil || !stamped {
		t.Skip("the file system does not tell changes")
	}
	ids := longPrompt(m.Spec.Vocab, 30, 7)
	want := allLogits(t, m, ids)
	tensor, ok := f.Packed().Tensor("blk.0.ffn_up.weight")
	require.True(t, ok)
	original := make([]byte, 64)
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	defer file.Close()
	_, err = file.ReadAt(original, tensor.Offset)
	require.NoError(t, err)
	write := func(data []byte) {
		testutil.NextFileTime(t) // the change gets another stamp
		_, err := file.WriteAt(data, tensor.Offset)
		require.NoError(t, err)
	}
	s, err := m.NewSequence(0)
	require.NoError(t, err)
	defer s.Close()
	for i, id := range ids {
		if i%7 == 3 {
			write(bytes.Repeat([]byte{0x5a}, 64))
			err := m.Extend(t.Context(), s, []int32{id}, &ExtendOptions{Each: func(int, []float32) error {
				t.Error("logits of changed weights")
				return nil
			}})
			require.ErrorIs(t, err, store.ErrFormat)
			require.ErrorContains(t, err, path)
			require.Equal(t, i, s.Len(), "the failed pass leaves no tokens")
			write(original)
		}
		require.NoError(t, m.Extend(t.Context(), s, []int32{id}, &ExtendOptions{Each: func(_ int, logits []float32) error {
			require.Equal(t, want[i], logits)
			return nil
		}}))
	}
}

// TestOverwrittenWhilePromoted overwrites a mapped file before its weights are promoted to
// anonymous memory: no later pass uses the copy.
func TestOverwrittenWhilePromoted(t *testing.T) {
	path, f := packOnDisk(t, modeltest.Fixture(t, "qwen2"))
	m := loadMapped(t, f)
	ids := longPrompt(m.Spec.Vocab, 10, 7)
	_ = allLogits(t, m, ids)
	tensor, _ := f.Packed().Tensor("blk.0.ffn_up.weight")
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	defer file.Close()
	testutil.NextFileTime(t) // the change gets another stamp
	_, err = file.WriteAt(bytes.Repeat([]byte{0x5a}, 64), tensor.Offset)
	require.NoError(t, err)
	for range 3 {
		s, err := m.NewSequence(0)
		require.NoError(t, err)
		require.ErrorIs(t, m.Extend(t.Context(), s, ids, &ExtendOptions{}), store.ErrFormat)
		s.Close()
	}
}
