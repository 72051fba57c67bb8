package exec

import (
	"context"
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/safetensors"
	"github.com/llmrun/llmrun/store/vfs"
)

// packVariants lists the variants of packed checkpoints.
var packVariants = []packedAs{
	{name: "gptq", bits: 4, group: 32},
	{name: "gptq symmetric", bits: 4, group: 64, symmetric: true},
	{name: "gptq whole rows", bits: 4, group: -1},
	{name: "gptq ordered by activation", bits: 4, group: 32, order: true},
	{name: "gptq v2", bits: 4, group: 32, v2: true},
	{name: "gptq symmetric ordered", bits: 4, group: 32, symmetric: true, order: true},
	{name: "gptq odd groups", bits: 4, group: 24},
	{name: "gptq odd groups ordered", bits: 4, group: 24, order: true},
	{name: "gptq 8 bits", bits: 8, group: 32},
	{name: "gptq 8 bits symmetric", bits: 8, group: 128, symmetric: true},
	{name: "gptq v2 8 bits symmetric", bits: 8, group: 32, symmetric: true, v2: true},
	{name: "awq", bits: 4, group: 32, awq: true},
	{name: "awq whole rows", bits: 4, group: -1, awq: true},
}

// wholeTensor returns all values of a tensor.
func wholeTensor(t *testing.T, src store.Source, name string) []float32 {
	t.Helper()
	tensor, ok := src.Tensor(name)
	require.True(t, ok, name)
	values, err := modelfile.ReadFloats(src, tensor)
	require.NoError(t, err)
	return values
}

// distance returns the norm of the difference relative to the norm of want.
func distance(want, got []float32) float64 {
	var difference, all float64
	for i := range want {
		difference += float64((want[i] - got[i]) * (want[i] - got[i]))
		all += float64(want[i] * want[i])
	}
	return math.Sqrt(difference / all)
}

// TestPackedWeightsAreExact writes all families with packed weights and compares values and
// logits with the same weights as floats, both for the checkpoint and for a pack made from it.
func TestPackedWeightsAreExact(t *testing.T) {
	for _, dir := range fixtureDirs(t) {
		for _, p := range packVariants {
			if p.name != "gptq" && p.name != "awq" && filepath.Base(dir) != "llama3" {
				continue // the packing does not depend on the family
			}
			t.Run(filepath.Base(dir)+"/"+p.name, func(t *testing.T) {
				packed, plain, values := packFixture(t, dir, p)
				f, err := modelfile.Open(packed, "m")
				require.NoError(t, err)
				defer func() { require.NoError(t, f.Close()) }()
				natural, err := f.InInputOrder()
				require.NoError(t, err)
				for name, want := range values {
					require.Equal(t, want, wholeTensor(t, natural, name), name)
				}
				ids := []int32{1, 5, 3, 9, 2, 7}
				o := Options{Threads: 2, Exact: true}
				want := allLogits(t, loadModel(t, plain, "m", o), ids)
				require.Equal(t, want, allLogits(t, loadModel(t, packed, "m", o), ids))
				imported := importModel(t, packed, "m")
				require.Equal(t, want, allLogits(t, loadModel(t, imported, "m.pack", o), ids))
				o.Exact = false
				quantized := allLogits(t, loadModel(t, packed, "m", o), ids)
				require.Equal(t, quantized, allLogits(t, loadModel(t, imported, "m.pack", o), ids))
				for i := range want {
					require.Less(t, distance(want[i], quantized[i]), 0.05, "quantized activations, position %d", i)
				}
			})
		}
	}
}

