package exec

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/store/synth"
	"github.com/llmrun/llmrun/store/vfs"
)

// synthetic loads a tiny model of random weights and returns it with the bytes of its tensors by
// name.
func synthetic(t *testing.T, name string, o Options) (*Model, map[string]int64) {
	t.Helper()
	shape, ok := synth.FindShape(name)
	require.True(t, ok)
	fsys := vfs.NewMem()
	require.NoError(t, synth.Write(t.Context(), fsys, "m.gguf", synth.Options{Shape: shape, Quant: "q4_0"}))
	f, err := modelfile.Open(fsys, "m.gguf")
	require.NoError(t, err)
	defer f.Close()
	sizes := map[string]int64{}
	for _, tensor := range f.Source.Tensors() {
		sizes[tensor.Name] = tensor.Size
	}
	m, err := Load(t.Context(), f, o)
	require.NoError(t, err)
	t.Cleanup(m.Close)
	return m, sizes
}

func TestTrafficOfTiedModel(t *testing.T) {
	m, sizes := synthetic(t, "tiny", Options{Threads: 1})
	want := int64(0)
	for name, size := range sizes {
		if name != "rope_freqs.weight" { // loading turns it into a table
			want += size
		}
	}
	got := m.Traffic()
	require.Equal(t, want, got.WeightBytes)
	require.Equal(t, int64(512*256), got.HeadMulAdds)
	layer := 256*256*2 + 256*128*2 + 3*256*512
	require.Equal(t, int64(2*layer), got.LayerMulAdds)
}

func TestTrafficOfExperts(t *testing.T) {
	m, sizes := synthetic(t, "tiny-moe", Options{Threads: 1})
	want := int64(0)
	for name, size := range sizes {
		switch {
		case name == "token_embd.weight":
			size /= 512 // one row
		case strings.Contains(name, "_exps."):
			size = size / 16 * 4 // four of sixteen
		}
		want += size
	}
	got := m.Traffic()
	require.Equal(t, want, got.WeightBytes)
	layer := 256*256*2 + 256*128*2 + 16*256 + 4*3*256*256
	require.Equal(t, int64(2*layer), got.LayerMulAdds)
}

func TestKVBytesRead(t *testing.T) {
	m, _ := synthetic(t, "tiny", Options{Threads: 1, KV: kv.F32})
	const token = 2 * 2 * 64 * 2 * 4 // layers, heads, elements, keys and values, bytes
	require.Equal(t, int64(token), m.KVBytesRead(0))
	require.Equal(t, int64(100*token), m.KVBytesRead(99))
	m.Spec.Layers[1].Window = 10
	require.Equal(t, int64(55*token), m.KVBytesRead(99))
}

// TestSetThreads changes the thread count between passes: the logits stay the same.
func TestSetThreads(t *testing.T) {
	m, _ := synthetic(t, "tiny-moe", Options{Threads: 1, Chunk: 8})
	s, err := m.NewSequence(0)
	require.NoError(t, err)
	defer s.Close()
	ids := []int32{5, 4, 3, 2, 1, 7, 8, 9, 10, 11}
	var first []float32
	for _, n := range []int{1, 3, 2, 2, 1} {
		require.NoError(t, m.SetThreads(n))
		require.Equal(t, n, m.Threads())
		s.Truncate(0)
		require.NoError(t, m.Extend(t.Context(), s, ids, &ExtendOptions{Each: func(_ int, logits []float32) error {
			if first == nil {
				first = slices.Clone(logits)
			}
			require.Equal(t, first, logits)
			return nil
		}}))
	}
	used := m.Budget().Usage().Total
	require.NoError(t, m.SetThreads(4))
	require.NoError(t, m.SetThreads(1))
	require.Equal(t, used, m.Budget().Usage().Total, "the memory of the former threads was not freed")
	require.NoError(t, m.SetThreads(0))
	require.Positive(t, m.Threads())
}

func TestSetThreadsOfClosedModel(t *testing.T) {
	m, _ := synthetic(t, "tiny", Options{Threads: 1})
	m.Close()
	require.ErrorIs(t, m.SetThreads(2), ErrClosed)
}
