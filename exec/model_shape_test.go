package exec

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/hetero/rates"
	"github.com/llmrun/llmrun/internal/modeltest"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store/synth"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// checkShape compares the measured shape of a model with the memory that loading it takes.
func checkShape(t *testing.T, fsys vfs.FS, path string, format kv.Format) tiering.Shape {
	f, err := modelfile.Open(fsys, path)
	require.NoError(t, err)
	s, _, err := MeasureShape(f, ShapeOptions{Threads: 2, KV: format})
	require.NoError(t, err)
	require.NoError(t, f.Close())

	budget := tiering.New(0)
	m := loadModel(t, fsys, path, Options{Threads: 2, KV: format, Budget: budget, Chunk: 16})
	pinned := s.Head.Bytes + s.Embedding + int64(s.ExpertLayers*s.Experts)*s.ExpertBytes
	for _, l := range s.Layers {
		pinned += l.Bytes
	}
	// Frames are whole pages.
	require.GreaterOrEqual(t, budget.Usage().By[tiering.Pinned], pinned)
	require.Less(t, budget.Usage().By[tiering.Pinned], pinned+int64(len(s.Layers)+2+s.ExpertLayers*s.Experts)*4096)

	traffic := m.Traffic()
	convs := int64(0) // their taps are vectors, which the shape does not count
	for l := range m.weights.Layers {
		convs += int64(len(m.weights.Layers[l].Conv))
	}
	require.Equal(t, 2*(traffic.LayerMulAdds-traffic.PrunedMulAdds-convs), s.OpsPerToken)
	require.Equal(t, int64(m.weights.Embed.RowBytes()), s.RowBytes)
	require.Equal(t, m.KVBytesPerToken(), s.KVBytesPerToken)

	for _, chunk := range []int{1, 15, 16, 48, 256, 512, 1000, 1024} {
		need := scratchBytes(m, chunk, 2, (*pass).carve)
		predicted := max(s.Scratch.At(chunk), s.Logits.At(chunk))
		require.GreaterOrEqual(t, predicted, need, "chunk %d", chunk)
		require.LessOrEqual(t, predicted-scratchSlack-lookupSlack-s.Unit, need+int64(shapeChunks[0])*s.Scratch.PerToken, "chunk %d", chunk)
	}

	seq := m.cache.NewSeq()
	defer seq.Close()
	for _, tokens := range []int{1, 65, 1000} {
		before := budget.Usage().By[tiering.KVHot]
		require.NoError(t, seq.Grow(t.Context(), tokens))
		pages := int64((tokens + s.KVPageTokens - 1) / s.KVPageTokens * s.KVPageTokens)
		require.LessOrEqual(t, budget.Usage().By[tiering.KVHot], s.KVFixed+pages*s.KVBytesPerToken, "%d tokens, %d bytes before", tokens, before)
	}
	return s
}

func TestShapeOfFixtures(t *testing.T) {
	for _, dir := range modeltest.FixtureDirs(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) { checkShape(t, vfs.OS(), dir, kv.F32) })
	}
}

func TestShapeOfQuantizedModels(t *testing.T) {
	fsys := vfs.NewMem()
	shape, ok := synth.FindShape("tiny")
	require.True(t, ok)
	require.NoError(t, synth.Write(t.Context(), fsys, "m.gguf", synth.Options{Shape: shape, Quant: "q4_0"}))
	s := checkShape(t, fsys, "m.gguf", kv.K8V8)
	require.Zero(t, s.Embedding, "tied")
	require.Positive(t, s.Unit)

	// A pack of the model has the same shape, without memory for conversions.
	require.Positive(t, s.Convert)
	s.Convert = 0
	packed := modeltest.ImportModel(t, fsys, "m.gguf")
	require.Equal(t, s, checkShape(t, packed, "m.pack", kv.K8V8))
}

func TestShapeOfExperts(t *testing.T) {
	s := checkShape(t, vfs.OS(), testutil.Shared(t, "fixtures", "qwen2_moe"), kv.F32)
	require.Positive(t, s.ExpertLayers)
	require.Positive(t, s.ExpertBytes)
	require.LessOrEqual(t, s.ExpertsUsed, s.Experts)
}

// TestPlanOfAModel compares the memory of a loaded model with the plan for its shape.
func TestPlanOfAModel(t *testing.T) {
	fsys := vfs.NewMem()
	shape, _ := synth.FindShape("tiny")
	require.NoError(t, synth.Write(context.Background(), fsys, "m.gguf", synth.Options{Shape: shape, Quant: "q4_0"}))
	f, err := modelfile.Open(fsys, "m.gguf")
	require.NoError(t, err)
	defer f.Close()
	s, _, err := MeasureShape(f, ShapeOptions{Threads: 2, KV: kv.K8V8})
	require.NoError(t, err)
	p, err := tiering.MakePlan(s, tiering.Need{Context: 300, Chunk: 64}, tiering.Rates{})
	require.NoError(t, err)

	budget := tiering.New(p.Total())
	m := loadModel(t, fsys, "m.gguf", Options{Threads: 2, KV: kv.K8V8, Chunk: p.Chunk, Budget: budget})
	seq := m.cache.NewSeq()
	defer seq.Close()
	require.NoError(t, seq.Grow(t.Context(), p.Context))
}

// rowBytesCached returns the bytes of the embedding row cache.
func rowBytesCached(m *Model) (n int64) {
	page := int64(os.Getpagesize())
	add := func(f *tiering.Frame) { n += (int64(len(f.Bytes())) + page - 1) / page * page }
	if m.embedding.Extra != nil {
		add(m.embedding.Extra)
	}
	if m.embedding.Cache != nil {
		add(m.embedding.Cache.Frame)
	}
	return n
}

// TestMainMatmul checks that a shape says how most weights of a model are multiplied, whatever the format of its files is.
func TestMainMatmul(t *testing.T) {
	shape, ok := synth.FindShape("tiny")
	require.True(t, ok)
	shape.Dim, shape.FFN = 1024, 1280
	fsys := vfs.NewMem()
	for _, mix := range []string{"q8_0", "bf16"} {
		require.NoError(t, synth.Write(t.Context(), fsys, mix, synth.Options{Shape: shape, Quant: mix}))
	}
	main := func(path, quantized string, o ShapeOptions) (rates.Matmul, int64) {
		f, err := modelfile.Open(fsys, path)
		require.NoError(t, err)
		defer f.Close()
		if quantized != "" {
			require.NoError(t, f.Quantize(quantized, nil))
		}
		o.Threads, o.KV = 1, kv.F32
		s, m, err := MeasureShape(f, o)
		require.NoError(t, err)
		return m, s.Elements
	}
	integers := rates.Matmul{Type: quant.Q8_0, Cols: 1024, Integers: true}
	m, elements := main("q8_0", "", ShapeOptions{})
	require.Equal(t, integers, m)
	m, floats := main("bf16", "", ShapeOptions{})
	require.Equal(t, rates.Matmul{Type: quant.BF16, Cols: 1024}, m)
	require.Equal(t, elements/floatElements, floats)
	m, got := main("bf16", "q8", ShapeOptions{})
	require.True(t, m.Integers, m)
	require.Equal(t, elements, got)
	m, got = main("q8_0", "", ShapeOptions{Exact: true})
	require.Equal(t, rates.Matmul{Type: quant.Q8_0, Cols: 1024}, m, "exact multiplies in float32")
	require.Equal(t, floats, got)
}