// TestPackedWeightsHaveTheSmallestType checks the tensor type that each variant becomes and that
// a notice reports larger types.
func TestPackedWeightsHaveTheSmallestType(t *testing.T) {
	types := map[string]quant.Type{
		"gptq": quant.I4Z, "gptq symmetric": quant.Q4_0, "gptq whole rows": quant.I4Z, "gptq v2": quant.I4Z,
		"gptq ordered by activation": quant.I4Z, "gptq symmetric ordered": quant.Q4_0,
		"gptq 8 bits symmetric": quant.Q8_0, "gptq v2 8 bits symmetric": quant.Q8_0, "awq": quant.I4Z, "awq whole rows": quant.I4Z,
	}
	for _, p := range packVariants {
		want, known := types[p.name]
		if !known {
			want = quant.F32
		}
		packed, _, values := packFixture(t, fixtureNamed(t, "llama3"), p)
		f, err := modelfile.Open(packed, "m")
		require.NoError(t, err)
		for name := range values {
			tensor, _ := f.Source.Tensor(name)
			require.Equal(t, want, tensor.Type, "%s: %s", p.name, name)
		}
		require.Equal(t, want == quant.F32, len(f.Warnings()) == 1, p.name)
		_, ok := f.Source.Tensor("model.layers.0.mlp.down_proj.scales")
		require.False(t, ok, "scales are not listed as tensors")
		require.NoError(t, f.Close())
	}
}

func fixtureNamed(t *testing.T, name string) string {
	t.Helper()
	return testutil.Shared(t, "fixtures", name)
}

// TestPackedWeightsInRanges compares reads of odd ranges with the whole tensor,
// because threads read ranges.
func TestPackedWeightsInRanges(t *testing.T) {
	for _, p := range []packedAs{{bits: 4, group: 32}, {bits: 4, group: 32, awq: true}} {
		packed, _, _ := packFixture(t, fixtureNamed(t, "llama3"), p)
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
		tensors, p := map[string]rawTensor{}, packedAs{bits: 4, group: -1, symmetric: true}
		p.pack(tensors, "a", 8, 32, newRandom())
		scales := make([]float32, 8)
		for i := range scales {
			scales[i] = scale
		}
		tensors["a.scales"] = rawTensor{"F32", []int{1, 8}, modelfile.AppendFloats(nil, scales)}
		src, _, err := unpackRaw(t, tensors, p)
		require.NoError(t, err)
		tensor, _ := src.Tensor("a.weight")
		require.Equal(t, want, tensor.Type)
		for i, v := range wholeTensor(t, src, "a.weight") {
			code := tensors["a.qweight"].data[i%32/8*32+i/32*4+i%8/2] >> (i % 2 * 4) & 15
			require.Equal(t, scale*float32(int(code)-8), v)
		}
	}
}

// TestMalformedPackedWeights changes one tensor at a time.
func TestMalformedPackedWeights(t *testing.T) {
	for _, c := range []struct {
		name   string
		awq    bool
		change func(tensors map[string]rawTensor)
		want   string
	}{
		{"no scales", false, func(m map[string]rawTensor) { delete(m, "a.scales") }, "tensor a.scales is missing"},
		{"no zeros", false, func(m map[string]rawTensor) { delete(m, "a.qzeros") }, "tensor a.qzeros is missing"},
		{"no zeros in awq", true, func(m map[string]rawTensor) { delete(m, "a.qzeros") }, "tensor a.qzeros is missing"},
		{"codes of 64 bits", false, func(m map[string]rawTensor) {
			m["a.qweight"] = rawTensor{"I64", []int{4, 8}, make([]byte, 256)}
		}, "tensor a.qweight has type I64"},
		{"codes without inputs", false, func(m map[string]rawTensor) { m["a.qweight"] = words([]int{0, 8}, nil) }, "tensor a.qweight has the shape [0 8]"},
		{"codes in a row", false, func(m map[string]rawTensor) { m["a.qweight"] = words([]int{32}, make([]uint32, 32)) }, "tensor a.qweight has the shape [32]"},
		{"outputs in parts of words", false, func(m map[string]rawTensor) { m["a.qweight"] = words([]int{4, 6}, make([]uint32, 24)) }, "6 outputs"},
		{"scales of other groups", false, func(m map[string]rawTensor) { m["a.scales"] = rawTensor{"F16", []int{1, 8}, make([]byte, 16)} }, "tensor a.scales has the shape [1 8], not [2 8]"},
		{"zeros of other outputs", true, func(m map[string]rawTensor) { m["a.qzeros"] = words([]int{2, 2}, make([]uint32, 4)) }, "tensor a.qzeros has the shape [2 2], not [2 1]"},
		{"too few inputs in g_idx", false, func(m map[string]rawTensor) { m["a.g_idx"] = words([]int{16}, make([]uint32, 16)) }, "tensor a.g_idx has the shape [16], not [32]"},
		{"group beyond the last", false, func(m map[string]rawTensor) {
			groups := make([]uint32, 32)
			groups[7] = 2
			m["a.g_idx"] = words([]int{32}, groups)
		}, "tensor a.g_idx puts input 7 into group 2 of 2"},
		{"negative group", false, func(m map[string]rawTensor) {
			groups := make([]uint32, 32)
			groups[31] = 1<<32 - 1
			m["a.g_idx"] = words([]int{32}, groups)
		}, "puts input 31 into group -1 of 2"},
		{"both packed and not", false, func(m map[string]rawTensor) { m["a.weight"] = rawTensor{"F32", []int{1}, make([]byte, 4)} }, "tensor a.weight is stored twice: also as a.qweight"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tensors, p := map[string]rawTensor{}, packedAs{bits: 4, group: 16, awq: c.awq}
			p.pack(tensors, "a", 8, 32, newRandom())
			c.change(tensors)
			_, _, err := unpackRaw(t, tensors, p)
			require.ErrorIs(t, err, arch.ErrModel)
			require.ErrorContains(t, err, c.want)
		})
	}
}

