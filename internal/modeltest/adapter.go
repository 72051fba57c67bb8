package modeltest

import (
	"math/rand/v2"
	"strings"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store/gguf"
)

// GGUFAdapter is an adapter of random factors for a model, as the keys and tensors of a GGUF file, and the model
// with the changes of the adapter in its weights.
func GGUFAdapter(model *GGUF, scale float32) (adapter, changed *GGUF) {
	const rank = 2
	rng := rand.New(rand.NewPCG(8, 9))
	adapter = &GGUF{}
	adapter.Set("general.type", "adapter")
	adapter.Set("adapter.type", "lora")
	adapter.Set("adapter.lora.alpha", float32(rank)/2) // the adapter's own scale is a half
	changed = &GGUF{Keys: model.Keys}
	factor := func(name string, rows, cols int) []float32 {
		values := make([]float32, rows*cols)
		for i := range values {
			values[i] = 0.2 * float32(rng.NormFloat64())
		}
		adapter.Tensors = append(adapter.Tensors, gguf.TensorData{Name: name, Type: quant.F32, Shape: []int{rows, cols}, Data: modelfile.AppendFloats(nil, values)})
		return values
	}
	for _, tensor := range model.Tensors {
		if strings.HasPrefix(tensor.Name, "blk.") && len(tensor.Shape) == 2 {
			rows, cols := tensor.Shape[0], tensor.Shape[1]
			a, b := factor(tensor.Name+".lora_a", rank, cols), factor(tensor.Name+".lora_b", rows, rank)
			values := make([]float32, rows*cols)
			quant.DequantRow(tensor.Type, values, tensor.Data)
			for i := range values {
				for r := range rank {
					values[i] += scale / 2 * b[i/cols*rank+r] * a[r*cols+i%cols]
				}
			}
			tensor.Type, tensor.Data = quant.F32, modelfile.AppendFloats(nil, values)
		}
		changed.Tensors = append(changed.Tensors, tensor)
	}
	return adapter, changed
}
