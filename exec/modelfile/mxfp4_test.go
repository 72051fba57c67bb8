package modelfile_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/internal/modeltest"
	"github.com/llmrun/llmrun/quant"
)

// mxConfig is the config.json of a gpt-oss with experts in MXFP4.
var mxConfig = modeltest.Fields{
	"model_type": "gpt_oss", "num_hidden_layers": 1, "hidden_size": 64, "num_attention_heads": 4, "head_dim": 16,
	"intermediate_size": 3, "vocab_size": 100, "max_position_embeddings": 512,
	"num_local_experts": 2, "num_experts_per_tok": 1, "quantization_config": modeltest.Fields{"quant_method": "mxfp4"},
}

// mxTensors are the tensors of one fused projection of 2 experts with 3 rows of gate and of up, and 64 columns.
func mxTensors(seed uint64) map[string]modeltest.RawTensor {
	random := rand.New(rand.NewPCG(seed, 1))
	raw := func(dtype string, width int, shape ...int) modeltest.RawTensor {
		n := width
		for _, d := range shape {
			n *= d
		}
		r := modeltest.RawTensor{Dtype: dtype, Shape: shape, Data: make([]byte, n)}
		for i := range r.Data {
			r.Data[i] = byte(random.Uint32())
		}
		return r
	}
	const module = "model.layers.0.mlp.experts.gate_up_proj"
	return map[string]modeltest.RawTensor{
		module + "_blocks": raw("U8", 1, 2, 6, 2, 16),
		module + "_scales": raw("U8", 1, 2, 6, 2),
		module + "_bias":   raw("BF16", 2, 2, 6),
	}
}

// TestMXFP4Rows compares the rows of experts with the definition of the stored blocks, and reads of parts
// with those of the whole.
func TestMXFP4Rows(t *testing.T) {
	tensors := mxTensors(1)
	f, err := modelfile.Open(modeltest.WriteRaw(t, mxConfig, tensors), "m")
	require.NoError(t, err)
	defer f.Close()
	const experts = "model.layers.0.mlp.experts."
	blocks, scales := tensors[experts+"gate_up_proj_blocks"].Data, tensors[experts+"gate_up_proj_scales"].Data
	values := [8]float64{0, 0.5, 1, 1.5, 2, 3, 4, 6}
	for part, name := range []string{"gate_proj", "up_proj"} {
		w, ok := f.Source.Tensor(experts + name + ".weight")
		require.True(t, ok)
		require.Equal(t, quant.MXFP4, w.Type)
		require.Equal(t, []int{2, 3, 64}, w.Shape)
		raw := make([]byte, w.Size)
		_, err := f.Source.ReadAt(w, raw, 0)
		require.NoError(t, err)
		got := make([]float32, 2*3*64)
		quant.DequantRow(w.Type, got, raw)
		for i, v := range got {
			row, col := 2*(i/64)+part, i%64 // rows of gate and up alternate
			code := blocks[row*32+col/2] >> (4 * (col % 2)) & 15
			want := math.Ldexp(values[code&7], int(scales[row*2+col/32])-127)
			if code >= 8 {
				want = -want
			}
			require.Equal(t, float32(want), v, "element %d", i)
		}
		for off := range raw {
			some := make([]byte, len(raw)-off-(len(raw)-off)/3)
			_, err := f.Source.ReadAt(w, some, int64(off))
			require.NoError(t, err)
			require.Equal(t, raw[off:off+len(some)], some)
		}
		b, ok := f.Source.Tensor(experts + name + ".bias")
		require.True(t, ok)
		bias := make([]byte, b.Size)
		_, err = f.Source.ReadAt(b, bias, 0)
		require.NoError(t, err)
		stored := tensors[experts+"gate_up_proj_bias"].Data
		for i := range bias {
			require.Equal(t, stored[4*(i/2)+2*part+i%2], bias[i])
		}
		one := make([]byte, 1)
		for off := range bias {
			_, err := f.Source.ReadAt(b, one, int64(off))
			require.NoError(t, err)
			require.Equal(t, bias[off], one[0])
		}
		_, err = f.Source.ReadAt(b, one, b.Size)
		require.ErrorIs(t, err, arch.ErrModel)
	}
}

// TestMalformedMXFP4 refuses blocks and exponents that do not belong together.
func TestMalformedMXFP4(t *testing.T) {
	const module = "model.layers.0.mlp.experts.gate_up_proj"
	for name, change := range map[string]func(map[string]modeltest.RawTensor){
		"no blocks":    func(m map[string]modeltest.RawTensor) { delete(m, module+"_blocks") },
		"no exponents": func(m map[string]modeltest.RawTensor) { delete(m, module+"_scales") },
		"odd rows": func(m map[string]modeltest.RawTensor) {
			m[module+"_blocks"] = modeltest.RawTensor{Dtype: "U8", Shape: []int{2, 3, 2, 16}, Data: make([]byte, 192)}
			m[module+"_scales"] = modeltest.RawTensor{Dtype: "U8", Shape: []int{2, 3, 2}, Data: make([]byte, 12)}
		},
		"short blocks": func(m map[string]modeltest.RawTensor) {
			m[module+"_blocks"] = modeltest.RawTensor{Dtype: "U8", Shape: []int{2, 6, 2, 8}, Data: make([]byte, 192)}
		},
		"other exponents": func(m map[string]modeltest.RawTensor) {
			m[module+"_scales"] = modeltest.RawTensor{Dtype: "U8", Shape: []int{2, 6, 4}, Data: make([]byte, 48)}
		},
		"other type": func(m map[string]modeltest.RawTensor) {
			m[module+"_scales"] = modeltest.RawTensor{Dtype: "I8", Shape: []int{2, 6, 2}, Data: make([]byte, 24)}
		},
		"stored twice": func(m map[string]modeltest.RawTensor) {
			m["model.layers.0.mlp.experts.up_proj_blocks"] = m[module+"_blocks"]
			m["model.layers.0.mlp.experts.up_proj_scales"] = m[module+"_scales"]
		},
	} {
		t.Run(name, func(t *testing.T) {
			tensors := mxTensors(2)
			change(tensors)
			f, err := modelfile.Open(modeltest.WriteRaw(t, mxConfig, tensors), "m")
			require.ErrorIs(t, err, arch.ErrModel)
			require.ErrorContains(t, err, "tensor")
			require.Nil(t, f)
		})
	}
}
