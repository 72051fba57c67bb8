// Package hubmodel gives tests the bundled model as a Hugging Face directory. The repository
// has only the pack; this package writes the files from which the pack was imported, and
// checks that they are those files to the byte.
package hubmodel

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/pack"
	"github.com/llmrun/llmrun/store/safetensors"
	"github.com/llmrun/llmrun/store/vfs"
)

// Pack is the path of the bundled model's pack in the repository.
const Pack = "cmd/llmrun/bundled/model.pack"

// WeightsSHA256 is the hash of the weights file that the training program wrote.
const WeightsSHA256 = "dbc1e48cfd9545d2a36d695d3aa4db8de4f1b02bc23cf2b1a1762696653ec8ba"

// Name is the base name of the directory. The pack has it as the name of its source.
const Name = "model"

// configFiles are the files of the directory besides the weights.
var configFiles = []string{"config.json", "generation_config.json", "special_tokens_map.json", "tokenizer.json", "tokenizer_config.json"}

// roles maps the names of tensors in a pack to those in a Hugging Face directory.
var roles = strings.NewReplacer(
	"token_embd", "model.embed_tokens", "output_norm", "model.norm", "blk.", "model.layers.",
	"attn_norm", "input_layernorm", "ffn_norm", "post_attention_layernorm",
	"attn_q", "self_attn.q_proj", "attn_k", "self_attn.k_proj", "attn_v", "self_attn.v_proj", "attn_output", "self_attn.o_proj",
	"ffn_gate", "mlp.gate_proj", "ffn_up", "mlp.up_proj", "ffn_down", "mlp.down_proj",
)

// cacheDir is the parent of the written directories. It is computed at process start,
// because tests change the environment.
var cacheDir = func() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = os.TempDir()
	}
	return filepath.Join(dir, "llmrun-testdata")
}()

// Dir returns the directory. It writes the directory once for each user. root is the
// repository's root. Dir panics if that fails, so that a variable of a test can hold its
// result.
func Dir(root string) string {
	target := filepath.Join(cacheDir, "hub-"+WeightsSHA256[:16], Name)
	if _, err := os.Stat(target); err == nil {
		return target
	}
	if err := write(filepath.Join(root, filepath.FromSlash(Pack)), target); err != nil {
		panic(fmt.Sprintf("writing the bundled model as a directory: %v", err))
	}
	return target
}

// write writes the directory of a pack. Other processes see it only when it is complete.
func write(packed, target string) (err error) {
	p, err := pack.Open(vfs.OS(), packed)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	partial, err := os.MkdirTemp(filepath.Dir(target), "partial-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(partial) }() // no effect after the rename
	if err := writeFiles(p, partial); err != nil {
		return err
	}
	if err := os.Rename(partial, target); err != nil {
		if _, missing := os.Stat(target); missing != nil {
			return err
		}
	}
	return nil
}

// writeFiles writes the weights and the attachments of a pack.
func writeFiles(p *pack.File, dir string) error {
	tensors, err := readTensors(p)
	if err != nil {
		return err
	}
	weights := filepath.Join(dir, "model.safetensors")
	if err := safetensors.Write(vfs.OS(), weights, tensors); err != nil {
		return err
	}
	data, err := os.ReadFile(weights)
	if err != nil {
		return err
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != WeightsSHA256 {
		return fmt.Errorf("the weights of %s have the hash %x, not %s", p.Path(), sum, WeightsSHA256)
	}
	for _, name := range configFiles {
		data, err := vfs.ReadFile(p.Attachments(), name, 1<<20)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// readTensors reads all tensors with the names and types of the source, in the order of its
// names. A pack stores vectors as F32; those of the source are BF16.
func readTensors(p *pack.File) (tensors []safetensors.TensorData, err error) {
	for _, t := range p.Tensors() {
		data := make([]byte, t.Size)
		if _, err := p.ReadAt(t, data, 0); err != nil {
			return nil, err
		}
		if t.Type == quant.F32 {
			t.Type, data = quant.BF16, toBF16(data)
		}
		tensors = append(tensors, safetensors.TensorData{Name: roles.Replace(t.Name), Type: t.Type, Shape: sourceShape(t), Data: data})
	}
	slices.SortFunc(tensors, func(a, b safetensors.TensorData) int { return strings.Compare(a.Name, b.Name) })
	return tensors, nil
}

// sourceShape returns the shape of a tensor without axes of length 1.
func sourceShape(t store.Tensor) []int {
	return slices.DeleteFunc(slices.Clone(t.Shape), func(n int) bool { return n == 1 })
}

// toBF16 converts float32 values that were converted from bfloat16.
func toBF16(data []byte) []byte {
	out := make([]byte, 0, len(data)/2)
	for i := 0; i < len(data); i += 4 {
		out = binary.LittleEndian.AppendUint16(out, uint16(binary.LittleEndian.Uint32(data[i:])>>16))
	}
	return out
}
