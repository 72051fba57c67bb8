package exec

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/internal/modeltest"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store/safetensors"
	"github.com/llmrun/llmrun/store/vfs"
)

// TestLanguageModelOfMultimodalModels writes the small model's tensors under the names that they
// have in multimodal models, beside a vision encoder: the text part computes the same logits, and a
// warning names what is left out.
func TestLanguageModelOfMultimodalModels(t *testing.T) {
	replace := func(prefix string) func(string) string {
		return func(name string) string {
			if rest, ok := strings.CutPrefix(name, "model."); ok {
				return prefix + rest
			}
			return name
		}
	}
	ids := []int32{1, 5, 3, 2}
	var want [][]float32
	for _, c := range []struct {
		layout   string
		name     func(string) string
		extra    []string
		warnings []string
	}{
		{"text", func(n string) string { return n }, nil, nil},
		{
			"old", func(n string) string { return "language_model." + n },
			[]string{"vision_tower.a", "multi_modal_projector.b"},
			[]string{"m/config.json: 2 tensors (0.0 MB) are left out, because they are no part of the language model: multi_modal_projector, vision_tower"},
		},
		{
			"new", replace("model.language_model."),
			[]string{"model.visual.a", "mtp.fc"},
			[]string{"m/config.json: 2 tensors (0.0 MB) are left out, because they are no part of the language model: mtp, visual"},
		},
		{"bare", replace(""), nil, nil},
		{"old with the output matrix outside", func(n string) string {
			if strings.HasPrefix(n, "lm_head") {
				return n
			}
			return "language_model." + n
		}, nil, nil},
		{"new with the output matrix inside", func(n string) string {
			return "model.language_model." + strings.TrimPrefix(n, "model.")
		}, nil, nil},
		{"new with the output matrix beside the decoder", func(n string) string {
			if strings.HasPrefix(n, "lm_head") {
				return "model." + n
			}
			return replace("model.language_model.")(n)
		}, nil, nil},
	} {
		t.Run(c.layout, func(t *testing.T) {
			fsys := vfs.NewMem()
			require.NoError(t, fsys.MkdirAll("m"))
			var tensors []safetensors.TensorData
			for _, r := range modeltest.TinyTensors() {
				name := c.name(arch.Llama.HFName(r.Role, r.Layer) + ".weight")
				tensors = append(tensors, safetensors.TensorData{Name: name, Type: r.Type, Shape: r.Shape, Data: r.Data})
			}
			for _, name := range c.extra {
				tensors = append(tensors, safetensors.TensorData{Name: name + ".weight", Type: quant.F32, Shape: []int{1}, Data: make([]byte, 4)})
			}
			require.NoError(t, safetensors.Write(fsys, "m/model.safetensors", tensors))
			modeltest.WriteFile(t, fsys, "m/config.json", modeltest.TinyConfig(t, nil))
			f, err := modelfile.Open(fsys, "m")
			require.NoError(t, err)
			require.Equal(t, c.warnings, f.Warnings())
			require.NoError(t, f.Close())
			got := allLogits(t, loadModel(t, fsys, "m", Options{Threads: 1}), ids)
			if want == nil {
				want = got
			}
			require.Equal(t, want, got)
		})
	}
}
