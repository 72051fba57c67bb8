package exec

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/modeltest"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/store/synth"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// synthFS returns a file system with a small model of random weights, m.gguf. inner is the width
// of its MLP.
func synthFS(t *testing.T, name, quant string, inner int) vfs.FS {
	t.Helper()
	shape, ok := synth.FindShape(name)
	require.True(t, ok)
	shape.FFN = inner
	fsys := vfs.NewMem()
	require.NoError(t, synth.Write(t.Context(), fsys, "m.gguf", synth.Options{Shape: shape, Quant: quant}))
	return fsys
}

// TestActivationInSlices compares the two forms of an MLP: with many tokens, up is
// combined with gate in slices; with few, it is stored. The logits are the same.
func TestActivationInSlices(t *testing.T) {
	for _, c := range []struct {
		shape, quant string
		inner        int
	}{
		{"tiny", "q4_0", 3*upColumns + 96},
		{"tiny", "q4_k_m", 2 * upColumns},
		{"tiny", "q6_k", upColumnsWide + 256},
		{"tiny", "f16", 2*upColumns + 41}, // ends inside a tile
		{"tiny-moe", "q4_0", upColumns + 32},
	} {
		t.Run(c.shape+" "+c.quant, func(t *testing.T) {
			fsys := synthFS(t, c.shape, c.quant, c.inner)
			few := loadModel(t, fsys, "m.gguf", Options{Threads: 2, KV: kv.K8V8, Chunk: upTokens})
			ids := longPrompt(few.Spec.Vocab, 3*upTokens, 5)
			want := allLogits(t, few, ids)
			for _, chunk := range []int{upTokens + 1, 2*upTokens + 1, 3 * upTokens} {
				many := loadModel(t, fsys, "m.gguf", Options{Threads: 3, KV: kv.K8V8, Chunk: chunk})
				require.Equal(t, want, allLogits(t, many, ids), "chunk %d", chunk)
			}
		})
	}
}

// TestBuffersShareMemory requires that a token takes less than the sum of a layer's
// buffers, because buffers that are not in use at the same time share memory.
func TestBuffersShareMemory(t *testing.T) {
	m := loadModel(t, synthFS(t, "tiny", "q4_0", 512), "m.gguf", Options{Threads: 2, KV: kv.K8V8})
	s, w := m.Spec, m.pass.widths()
	const chunk = 512
	rows := scratchBytes(m, chunk, 2, (*pass).carveRows)
	attention := int64(4 * chunk * s.HeadDim * (2*s.Heads + 2*w.kvHeads))
	mlp := int64(4 * chunk * w.inner)
	all := scratchBytes(m, chunk, 2, (*pass).carve)
	require.Less(t, all, rows+attention+mlp)
	require.GreaterOrEqual(t, all, rows+max(attention, mlp))
	require.GreaterOrEqual(t, scratchBytes(m, 1, 2, (*pass).carve), int64(4*headRows*s.Vocab))
}

// TestEachChunkStreamsOnce counts the bytes that the chunks of a prompt stream.
func TestEachChunkStreamsOnce(t *testing.T) {
	fsys := synthFS(t, "tiny", "q4_0", 512)
	f := openPack(t, modeltest.ImportModel(t, fsys, "m.gguf"))
	spec := packSpec(t, f)
	plan := &tiering.Plan{Piece: 1 << 16, Ring: 8 << 16, Pinned: make([]int64, len(spec.Layers)), HeadPinned: 1 << 40, StreamedPerToken: 1}
	ids := longPrompt(spec.Vocab, 64, 5)
	for chunk, passes := range map[int]int64{64: 1, 32: 2, 16: 4} {
		t.Run(fmt.Sprint(chunk), func(t *testing.T) {
			m := loadPart(t, f, Options{Threads: 2, KV: kv.K8V8, Chunk: chunk, Plan: plan})
			allLogits(t, m, ids)
			seq, _ := m.residency.Sequence()
			var streamed int64
			for _, run := range seq.Body {
				streamed += run.Size
			}
			read := m.StreamStats().Bytes
			require.GreaterOrEqual(t, read, passes*streamed)
			require.LessOrEqual(t, read, passes*streamed+plan.Ring, "at most one ring is prefetched")
		})
	}
}
