package hubmodel

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/llmrun/llmrun/store/safetensors"
	"github.com/llmrun/llmrun/store/vfs"
)

// WriteAdapter writes a LoRA adapter of random factors for the bundled model, as peft writes it, to a directory.
func WriteAdapter(dir string, seed uint64) error {
	const rank, layers = 4, 8
	config := fmt.Sprintf(`{"peft_type": "LORA", "r": %d, "lora_alpha": %d}`, rank, 2*rank)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "adapter_config.json"), []byte(config), 0o600); err != nil {
		return err
	}
	w := tensorWriter{random: rand.New(rand.NewPCG(3, seed))}
	for l := range layers {
		for _, m := range []struct {
			name       string
			rows, cols int
		}{{"self_attn.q_proj", 384, 384}, {"self_attn.v_proj", 128, 384}, {"mlp.down_proj", 384, 1024}} {
			name := fmt.Sprintf("base_model.model.model.layers.%d.%s.lora_", l, m.name)
			w.add(name+"A.weight", 0.04, rank, m.cols)
			w.add(name+"B.weight", 0.04, m.rows, rank)
		}
	}
	return safetensors.Write(vfs.OS(), filepath.Join(dir, "adapter_model.safetensors"), w.tensors)
}
