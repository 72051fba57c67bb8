package exec

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/internal/modeltest"
)

// TestUnreadTensorsAreRefused adds tensors to a layer of a llama file that make it another network: the error names
// them. Tables and biases of zeros change nothing.
func TestUnreadTensorsAreRefused(t *testing.T) {
	for _, c := range []struct {
		name    string
		values  []float64
		refused bool
	}{
		{"blk.0.attn_q_norm.weight", []float64{2, 2}, true},
		{"blk.0.attn_sinks.weight", []float64{2, 2}, true},
		{"blk.0.ffn_norm.bias", []float64{0, 2}, true},
		{"blk.1.layer_output_scale.weight", []float64{2}, true},
		{"blk.0.ffn_norm.bias", []float64{0, 0}, false},
		{"blk.0.attn_rot_embd.weight", []float64{2}, false},
		{"blk.0.attn_q.input_scale", []float64{2}, false},
	} {
		g := modeltest.TinyGGUF()
		g.AddFloats(c.name, c.values)
		err := openAndLoad(g.Write(t), "m.gguf")
		if !c.refused {
			require.NoError(t, err, c.name)
			continue
		}
		require.ErrorIs(t, err, arch.ErrUnsupported, c.name)
		require.ErrorContains(t, err, c.name)
		f, err := modelfile.Open(g.Write(t), "m.gguf")
		require.NoError(t, err)
		_, err = weights.AllMatrices(f)
		require.ErrorContains(t, err, c.name, "before anything is loaded")
		require.NoError(t, f.Close())
	}
}
