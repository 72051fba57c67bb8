package llmrun_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store/safetensors"
	"github.com/llmrun/llmrun/store/vfs"
)

// strangerKind is a model of TestStrangersInOnePass.
type strangerKind struct {
	name   string
	config map[string]any // of a model of random weights
	set    string         // of a fixture of the name, instead
	long   bool           // texts are long enough for pages to be selected
	planes bool           // high planes of its weights can guess
	whole  bool           // its adapters change tensors that packs store in another way
}

// strangerKinds are full and windowed attention, experts, two ropes, short convolutions, recurrent state of four families, shared and
// latent keys, and several residual streams.
var strangerKinds = []strangerKind{
	{name: "llama", config: stressKinds[0], planes: true},
	{name: "window", config: stressKinds[1], planes: true},
	{name: "lfm2", set: "fixtures"},
	{name: "qwen3_next", set: "fixtures2026"},
	{name: "long", config: map[string]any{"model_type": "llama", "max_position_embeddings": 4096}, long: true, planes: true},
	{name: "mamba2", set: "fixtures2026", whole: true},
	{name: "gemma3n", set: "fixtures2026", whole: true},
	{name: "experts", config: stressKinds[2]},
	{name: "longrope", config: stressKinds[3], planes: true},
	{name: "qwen3_5", set: "fixtures2026", whole: true},
	{name: "falcon_h1", set: "fixtures2026", whole: true},
	{name: "deepseek_v2", set: "fixtures2026"},
	{name: "gemma4", set: "fixtures2026"},
	{name: "gpt_oss", set: "fixtures2026"},
	{name: "nemotron_h", set: "fixtures2026", whole: true},
	{name: "granitemoehybrid", set: "fixtures2026"},
	{name: "lfm2_moe", set: "fixtures2026"},
	{name: "gemma3", set: "fixtures", planes: true},
	{name: "phi3", set: "fixtures", planes: true},
}

// strangerModel is a model with a tokenizer and adapters, in several formats of its weights.
type strangerModel struct {
	strangerKind
	dir      string
	packs    map[string]string // by their mix
	adapters []string          // directories
}

// newStrangerModel writes a model, its tokenizer and its adapters.
func newStrangerModel(t *testing.T, kind *strangerKind) *strangerModel {
	m := &strangerModel{strangerKind: *kind, packs: map[string]string{}}
	if m.config != nil {
		m.dir = stressFiles(t, m.config)
	} else {
		m.dir = t.TempDir()
		require.NoError(t, os.CopyFS(m.dir, os.DirFS(testutil.Shared(t, m.set, m.name))))
	}
	vocab := byteTokens(256)
	if m.set != "" {
		vocab = byteTokens(512)
	}
	require.NoError(t, os.WriteFile(filepath.Join(m.dir, "tokenizer.json"), vocab, 0o600))
	for seed, rank := range []int{2, 17, 5, 3} {
		m.adapters = append(m.adapters, m.adapter(t, rank, uint64(seed)))
	}
	return m
}

// path returns the path of the model with weights in a format: "" as they are, "pack" for a pack of those, or a mix.
func (m *strangerModel) path(t *testing.T, format string) string {
	if format == "" {
		return m.dir
	}
	if m.packs[format] == "" {
		o := llmrun.ImportOptions{Quantize: format}
		switch format {
		case "pack":
			o.Quantize = ""
		case "planes":
			o.Quantize, o.Nested = "q8", llmrun.NestedThree
		}
		m.packs[format] = packed(t, m.dir, o)
	}
	return m.packs[format]
}

// byteTokens returns a tokenizer.json of 256 bytes and of pairs of them, up to n tokens.
func byteTokens(n int) []byte {
	letter := func(b int) string { // as GPT-2 spells bytes
		if b > ' ' && b < 0x7f || b > 0xa0 && b != 0xad && b < 0x100 {
			return string(rune(b))
		}
		hidden := 0
		for i := range b {
			if !(i > ' ' && i < 0x7f || i > 0xa0 && i != 0xad) {
				hidden++
			}
		}
		return string(rune(256 + hidden))
	}
	vocab, merges := map[string]int{}, []string{}
	for b := range 256 {
		vocab[letter(b)] = b
	}
	rng := rand.New(rand.NewPCG(2, 2))
	common := []byte(" etaoinshrdlu\"{}:,[]0123")
	for len(vocab) < n {
		a, b := letter(int(common[rng.IntN(len(common))])), letter(int(common[rng.IntN(len(common))]))
		if _, found := vocab[a+b]; !found {
			vocab[a+b] = len(vocab)
			merges = append(merges, a+" "+b)
		}
	}
	text, _ := json.Marshal(map[string]any{ // of strings and numbers, which cannot fail
		"model": map[string]any{"type": "BPE", "vocab": vocab, "merges": merges}, "added_tokens": []any{},
		"pre_tokenizer": map[string]any{"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}, "decoder": map[string]any{"type": "ByteLevel"},
	})
	return text
}

// adaptedTensors are the matrices that the adapters change; those that predict further tokens are no part of the network. Of partTensors a pack has
// parts, or none.
var (
	adaptedTensors = regexp.MustCompile(`layers\.\d+\..*(proj|w[123])\.weight$`)
	otherTensors   = regexp.MustCompile(`^mtp|altup|laurel|per_layer|experts\.[1-9]`)
	partTensors    = regexp.MustCompile(`experts|mamba\.in_proj|kv_b_proj|language_model.*self_attn\.[kv]_proj`)
)

// adapter writes an adapter of random factors for the half of the matrices that a seed chooses, and returns its directory.
func (m *strangerModel) adapter(t *testing.T, rank int, seed uint64) string {
	src, err := safetensors.Open(vfs.OS(), m.dir)
	require.NoError(t, err)
	defer src.Close()
	rng, dir := rand.New(rand.NewPCG(8, seed)), t.TempDir()
	var tensors []safetensors.TensorData
	add := func(name string, rows, cols int) {
		values, data := make([]float32, rows*cols), make([]byte, 2*rows*cols)
		for i := range values {
			values[i] = 0.2 * float32(rng.NormFloat64())
		}
		quant.RoundF16(data, values)
		tensors = append(tensors, safetensors.TensorData{Name: name, Type: quant.F16, Shape: []int{rows, cols}, Data: data})
	}
	all := slices.Clone(src.Tensors())
	for i := range all {
		x := &all[i]
		if len(x.Shape) != 2 || !adaptedTensors.MatchString(x.Name) || otherTensors.MatchString(x.Name) ||
			!m.whole && partTensors.MatchString(x.Name) || m.name == "qwen3_next" && strings.Contains(x.Name, "q_proj") || len(tensors) > 0 && rng.IntN(2) == 0 {
			continue
		}
		module := "base_model.model." + x.Name[:len(x.Name)-len(".weight")]
		add(module+".lora_A.weight", rank, x.Cols())
		add(module+".lora_B.weight", x.Rows(), rank)
	}
	require.NotEmpty(t, tensors)
	config := fmt.Sprintf(`{"peft_type": "LORA", "r": %d, "lora_alpha": %d}`, rank, 2*rank)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "adapter_config.json"), []byte(config), 0o600))
	require.NoError(t, safetensors.Write(vfs.OS(), filepath.Join(dir, "adapter_model.safetensors"), tensors))
	return dir
}
