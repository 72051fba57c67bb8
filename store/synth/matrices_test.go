package synth

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/quant"
)

// TestMatrices checks that Matrices returns the matrices of the file, and the embedding
// only if it is tied.
func TestMatrices(t *testing.T) {
	for _, s := range Shapes() {
		list, err := s.Matrices("q4_0")
		require.NoError(t, err)
		weights := int64(0)
		names := map[string]int{}
		for _, m := range list {
			weights += int64(m.Rows) * int64(m.Cols) * int64(max(1, m.Experts))
			names[m.Name]++
		}
		require.Equal(t, 1, names["output"], s.Name)
		require.Equal(t, s.Layers, names["ffn_down"]+names["ffn_down_exps"], s.Name)
		if !s.Tied {
			weights += int64(s.Vocab) * int64(s.Dim)
		}
		require.InEpsilon(t, s.Parameters(), weights, 0.001, "the rest is norms and biases")
	}
	tiny, _ := FindShape("tiny")
	list, err := tiny.Matrices("q4_0")
	require.NoError(t, err)
	require.Contains(t, list, Matrix{Name: "attn_q", Type: quant.Q4_0, Rows: 256, Cols: 256})
	_, err = tiny.Matrices("q0")
	require.ErrorIs(t, err, ErrOptions)
}
