package modelfile_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/internal/modeltest"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store/vfs"
)

// TestTypesOfMixes checks the tensor types that each mix gives.
func TestTypesOfMixes(t *testing.T) {
	for name, want := range map[string][3]quant.Type{ // head, down, most
		"q8": {quant.Q8_0, quant.Q8_0, quant.Q8_0}, "q4": {quant.Q8_0, quant.Q8_0, quant.Q4_1},
		"q4s": {quant.Q8_0, quant.Q8_0, quant.Q4_0}, "nf4": {quant.Q8_0, quant.Q8_0, quant.NF4},
		"q4all": {quant.Q8_0, quant.Q4_1, quant.Q4_1},
	} {
		f, err := modelfile.Open(vfs.OS(), modeltest.Fixture(t, "llama3"))
		require.NoError(t, err)
		require.NoError(t, f.Quantize(name, nil))
		got := [3]quant.Type{}
		for i, tensor := range []string{"lm_head.weight", "model.layers.1.mlp.down_proj.weight", "model.layers.0.self_attn.v_proj.weight"} {
			found, ok := f.Source.Tensor(tensor)
			require.True(t, ok)
			got[i] = found.Type
		}
		require.Equal(t, want, got, name)
		embed, _ := f.Source.Tensor("model.embed_tokens.weight")
		require.Equal(t, quant.BF16, embed.Type, "the embedding serves only lookups")
		norm, _ := f.Source.Tensor("model.norm.weight")
		require.True(t, norm.Type.IsFloat())
		require.NoError(t, f.Close())
	}
	require.Len(t, modelfile.Mixes(), 5, "a new mix belongs in the table above")
}