// TestUnsupportedPackings changes one field of quantization_config at a time.
func TestUnsupportedPackings(t *testing.T) {
	for _, c := range []struct {
		field string
		value any
		want  string
	}{
		{"quant_method", "fp8", `"fp8"`},
		{"bits", 3, "3; only [4 8]"},
		{"bits", 2, "2; only [4 8]"},
		{"bits", absent, "is missing"},
		{"bits", "four", "string"},
		{"group_size", -2, "-2 is neither"},
		{"group_size", 0, "0 is neither"},
		{"group_size", 1.5, "not a whole number"},
		{"checkpoint_format", "marlin", `"marlin"`},
		{"dynamic", fields{"+:.*down.*": fields{"bits": 8}}, "differ between layers"},
	} {
		q := packedAs{bits: 4, group: 128}.config()
		q[c.field] = c.value
		if c.value == absent {
			delete(q, c.field)
		}
		err := openAndLoad(writeTinyHF(t, tinyConfig(t, fields{"quantization_config": q})), "m")
		require.ErrorContains(t, err, "config.json: quantization_config")
		require.ErrorContains(t, err, c.want)
		require.ErrorContains(t, err, map[bool]string{true: "gptq, awq and mxfp4", false: c.field}[c.field == "quant_method"])
	}
	q := packedAs{bits: 4, group: 128, awq: true}.config()
	q["version"] = "gemv"
	require.ErrorContains(t, openAndLoad(writeTinyHF(t, tinyConfig(t, fields{"quantization_config": q})), "m"), `field version: "gemv"`)
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
	dir := fixtureNamed(t, "llama3")
	packed, plain, values := packFixture(t, dir, packedAs{bits: 4, group: 32, order: true})
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
		writeFile(t, fsys, "lora/adapter_config.json", []byte(`{"peft_type": "LORA", "r": 1, "lora_alpha": 1}`))
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
		return wholeTensor(t, f.Source, module+".weight")
	}
	require.Equal(t, merged(plain), merged(packed))
}

// TestOrderedColumnsAreStreamed streams part of a pack: the column order applies to the resident
// and the streamed rows of a matrix.
func TestOrderedColumnsAreStreamed(t *testing.T) {
	packed, _, _ := packFixture(t, fixtureNamed(t, "llama3"), packedAs{bits: 4, group: 32, order: true})
	f := openPack(t, importModel(t, packed, "m"))
	ids := []int32{1, 5, 3, 9, 2, 7}
	whole := loadPart(t, f, Options{Threads: 2})
	want := allLogits(t, whole, ids)
	for seed := range uint64(3) {
		rng := rand.New(rand.NewPCG(seed, 3))
		m := loadPart(t, f, Options{Threads: 2, Plan: partPlan(rng, whole.Spec)})
		require.Equal(t, want, allLogits(t, m, ids), "seed %d", seed)
		require.NoError(t, m.Replan(context.Background(), partPlan(rng, whole.Spec)))
		require.Equal(t, want, allLogits(t, m, ids), "seed %d, after another plan", seed)
		require.NotNil(t, m.weights.Layers[0].Q.Order)
	}
}
