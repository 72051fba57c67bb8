package exec

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/internal/modeltest"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store/gguf"
	"github.com/llmrun/llmrun/store/vfs"
)

// withScales divides every matrix of a model by a power of two, a different one for each expert, and adds the
// scales that undo it. The products are the same bits.
func withScales(model *modeltest.GGUF) *modeltest.GGUF {
	scaled, power := &modeltest.GGUF{Keys: model.Keys}, 0
	for _, tensor := range model.Tensors {
		role, isWeight := strings.CutSuffix(tensor.Name, ".weight")
		if !isWeight || len(tensor.Shape) < 2 || !strings.HasPrefix(role, "blk.") || strings.HasSuffix(role, "ffn_gate_inp") {
			scaled.Tensors = append(scaled.Tensors, tensor)
			continue
		}
		values := make([]float32, modelfile.Elems(tensor.Shape))
		quant.DequantRow(tensor.Type, values, tensor.Data)
		parts := 1
		if len(tensor.Shape) == 3 {
			parts = tensor.Shape[0]
		}
		scales := make([]float32, parts)
		for i := range parts {
			power = power%5 + 1
			scales[i] = float32(math.Ldexp(1, -power))
			part := values[i*len(values)/parts:][:len(values)/parts]
			quant.Scale(part, 1/scales[i])
		}
		tensor.Type, tensor.Data = quant.F32, modelfile.AppendFloats(nil, values)
		scaled.Tensors = append(scaled.Tensors, tensor,
			gguf.TensorData{Name: role + modelfile.ScaleSuffix, Type: quant.F32, Shape: []int{parts}, Data: modelfile.AppendFloats(nil, scales)},
			gguf.TensorData{Name: role + ".input_scale", Type: quant.F32, Shape: []int{1}, Data: modelfile.AppendFloats(nil, []float32{3})})
	}
	return scaled
}

// TestScalesOfMatrices runs models whose matrices have scales, as GGUF files and as packs, also with experts that
// are read when they are used.
func TestScalesOfMatrices(t *testing.T) {
	ids := []int32{1, 5, 3, 9, 2, 7}
	for _, name := range []string{"mistral", "qwen3_moe"} {
		t.Run(name, func(t *testing.T) {
			model := modeltest.ExportFixture(t, testutil.Shared(t, "fixtures", name))
			o := Options{Threads: 2, Exact: true}
			want := allLogits(t, loadModel(t, model.Write(t), "m.gguf", o), ids)
			files := withScales(model).Write(t)
			require.Equal(t, want, allLogits(t, loadModel(t, files, "m.gguf", o), ids))
			require.Equal(t, want, allLogits(t, loadModel(t, modeltest.ImportModel(t, files, "m.gguf"), "m.pack", o), ids))
		})
	}
}

// TestScalesOfTheWrongShape checks that a scale that is not one number for each matrix is an error that names it.
func TestScalesOfTheWrongShape(t *testing.T) {
	model := withScales(modeltest.ExportFixture(t, testutil.Shared(t, "fixtures", "mistral")))
	for i := range model.Tensors {
		if s := &model.Tensors[i]; s.Name == "blk.1.ffn_up.scale" {
			s.Shape, s.Data = []int{2}, make([]byte, 8)
		}
	}
	err := openAndLoad(model.Write(t), "m.gguf")
	require.ErrorIs(t, err, arch.ErrModel)
	require.ErrorContains(t, err, "blk.1.ffn_up.scale has 2 elements")
}

// TestAdaptersOfScaledMatrices adds an adapter to matrices with scales, merged and beside them.
func TestAdaptersOfScaledMatrices(t *testing.T) {
	model, ids := modeltest.ExportFixture(t, testutil.Shared(t, "fixtures", "mistral")), []int32{1, 5, 3}
	adapter, changed := modeltest.GGUFAdapter(model, 2)
	want := allLogits(t, loadModel(t, changed.Write(t), "m.gguf", Options{Threads: 2}), ids)
	fsys := withScales(model).Write(t)
	require.NoError(t, gguf.Write(fsys, "lora.gguf", adapter.Keys, adapter.Tensors))
	for way, add := range map[string]func(*modelfile.Files, vfs.FS, string) error{"merged": (*modelfile.Files).Merge, "beside": (*modelfile.Files).KeepBeside} {
		f, err := modelfile.Open(fsys, "m.gguf")
		require.NoError(t, err)
		defer f.Close()
		require.NoError(t, add(f, fsys, "lora.gguf:2"), way)
		requireClose(t, allLogits(t, loadPart(t, f, Options{Threads: 2}), ids), want, 1e-3)
	}
}
