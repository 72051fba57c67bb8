package exec

import (
	"context"
	"math"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/internal/modeltest"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// TestKVFormatsAreCloseAndInvariant uses every KV format: logits stay near the reference and do
// not depend on chunks or threads.
func TestKVFormatsAreCloseAndInvariant(t *testing.T) {
	// Bounds of the mean difference from the reference. The fixtures are tiny models with random
	// weights, which lose more to 4 bits than real ones.
	bounds := map[kv.Format]float64{kv.F16: 0.005, kv.K8V8: 0.05, kv.K8F8: 0.05, kv.K4V8: 0.1}
	for _, dir := range modeltest.FixtureDirs(t) {
		for format, bound := range bounds {
			t.Run(filepath.Base(dir)+"/"+format.String(), func(t *testing.T) {
				var ref reference
				testutil.ReadJSON(t, filepath.Join(dir, "reference.json"), &ref)
				m := openFixture(t, dir, "config.json", Options{Threads: 2, KV: format})
				logits := allLogits(t, m, ref.NLL.IDs)
				var sum float64
				for i := range ref.NLL.IDs[1:] {
					sum += nll(logits[i], ref.NLL.IDs[i+1])
				}
				mean := sum / float64(len(ref.NLL.IDs)-1)
				require.False(t, math.IsNaN(mean))
				require.InDelta(t, ref.NLL.MeanNLL, mean, bound)
				require.Equal(t, logits, inSteps(t, m, ref.NLL.IDs))
			})
		}
	}
}

// TestDecodeAllocatesNothingInAnyKVFormat decodes with heads of a real size.
func TestDecodeAllocatesNothingInAnyKVFormat(t *testing.T) {
	for _, format := range kv.Formats() {
		t.Run(format.String(), func(t *testing.T) {
			requireNoAllocs(t, attentionModel(t, 2, 8, 2, 64, format))
		})
	}
	path := testutil.Shared(t, "gguf", "tiny-llama-q4_0.gguf")
	for _, format := range kv.Formats() {
		t.Run("tiny-llama-q4_0/"+format.String(), func(t *testing.T) {
			requireNoAllocs(t, loadModel(t, vfs.OS(), path, Options{Threads: 2, KV: format}))
		})
	}
}

// TestBrokenKernelsAreNotLoaded: a model refuses to load if the attention kernels compute wrong
// results on this machine.
func TestBrokenKernelsAreNotLoaded(t *testing.T) {
	defer func() { checkKernels = kv.Format.Check }()
	var asked []string
	checkKernels = func(f kv.Format, headDim int) error {
		asked = append(asked, f.String())
		return &quant.KernelError{Path: "avx512", Kernel: "scores"}
	}
	dir := modeltest.FixtureDirs(t)[0]
	f, err := modelfile.Open(vfs.OS(), dir)
	require.NoError(t, err)
	defer f.Close()
	for _, format := range kv.Formats() {
		budget := tiering.New(0)
		_, err := Load(context.Background(), f, Options{Threads: 1, KV: format, Budget: budget})
		require.ErrorIs(t, err, quant.ErrKernel)
		require.NoError(t, budget.Check())
		require.Zero(t, budget.Usage().Total)
		require.Equal(t, format.String(), asked[len(asked)-1])
	}
}

// TestLargeQueries multiplies the gains of queries by 2^40 and the attention scale by 2^-40,
// which is exact: no intermediate value overflows or loses a bit, in any KV format. Then it
// raises only the scale until scores reach thousands: the logits stay finite.
func TestLargeQueries(t *testing.T) {
	for _, format := range kv.Formats() {
		t.Run(format.String(), func(t *testing.T) {
			m := loadModel(t, vfs.OS(), modeltest.Fixture(t, "lfm2"), Options{Threads: 2, Chunk: 64, KV: format})
			require.Equal(t, arch.QKNormHead, m.Spec.QKNorm)
			require.Zero(t, m.Spec.Norm.Offset)
			ids := longPrompt(m.Spec.Vocab, 70, 3)
			want := allLogits(t, m, ids)
			layers := 0
			for l := range m.weights.Layers {
				g := m.weights.Layers[l].QNorm.Weight
				for i := range g {
					g[i] *= 0x1p40
				}
				layers += min(len(g), 1)
			}
			require.NotZero(t, layers, "layers with queries")
			scale := m.Spec.AttnScale
			m.Spec.AttnScale = scale * 0x1p-40
			require.Equal(t, want, allLogits(t, m, ids))

			m.Spec.AttnScale = scale * 0x1p-30 // queries 1024 times as large
			large := allLogits(t, m, ids)
			require.NotEqual(t, want, large)
			for _, logits := range large {
				for _, v := range logits {
					require.False(t, math.IsNaN(float64(v)) || math.IsInf(float64(v), 0))
				}
			}
		})
	}
}
