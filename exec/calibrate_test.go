package exec

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/internal/modeltest"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// TestCalibrationMeasuresInputs compares the importance of the first layer's projections with
// one computed directly from their inputs, the normalized embedding rows.
func TestCalibrationMeasuresInputs(t *testing.T) {
	f, err := modelfile.Open(vfs.OS(), modeltest.Fixture(t, "llama3"))
	require.NoError(t, err)
	defer f.Close()
	ids := make([]int32, calibrationWindow+37) // the last window is shorter
	for i := range ids {
		ids[i] = int32(i*i) % 500
	}
	budget := tiering.New(0)
	var last, total int64
	got, err := Calibrate(context.Background(), f, ids, Options{Exact: true, Threads: 2, Budget: budget}, func(done, all int64) { last, total = done, all })
	require.NoError(t, err)
	require.Zero(t, budget.Usage().Total, "the model is closed")
	require.Equal(t, [2]int64{int64(len(ids)), int64(len(ids))}, [2]int64{last, total})

	spec, err := f.Spec()
	require.NoError(t, err)
	embed, _ := f.Source.Tensor("model.embed_tokens.weight")
	gain := modeltest.WholeTensor(t, f.Source, "model.layers.0.input_layernorm.weight")
	want := make([]float64, spec.Dim)
	row := make([]float32, spec.Dim)
	for _, id := range ids {
		require.NoError(t, modelfile.ReadRow(f.Source, embed, row, int(id)))
		var power float64
		for _, v := range row {
			power += float64(v) * float64(v)
		}
		inverse := 1 / math.Sqrt(power/float64(spec.Dim)+float64(spec.Norm.Eps))
		for i, v := range row {
			x := float64(v) * inverse * float64(gain[i])
			want[i] += x * x / float64(len(ids))
		}
	}
	for _, name := range []string{"blk.0.attn_q.weight", "blk.0.attn_k.weight", "blk.0.attn_v.weight"} {
		require.InDeltaSlice(t, want, got[name], 1e-4, name)
	}
	for _, name := range []string{"blk.1.attn_output.weight", "blk.1.ffn_gate.weight", "blk.1.ffn_up.weight", "blk.1.ffn_down.weight"} {
		require.NotEmpty(t, got[name], name)
	}
	_, err = Calibrate(context.Background(), f, nil, Options{}, nil)
	require.Error(t, err)
	_, err = Calibrate(context.Background(), f, []int32{-1}, Options{}, nil)
	require.ErrorIs(t, err, ErrToken)
}

// TestImportanceReachesEveryMatrix measures the importance of all families' matrices and
// requires one for every matrix that can be quantized to 4 bits.
func TestImportanceReachesEveryMatrix(t *testing.T) {
	for _, dir := range modeltest.FixtureDirs(t) {
		f, err := modelfile.Open(vfs.OS(), dir)
		require.NoError(t, err)
		ids := make([]int32, 300)
		for i := range ids {
			ids[i] = int32(i*7) % 500
		}
		importance, err := Calibrate(context.Background(), f, ids, Options{Exact: true, Threads: 2}, nil)
		require.NoError(t, err)
		require.NoError(t, f.Quantize("q4all", importance))
		q := f.Source.(*modelfile.Quantized)
		four := 0
		for _, tensor := range q.Tensors() {
			if tensor.Type == quant.Q4_1 {
				four++
				require.Len(t, q.Importance[tensor.Name], tensor.Cols(), "%s: %s", dir, tensor.Name)
			}
		}
		require.NotZero(t, four, dir)
		require.NoError(t, f.Close())
	}
}

// TestMixesAtImportAndAtLoad compares the logits of a model that is quantized while
// it loads with those of a pack that was quantized at import.
func TestMixesAtImportAndAtLoad(t *testing.T) {
	open := func(mix string) *modelfile.Files {
		f, err := modelfile.Open(vfs.OS(), modeltest.Fixture(t, "qwen2_moe"))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, f.Close()) })
		require.NoError(t, f.Quantize(mix, nil))
		return f
	}
	for _, mix := range modelfile.Mixes() {
		for _, exact := range []bool{true, false} {
			o := Options{Threads: 2, Exact: exact}
			loaded, err := Load(context.Background(), open(mix.Name), o)
			require.NoError(t, err)
			to := vfs.NewMem()
			require.NoError(t, weights.Import(context.Background(), open(mix.Name), to, "m.pack", weights.ImportOptions{}))
			ids := []int32{3, 1, 4, 1, 5, 9, 2, 6}
			require.Equal(t, allLogits(t, loaded, ids), allLogits(t, loadModel(t, to, "m.pack", o), ids), mix.Name)
			loaded.Close()
		}
	}
}
