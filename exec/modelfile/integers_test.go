package modelfile_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/internal/modeltest"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/safetensors"
	"github.com/llmrun/llmrun/store/vfs"
)

// TestPackedWeightsHaveTheSmallestType checks the tensor type that each variant becomes and that
// a notice reports larger types.
func TestPackedWeightsHaveTheSmallestType(t *testing.T) {
	types := map[string]quant.Type{
		"gptq": quant.I4Z, "gptq symmetric": quant.Q4_0, "gptq whole rows": quant.I4Z, "gptq v2": quant.I4Z,
		"gptq ordered by activation": quant.I4Z, "gptq symmetric ordered": quant.Q4_0,
		"gptq 8 bits symmetric": quant.Q8_0, "gptq v2 8 bits symmetric": quant.Q8_0, "awq": quant.I4Z, "awq whole rows": quant.I4Z,
	}
	for _, p := range modeltest.PackVariants {
		want, known := types[p.Name]
		if !known {
			want = quant.F32
		}
		packed, _, values := modeltest.PackFixture(t, modeltest.Fixture(t, "llama3"), p)
		f, err := modelfile.Open(packed, "m")
		require.NoError(t, err)
		for name := range values {
			tensor, _ := f.Source.Tensor(name)
			require.Equal(t, want, tensor.Type, "%s: %s", p.Name, name)
		}
		require.Equal(t, want == quant.F32, len(f.Warnings()) == 1, p.Name)
		_, ok := f.Source.Tensor("model.layers.0.mlp.down_proj.scales")
		require.False(t, ok, "scales are not listed as tensors")
		require.NoError(t, f.Close())
	}
}

// TestPackedWeightsInRanges compares reads of odd ranges with the whole tensor,
// because threads read ranges.
func TestPackedWeightsInRanges(t *testing.T) {
	for _, p := range []modeltest.PackedAs{{Bits: 4, Group: 32}, {Bits: 4, Group: 32, AWQ: true}} {
		packed, _, _ := modeltest.PackFixture(t, modeltest.Fixture(t, "llama3"), p)
		f, err := modelfile.Open(packed, "m")
		require.NoError(t, err)
		tensor, ok := f.Source.Tensor("model.layers.0.mlp.up_proj.weight")
		require.True(t, ok)
		whole := make([]byte, tensor.Size)
		_, err = f.Source.ReadAt(tensor, whole, 0)
		require.NoError(t, err)
		for off := int64(0); off < tensor.Size; off += 1009 {
			for _, n := range []int64{1, 57, 400} {
				part := make([]byte, min(n, tensor.Size-off))
				_, err = f.Source.ReadAt(tensor, part, off)
				require.NoError(t, err)
				require.Equal(t, whole[off:off+int64(len(part))], part, "%d bytes at %d", n, off)
			}
		}
		_, err = f.Source.ReadAt(tensor, make([]byte, 2), tensor.Size-1)
		require.ErrorIs(t, err, arch.ErrModel)
		require.NoError(t, f.Close())
	}
}

// TestScalesInOtherFormats: scales that are representable as binary16 load from any format;
// other scales turn the weights into floats.
func TestScalesInOtherFormats(t *testing.T) {
	for scale, want := range map[float32]quant.Type{0.25: quant.Q4_0, 1.0 / 3: quant.F32} {
		tensors, p := map[string]modeltest.RawTensor{}, modeltest.PackedAs{Bits: 4, Group: -1, Symmetric: true}
		p.Pack(tensors, "a", 8, 32, newRandom())
		scales := make([]float32, 8)
		for i := range scales {
			scales[i] = scale
		}
		tensors["a.scales"] = modeltest.RawTensor{Dtype: "F32", Shape: []int{1, 8}, Data: modelfile.AppendFloats(nil, scales)}
		src, _, err := unpackRaw(t, tensors, p)
		require.NoError(t, err)
		tensor, _ := src.Tensor("a.weight")
		require.Equal(t, want, tensor.Type)
		for i, v := range modeltest.WholeTensor(t, src, "a.weight") {
			code := tensors["a.qweight"].Data[i%32/8*32+i/32*4+i%8/2] >> (i % 2 * 4) & 15
			require.Equal(t, scale*float32(int(code)-8), v)
		}
	}
}

