package modelfile

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/safetensors"
	"github.com/llmrun/llmrun/store/vfs"
)

// asked counts how often a tensor is looked up.
type asked struct {
	store.Source
	times int
}

func (a *asked) Tensor(name string) (store.Tensor, bool) {
	a.times++
	return a.Source.Tensor(name)
}

// TestLatentSizesOfAFileAreBounded: opening a model does not loop over layers that it cannot have, and splits no
// matrix by sizes whose product wraps around. Its Spec names what is wrong.
func TestLatentSizesOfAFileAreBounded(t *testing.T) {
	const many, nope = 67280421310721, 274176 // times nope+1, that is 2^64+1
	for _, c := range []struct {
		name                       string
		layers, heads, nope, value int
		want                       string
	}{
		{"layers", 1_000_000, 1, 1, 1, "num_hidden_layers"},
		{"heads", 1, many, nope, 1, "num_attention_heads"},
	} {
		t.Run(c.name, func(t *testing.T) {
			fsys := vfs.NewMem()
			require.NoError(t, fsys.MkdirAll("m"))
			require.NoError(t, vfs.WriteFile(fsys, "m/config.json", fmt.Appendf(nil, `{"model_type": "deepseek_v2", "num_hidden_layers": %d,
				"hidden_size": 2, "num_attention_heads": %d, "vocab_size": 2, "max_position_embeddings": 8, "kv_lora_rank": 2,
				"qk_nope_head_dim": %d, "qk_rope_head_dim": 2, "v_head_dim": %d}`, c.layers, c.heads, c.nope, c.value)))
			require.NoError(t, safetensors.Write(fsys, "m/model.safetensors", []safetensors.TensorData{{
				Name: "model.layers.0.self_attn.kv_b_proj.weight", Type: quant.F32, Shape: []int{1, 2}, Data: make([]byte, 8),
			}}))
			f, err := Open(fsys, "m")
			require.NoError(t, err)
			defer func() { require.NoError(t, f.Close()) }()
			require.Len(t, f.Source.Tensors(), 1)
			src := &asked{Source: f.Source}
			f.Source = src
			require.NoError(t, f.splitLatent())
			require.Less(t, src.times, 20)
			_, err = f.Spec()
			require.ErrorContains(t, err, c.want)
		})
	}
}
