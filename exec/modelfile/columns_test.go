package modelfile_test

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/internal/modeltest"
	"github.com/llmrun/llmrun/quant"
)

// columnConfig is the config.json of a gpt-oss with experts in BF16.
func columnConfig(quantized bool) modeltest.Fields {
	config := modeltest.Fields{}
	for key, value := range mxConfig {
		if key != "quantization_config" || quantized {
			config[key] = value
		}
	}
	return config
}

// columnTensors are both projections of 2 experts with 3 rows of gate and of up, and 64 columns: each element has its number.
func columnTensors() map[string]modeltest.RawTensor {
	numbers := func(shape ...int) modeltest.RawTensor {
		r := modeltest.RawTensor{Dtype: "BF16", Shape: shape}
		for i := range shape[0] * shape[1] * shape[2] {
			r.Data = binary.LittleEndian.AppendUint16(r.Data, uint16(i))
		}
		return r
	}
	const experts = "model.layers.0.mlp.experts."
	return map[string]modeltest.RawTensor{
		experts + "gate_up_proj":      numbers(2, 64, 6),
		experts + "down_proj":         numbers(2, 3, 64),
		experts + "gate_up_proj_bias": {Dtype: "BF16", Shape: []int{2, 6}, Data: make([]byte, 24)},
	}
}

// TestTransposedExperts compares rows of experts with the stored columns, and reads of parts with those of the whole. A file
// whose configuration still says MXFP4 is read the same way.
func TestTransposedExperts(t *testing.T) {
	for _, quantized := range []bool{false, true} {
		f, err := modelfile.Open(modeltest.WriteRaw(t, columnConfig(quantized), columnTensors()), "m")
		require.NoError(t, err)
		defer f.Close()
		const experts = "model.layers.0.mlp.experts."
		for name, want := range map[string]struct{ shape, perColumn []int }{ // elements of a stored column, the first one, the step
			"gate_proj": {[]int{2, 3, 64}, []int{6, 0, 2}},
			"up_proj":   {[]int{2, 3, 64}, []int{6, 1, 2}},
			"down_proj": {[]int{2, 64, 3}, []int{64, 0, 1}},
		} {
			w, ok := f.Source.Tensor(experts + name + ".weight")
			require.True(t, ok, name)
			require.Equal(t, quant.BF16, w.Type)
			require.Equal(t, want.shape, w.Shape)
			raw := make([]byte, w.Size)
			_, err := f.Source.ReadAt(w, raw, 0)
			require.NoError(t, err)
			rows, cols := want.shape[1], want.shape[2]
			for i := range len(raw) / 2 {
				e, r, c := i/rows/cols, i/cols%rows, i%cols
				stored := (e*cols+c)*want.perColumn[0] + want.perColumn[1] + r*want.perColumn[2]
				require.Equal(t, uint16(stored), binary.LittleEndian.Uint16(raw[2*i:]), "%s: element %d", name, i)
			}
			for off := range raw {
				for _, n := range []int{1, 5, (len(raw) - off) / 2, len(raw) - off} {
					some := make([]byte, min(n, len(raw)-off))
					_, err := f.Source.ReadAt(w, some, int64(off))
					require.NoError(t, err)
					require.Equal(t, raw[off:off+len(some)], some, "%s: %d bytes at %d", name, n, off)
				}
			}
			_, err = f.Source.ReadAt(w, make([]byte, 1), w.Size)
			require.ErrorIs(t, err, arch.ErrModel)
		}
	}
}

// TestMalformedTransposedExperts refuses what is no pair of gate and up, or no float.
func TestMalformedTransposedExperts(t *testing.T) {
	const module = "model.layers.0.mlp.experts.gate_up_proj"
	for reason, change := range map[string]func(map[string]modeltest.RawTensor){
		"odd number of columns": func(m map[string]modeltest.RawTensor) {
			m[module] = modeltest.RawTensor{Dtype: "BF16", Shape: []int{2, 64, 3}, Data: make([]byte, 768)}
		},
		"stored twice": func(m map[string]modeltest.RawTensor) {
			m["model.layers.0.mlp.experts.up_proj.weight"] = modeltest.RawTensor{Dtype: "BF16", Shape: []int{2, 3, 64}, Data: make([]byte, 768)}
		},
	} {
		tensors := columnTensors()
		change(tensors)
		_, err := modelfile.Open(modeltest.WriteRaw(t, columnConfig(false), tensors), "m")
		require.ErrorIs(t, err, arch.ErrModel, reason)
		require.ErrorContains(t, err, reason)
	}
}
