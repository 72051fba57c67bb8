package exec

import (
	"cmp"
	"context"
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/internal/modeltest"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// openAndLoad opens, loads and closes a model within a small budget.
func openAndLoad(fsys vfs.FS, path string) error {
	f, err := modelfile.Open(fsys, path)
	if err != nil {
		return err
	}
	budget := tiering.New(8 << 20)
	m, err := Load(context.Background(), f, Options{Threads: 1, Chunk: 4, Budget: budget})
	if err != nil {
		return err
	}
	m.Close()
	return budget.Check()
}

// TestTinyModelsLoad proves that the models that the tests below break are valid.
func TestTinyModelsLoad(t *testing.T) {
	require.NoError(t, openAndLoad(modeltest.TinyGGUF().Write(t), "m.gguf"))
	require.NoError(t, openAndLoad(modeltest.WriteTinyHF(t, modeltest.TinyConfig(t, nil)), "m"))
}

// TestMalformedGGUFModels changes one key of a small file; the error names the key and the file.
func TestMalformedGGUFModels(t *testing.T) {
	for _, c := range []struct {
		name, key string
		value     any // nil: the key is missing
		want      string
		named     string // key that the error names, if another
	}{
		{"no layers", "block_count", uint32(0), "0 is outside", ""},
		{"layers as text", "block_count", "2", "string", ""},
		{"fewer layers than the tensors have", "block_count", uint32(1), "belongs to layer 1", ""},
		{"a million layers", "block_count", uint32(1e6), "no more than 21 tensors", ""},
		{"4096 layers", "block_count", uint32(4096), "no more than 21 tensors", ""},
		{"layers missing", "block_count", nil, "is missing", ""},
		{"width missing", "embedding_length", nil, "is missing", ""},
		{"width of 0", "embedding_length", uint32(0), "0 is outside", ""},
		{"width beyond reason", "embedding_length", uint32(1 << 30), "is outside", ""},
		{"no heads", "attention.head_count", uint32(0), "0 is outside", ""},
		{"negative heads", "attention.head_count", int32(-4), "-4 is outside", ""},
		{"key heads do not divide", "attention.head_count_kv", uint32(3), "3 in layer 0 do not divide 4 heads", ""},
		{"no key heads", "attention.head_count_kv", uint32(0), "0 in layer 0", ""},
		{"key heads for other layers", "attention.head_count_kv", []int32{2, 2, 2}, "3 entries for 2 layers", ""},
		{"negative key heads", "attention.head_count_kv", []int32{2, -2}, "entry 1 is -2", ""},
		{"head size of 0", "attention.key_length", uint32(1 << 31), "out of range", ""},
		{"rope base 0", "rope.freq_base", float32(0), "0 is not a positive number", ""},
		{"rope base NaN", "rope.freq_base", float32(math.NaN()), "NaN is not a positive number", ""},
		{"rope base infinite", "rope.freq_base", float32(math.Inf(1)), "+Inf is not a positive number", ""},
		{"rope base negative", "rope.freq_base", float32(-1), "-1 is not a positive number", ""},
		{"more rotation than head", "rope.dimension_count", uint32(4), "at most the head size 2", ""},
		{"odd rotation", "rope.dimension_count", uint32(1), "must be even", ""},
		{"rope factor NaN", "rope.scaling.factor", float32(math.NaN()), "NaN is not a finite number", ""},
		{"context of 2^31", "context_length", uint32(1 << 31), "out of range", ""},
		{"context of 2^30", "context_length", uint32(1 << 30), "is outside", ""},
		{"context of 0", "context_length", uint32(0), "0 is outside", ""},
		{"experts used of none", "expert_used_count", uint32(2), "2 of only 0 experts", ""},
		{"none of some experts used", "expert_count", uint32(2), "0 of 2 experts", "expert_used_count"},
		{"norm epsilon NaN", "attention.layer_norm_rms_epsilon", float32(math.NaN()), "NaN is not between 0 and 1", ""},
		{"scale infinite", "attention.scale", float32(math.Inf(1)), "+Inf is not a finite number", ""},
		{"negative window", "attention.sliding_window", int32(-1), "-1 is outside", ""},
		{"windows for other layers", "attention.sliding_window_pattern", []bool{true}, "1 entries for 2 layers", ""},
		{"windows of no size", "attention.sliding_window_pattern", []bool{true, false}, "missing", "attention.sliding_window"},
		{"routing by another function", "expert_gating_func", uint32(3), "not supported", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := modeltest.TinyGGUF()
			g.Drop("llama." + c.key)
			if c.value != nil {
				g.Set("llama."+c.key, c.value)
			}
			err := openAndLoad(g.Write(t), "m.gguf")
			require.ErrorContains(t, err, "m.gguf")
			require.ErrorContains(t, err, "llama."+cmp.Or(c.named, c.key))
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestUnknownFamilies(t *testing.T) {
	g := modeltest.TinyGGUF()
	g.Set("general.architecture", "hyena")
	err := openAndLoad(g.Write(t), "m.gguf")
	require.ErrorIs(t, err, arch.ErrUnsupported)
	require.ErrorContains(t, err, `m.gguf: general.architecture`)
	require.ErrorContains(t, err, `"hyena"`)
	g.Drop("general.architecture")
	require.ErrorIs(t, openAndLoad(g.Write(t), "m.gguf"), arch.ErrModel)

	err = openAndLoad(modeltest.WriteTinyHF(t, modeltest.TinyConfig(t, modeltest.Fields{"model_type": "hyena"})), "m")
	require.ErrorIs(t, err, arch.ErrUnsupported)
	require.ErrorContains(t, err, "config.json: model_type")
}

// TestMalformedTensors changes one tensor of a small file; the error names the
// tensor and the file.
func TestMalformedTensors(t *testing.T) {
	for _, c := range []struct {
		tensor string
		shape  []int // nil: the tensor is missing
	}{
		{"blk.1.attn_q.weight", nil},
		{"blk.1.attn_norm.weight", nil},
		{"blk.0.ffn_down.weight", nil},
		{"token_embd.weight", nil},
		{"output_norm.weight", nil},
		{"blk.1.ffn_up.weight", []int{modeltest.TinyDim, modeltest.TinyFFN}},
		{"blk.0.ffn_down.weight", []int{modeltest.TinyFFN, modeltest.TinyDim}},
		{"blk.0.attn_k.weight", []int{modeltest.TinyDim, modeltest.TinyKV * modeltest.TinyHead}},
		{"blk.0.attn_q.weight", []int{2, 4, modeltest.TinyDim}},
		{"blk.1.ffn_norm.weight", []int{modeltest.TinyDim - 1}},
		{"token_embd.weight", []int{modeltest.TinyVocab + 1, modeltest.TinyDim}},
		{"output.weight", []int{modeltest.TinyVocab - 1, modeltest.TinyDim}},
	} {
		t.Run(c.tensor, func(t *testing.T) {
			g := modeltest.TinyGGUF()
			if c.shape == nil {
				g.DropTensor(t, c.tensor)
			} else {
				d := g.Tensor(t, c.tensor)
				d.Shape, d.Data = c.shape, make([]byte, 4*modelfile.Elems(c.shape))
			}
			err := openAndLoad(g.Write(t), "m.gguf")
			require.ErrorIs(t, err, arch.ErrModel)
			require.ErrorContains(t, err, "m.gguf")
			require.ErrorContains(t, err, c.tensor)
		})
	}
}

func TestRopeTensorsMustFit(t *testing.T) {
	g := modeltest.TinyGGUF()
	g.AddFloats("rope_freqs.weight", []float64{1, 2})
	require.ErrorContains(t, openAndLoad(g.Write(t), "m.gguf"), "2 rope factors for 1 rotary frequencies")
	g.Tensor(t, "rope_freqs.weight").Type = quant.BF16
	g.Tensor(t, "rope_freqs.weight").Data = make([]byte, 4)
	require.ErrorContains(t, openAndLoad(g.Write(t), "m.gguf"), "rope_freqs.weight")
	g.DropTensor(t, "rope_freqs.weight")
	g.AddFloats("rope_freqs.weight", []float64{0})
	require.ErrorContains(t, openAndLoad(g.Write(t), "m.gguf"), "entry 0 is 0")
}

// TestNonFiniteWeights: a file with non-finite weights loads, and generating with it fails.
func TestNonFiniteWeights(t *testing.T) {
	g := modeltest.TinyGGUF()
	d := g.Tensor(t, "blk.0.ffn_up.weight")
	d.Data = slices.Clone(d.Data)
	binary.LittleEndian.PutUint32(d.Data, math.Float32bits(float32(math.NaN())))
	binary.LittleEndian.PutUint32(d.Data[4:], math.Float32bits(float32(math.Inf(1))))
	m := loadModel(t, g.Write(t), "m.gguf", Options{Threads: 1})
	require.True(t, math.IsNaN(float64(allLogits(t, m, []int32{1})[0][0])))
}

// TestMalformedConfigs changes one field of a small config.json; the error names the field and
// the file.
func TestMalformedConfigs(t *testing.T) {
	for _, c := range []struct {
		name, field string
		value       any
		want        string
	}{
		{"layers missing", "num_hidden_layers", modeltest.Absent, "is missing"},
		{"width missing", "hidden_size", nil, "is missing"},
		{"heads missing", "num_attention_heads", modeltest.Absent, "is missing"},
		{"vocabulary missing", "vocab_size", modeltest.Absent, "is missing"},
		{"context missing", "max_position_embeddings", modeltest.Absent, "is missing"},
		{"no layers", "num_hidden_layers", 0, "0 is outside"},
		{"negative layers", "num_hidden_layers", -1, "-1 is outside"},
		{"fewer layers than the tensors have", "num_hidden_layers", 1, "belongs to layer 1"},
		{"a million layers", "num_hidden_layers", 1000000, "no more than 21 tensors"},
		{"half a layer", "num_hidden_layers", 1.5, "1.5 is not a whole number"},
		{"layers as text", "num_hidden_layers", "2", "string"},
		{"layers beyond an integer", "num_hidden_layers", 1e300, "is not a whole number in range"},
		{"negative width", "hidden_size", -8, "-8 is outside"},
		{"no heads", "num_attention_heads", 0, "0 is outside"},
		{"no key heads", "num_key_value_heads", 0, "0 in layer 0"},
		{"key heads do not divide", "num_key_value_heads", 3, "3 in layer 0 do not divide 4 heads"},
		{"head size of 2^40", "head_dim", 1 << 40, "is outside"},
		{"context of 2^31", "max_position_embeddings", 1 << 31, "is outside"},
		{"rope base 0", "rope_theta", 0, "0 is not a positive number"},
		{"rope base as text", "rope_theta", "x", "string"},
		{"norm epsilon of 1", "rms_norm_eps", 1, "is not between 0 and 1"},
		{"experts used of none", "num_experts_per_tok", 2, "2 of only 0 experts"},
		{"scaling as text", "rope_scaling", "linear", "string"},
		{"types of other layers", "layer_types", []string{arch.FullAttention}, "1 entries for 2 layers"},
		{"types unknown", "layer_types", []string{arch.FullAttention, "mamba"}, `layer 1 is "mamba"`},
		{"types as numbers", "layer_types", []int{1, 2}, "number"},
		{"attending layer out of range", "full_attn_idxs", []int{2}, "layer 2 does not exist"},
		{"activation unknown", "hidden_act", "relu6", `"relu6"`},
		{"too many streams", "altup_num_inputs", 9, "9 is outside 0…8"},
		{"computed stream of none", "altup_active_idx", 1, "1 of 0 streams"},
		{"rank of Laurel above the width", "laurel_rank", 1 << 20, "is outside"},
		{"sparsity of other layers", "activation_sparsity_pattern", []float64{0.5}, "1 entries for 2 layers"},
		{"nothing remains of a sparse gate", "activation_sparsity_pattern", []float64{0, 1}, "entry 1 is 1"},
		{"packed weights", "quantization_config", modeltest.Fields{"quant_method": "bitsandbytes"}, `"bitsandbytes"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := openAndLoad(modeltest.WriteTinyHF(t, modeltest.TinyConfig(t, modeltest.Fields{c.field: c.value})), "m")
			require.ErrorContains(t, err, "config.json")
			require.ErrorContains(t, err, c.field)
			require.ErrorContains(t, err, c.want)
		})
	}
}

// TestNonObjectConfigs loads a config.json that is not a JSON object.
func TestNonObjectConfigs(t *testing.T) {
	for _, text := range []string{"", "null", "[]", "{", `{"model_type": 1}`, "{}", strings.Repeat("[", 20000)} {
		err := openAndLoad(modeltest.WriteTinyHF(t, []byte(text)), "m")
		require.ErrorContains(t, err, "config.json", "%.20q", text)
	}
}