// TestMalformedPackedWeights changes one tensor at a time.
func TestMalformedPackedWeights(t *testing.T) {
	for _, c := range []struct {
		name   string
		awq    bool
		change func(tensors map[string]modeltest.RawTensor)
		want   string
	}{
		{"no scales", false, func(m map[string]modeltest.RawTensor) { delete(m, "a.scales") }, "tensor a.scales is missing"},
		{"no zeros", false, func(m map[string]modeltest.RawTensor) { delete(m, "a.qzeros") }, "tensor a.qzeros is missing"},
		{"no zeros in awq", true, func(m map[string]modeltest.RawTensor) { delete(m, "a.qzeros") }, "tensor a.qzeros is missing"},
		{"codes of 64 bits", false, func(m map[string]modeltest.RawTensor) {
			m["a.qweight"] = modeltest.RawTensor{Dtype: "I64", Shape: []int{4, 8}, Data: make([]byte, 256)}
		}, "tensor a.qweight has type I64"},
		{"codes without inputs", false, func(m map[string]modeltest.RawTensor) { m["a.qweight"] = modeltest.Words([]int{0, 8}, nil) }, "tensor a.qweight has the shape [0 8]"},
		{"codes in a row", false, func(m map[string]modeltest.RawTensor) {
			m["a.qweight"] = modeltest.Words([]int{32}, make([]uint32, 32))
		}, "tensor a.qweight has the shape [32]"},
		{"outputs in parts of words", false, func(m map[string]modeltest.RawTensor) {
			m["a.qweight"] = modeltest.Words([]int{4, 6}, make([]uint32, 24))
		}, "6 outputs"},
		{"scales of other groups", false, func(m map[string]modeltest.RawTensor) {
			m["a.scales"] = modeltest.RawTensor{Dtype: "F16", Shape: []int{1, 8}, Data: make([]byte, 16)}
		}, "tensor a.scales has the shape [1 8], not [2 8]"},
		{"zeros of other outputs", true, func(m map[string]modeltest.RawTensor) {
			m["a.qzeros"] = modeltest.Words([]int{2, 2}, make([]uint32, 4))
		}, "tensor a.qzeros has the shape [2 2], not [2 1]"},
		{"too few inputs in g_idx", false, func(m map[string]modeltest.RawTensor) { m["a.g_idx"] = modeltest.Words([]int{16}, make([]uint32, 16)) }, "tensor a.g_idx has the shape [16], not [32]"},
		{"group beyond the last", false, func(m map[string]modeltest.RawTensor) {
			groups := make([]uint32, 32)
			groups[7] = 2
			m["a.g_idx"] = modeltest.Words([]int{32}, groups)
		}, "tensor a.g_idx puts input 7 into group 2 of 2"},
		{"negative group", false, func(m map[string]modeltest.RawTensor) {
			groups := make([]uint32, 32)
			groups[31] = 1<<32 - 1
			m["a.g_idx"] = modeltest.Words([]int{32}, groups)
		}, "puts input 31 into group -1 of 2"},
		{"both packed and not", false, func(m map[string]modeltest.RawTensor) {
			m["a.weight"] = modeltest.RawTensor{Dtype: "F32", Shape: []int{1}, Data: make([]byte, 4)}
		}, "tensor a.weight is stored twice: also as a.qweight"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tensors, p := map[string]modeltest.RawTensor{}, modeltest.PackedAs{Bits: 4, Group: 16, AWQ: c.awq}
			p.Pack(tensors, "a", 8, 32, newRandom())
			c.change(tensors)
			_, _, err := unpackRaw(t, tensors, p)
			require.ErrorIs(t, err, arch.ErrModel)
			require.ErrorContains(t, err, c.want)
		})
	}
}

// TestInvalidColumnOrders: a pack is untrusted input, so its column orders are checked.
func TestInvalidColumnOrders(t *testing.T) {
	require.NoError(t, modelfile.CheckOrder("a.order", []float32{2, 0, 1}))
	nan := float32(math.NaN())
	for _, order := range [][]float32{{0, 1, 1}, {0, 1, 3}, {0, -1, 2}, {0, 0.5, 2}, {0, nan, 2}, {0, float32(math.Inf(1)), 2}, {1e30, 1, 2}} {
		err := modelfile.CheckOrder("a.order", order)
		require.ErrorIs(t, err, arch.ErrModel, "%v", order)
		require.ErrorContains(t, err, "tensor a.order")
	}
}

// TestAdaptersOfOrderedColumns merges an adapter into a matrix whose columns are stored in
// another order.
func TestAdaptersOfOrderedColumns(t *testing.T) {
	dir := modeltest.Fixture(t, "llama3")
	packed, plain, values := modeltest.PackFixture(t, dir, modeltest.PackedAs{Bits: 4, Group: 32, Order: true})
	const module = "model.layers.0.self_attn.q_proj"
	rows, cols := 96, len(values[module+".weight"])/96
	a, b := make([]float32, cols), make([]float32, rows)
	for i := range a {
		a[i] = float32(i)
	}
	for i := range b {
		b[i] = float32(1 + i)
	}
	for _, fsys := range []vfs.FS{packed, plain} {
		require.NoError(t, fsys.MkdirAll("lora"))
		modeltest.WriteFile(t, fsys, "lora/adapter_config.json", []byte(`{"peft_type": "LORA", "r": 1, "lora_alpha": 1}`))
		require.NoError(t, safetensors.Write(fsys, "lora/adapter_model.safetensors", []safetensors.TensorData{
			{Name: "base_model.model." + module + ".lora_A.weight", Type: quant.F32, Shape: []int{1, cols}, Data: modelfile.AppendFloats(nil, a)},
			{Name: "base_model.model." + module + ".lora_B.weight", Type: quant.F32, Shape: []int{rows, 1}, Data: modelfile.AppendFloats(nil, b)},
		}))
	}
	merged := func(fsys vfs.FS) []float32 {
		f, err := modelfile.Open(fsys, "m")
		require.NoError(t, err)
		defer f.Close()
		require.NoError(t, f.Merge(fsys, "lora"))
		return modeltest.WholeTensor(t, f.Source, module+".weight")
	}
	require.Equal(t, merged(plain), merged(packed))
}

func newRandom() *rand.Rand { return rand.New(rand.NewPCG(3, 4)) }

// unpackRaw opens tensors that were packed as p.
func unpackRaw(t *testing.T, tensors map[string]modeltest.RawTensor, p modeltest.PackedAs) (store.Source, []string, error) {
	t.Helper()
	src, err := safetensors.Open(modeltest.WriteRaw(t, modeltest.Fields{}, tensors), "m")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, src.Close()) })
	text, err := json.Marshal(modeltest.Fields{"quantization_config": p.Config()})
	require.NoError(t, err)
	c, err := arch.NewHFConfig("config.json", text)
	require.NoError(t, err)
	packing := c.IntPacking()
	require.NoError(t, c.Err)
	return modelfile.UnpackIntegers(src, packing, "m")
}
