package exec

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/store/vfs"
)

// TestLargeQueries multiplies the gains of queries by 2^40 and the attention scale by 2^-40,
// which is exact: no intermediate value overflows or loses a bit, in any KV format. Then it
// raises only the scale until scores reach thousands: the logits stay finite.
func TestLargeQueries(t *testing.T) {
	for _, format := range kv.Formats() {
		t.Run(format.String(), func(t *testing.T) {
			m := loadModel(t, vfs.OS(), ownFixture(t, "lfm2"), Options{Threads: 2, Chunk: 64, KV: format})
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
