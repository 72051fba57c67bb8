package modeltest

import (
	"encoding/json"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/gguf"
	"github.com/llmrun/llmrun/store/safetensors"
	"github.com/llmrun/llmrun/store/vfs"
)

// exportConfig is a config.json of the older style, decoded independently of the readers under
// test. Absent fields are zero.
type exportConfig map[string]any

func (c exportConfig) has(key string) bool { return c[key] != nil }

func (c exportConfig) number(key string) float64 {
	v, _ := c[key].(float64)
	return v
}

func (c exportConfig) whole(key string) int { return int(c.number(key)) }

func (c exportConfig) text(key string) string {
	v, _ := c[key].(string)
	return v
}

func (c exportConfig) flag(key string) bool {
	v, _ := c[key].(bool)
	return v
}

func (c exportConfig) object(key string) exportConfig {
	v, _ := c[key].(map[string]any)
	return v
}

func (c exportConfig) list(key string) (out []float64) {
	v, _ := c[key].([]any)
	for _, x := range v {
		out = append(out, x.(float64))
	}
	return out
}

func (c exportConfig) texts(key string) (out []string) {
	v, _ := c[key].([]any)
	for _, x := range v {
		out = append(out, x.(string))
	}
	return out
}

func (c exportConfig) tied() bool { return c.flag("tie_word_embeddings") }

func (c exportConfig) experts() int {
	return max(c.whole("num_local_experts"), c.whole("num_experts"))
}

func (c exportConfig) headDim() int {
	if c.has("head_dim") {
		return c.whole("head_dim")
	}
	return c.whole("hidden_size") / c.whole("num_attention_heads")
}

// llama3Divisors returns the divisors of Llama 3.1's rotary frequencies: 1 for high frequencies,
// the factor for low ones, and an interpolation between.
func (c exportConfig) llama3Divisors(scaling exportConfig) []float64 {
	factor, original := scaling.number("factor"), scaling.number("original_max_position_embeddings")
	low, high := scaling.number("low_freq_factor"), scaling.number("high_freq_factor")
	out := make([]float64, c.headDim()/2)
	for i := range out {
		turns := original / (2 * math.Pi) * math.Pow(c.number("rope_theta"), -2*float64(i)/float64(c.headDim()))
		switch {
		case turns < low:
			out[i] = factor
		case turns > high:
			out[i] = 1
		default:
			kept := (turns - low) / (high - low)
			out[i] = 1 / ((1-kept)/factor + kept)
		}
	}
	return out
}

// exporter converts one checkpoint to a GGUF file. It shares only the tensors' bytes with the
// readers under test.
type exporter struct {
	GGUF
	as     exportFamily
	config exportConfig
	arch   string
	stacks map[string]*rows // experts collected so far, by the name of the stacked tensor
}

// ExportFixture exports the checkpoint in dir, whose config.json is of the older style.
func ExportFixture(t testing.TB, dir string) *GGUF {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "config.json"))
	require.NoError(t, err)
	src, err := safetensors.Open(vfs.OS(), dir)
	require.NoError(t, err)
	defer func() { require.NoError(t, src.Close()) }()
	return exportCheckpoint(t, data, src)
}

func exportCheckpoint(t testing.TB, config []byte, src store.Source) *GGUF {
	t.Helper()
	e := &exporter{stacks: map[string]*rows{}}
	require.NoError(t, json.Unmarshal(config, &e.config))
	as, ok := exportFamilies[e.config.text("model_type")]
	require.True(t, ok, "no export rules for %q", e.config.text("model_type"))
	e.as, e.arch = as, as.arch
	e.Set("general.architecture", e.arch)
	e.vocabulary()
	e.as.keys(e)
	for _, tensor := range src.Tensors() {
		e.export(t, readRows(t, src, tensor))
	}
	for _, name := range slices.Sorted(maps.Keys(e.stacks)) {
		e.add(name, e.stacks[name])
	}
	return &e.GGUF
}

// vocabulary writes a token list of the right length; these tests do not use its entries.
func (e *exporter) vocabulary() {
	tokens := make([]string, e.config.whole("vocab_size"))
	for i := range tokens {
		tokens[i] = "t" + strconv.Itoa(i)
	}
	e.Set("tokenizer.ggml.tokens", tokens)
}

// key sets a key of the architecture. It writes integers as uint32 and other numbers as float32,
// as converters do.
func (e *exporter) key(name string, value any) {
	switch v := value.(type) {
	case int:
		value = uint32(v)
	case float64:
		value = float32(v)
	}
	e.Set(e.arch+"."+name, value)
}

// layerName matches the tensor name of a layer in a checkpoint.
var layerName = regexp.MustCompile(`^(?:model|gpt_neox)\.layers\.(\d+)\.(.*)\.(weight|bias)$`)

// expertName matches the name of an expert's matrix.
var expertName = regexp.MustCompile(`^(.*experts)\.(\d+)\.(.*)$`)

// export renames one tensor of the checkpoint, converts it by the family's rules, and adds it.
func (e *exporter) export(t testing.TB, r *rows) {
	t.Helper()
	layer := layerName.FindStringSubmatch(r.name)
	if layer == nil {
		dot := strings.LastIndexByte(r.name, '.')
		role := e.role(t, r.name[:dot])
		if role == "output" && e.config.tied() {
			return
		}
		e.add(role+r.name[dot:], r)
		return
	}
	prefix, suffix := "blk."+layer[1]+".", "."+layer[3]
	if expert := expertName.FindStringSubmatch(layer[2]); expert != nil {
		e.stack(t, prefix+e.role(t, expert[1]+"."+expert[3])+suffix, expert[2], r)
		return
	}
	role := e.role(t, layer[2])
	if e.as.split != nil && role == "attn_qkv" {
		parts := e.as.split(e, r)
		for _, part := range slices.Sorted(maps.Keys(parts)) {
			e.add(prefix+part+suffix, e.permuted(part, parts[part]))
		}
		return
	}
	e.add(prefix+role+suffix, e.permuted(role, r))
}

// Role returns the GGUF name of a checkpoint's tensor.
func (e *exporter) role(t testing.TB, name string) string {
	t.Helper()
	if role, ok := e.as.names[name]; ok {
		return role
	}
	role, ok := exportNames[name]
	require.True(t, ok, "no GGUF name for %q", name)
	return role
}

// stack places an expert's matrix at its index in the stacked tensor.
func (e *exporter) stack(t testing.TB, name, expert string, r *rows) {
	t.Helper()
	i, err := strconv.Atoi(expert)
	require.NoError(t, err)
	s, ok := e.stacks[name]
	if !ok {
		s = &rows{typ: r.typ, shape: append([]int{e.config.experts()}, r.shape...)}
		s.data = make([]byte, e.config.experts()*len(r.data))
		e.stacks[name] = s
	}
	copy(s.data[i*len(r.data):], r.data)
}

// permuted reorders the rows of queries and keys for families whose rotary pairs are neighbours
// in GGUF files.
func (e *exporter) permuted(role string, r *rows) *rows {
	switch {
	case !e.as.permute:
		return r
	case role == "attn_q":
		return r.interleaved(e.config.whole("num_attention_heads"))
	case role == "attn_k":
		return r.interleaved(e.config.whole("num_key_value_heads"))
	}
	return r
}

// add adds a tensor: vectors, norms, routers and convolutions as F32, all others in the
// checkpoint's type.
func (e *exporter) add(name string, r *rows) {
	if e.as.normLessOne && strings.HasSuffix(name, "_norm.weight") {
		r = r.plusOne()
	}
	if len(r.shape) == 1 || strings.Contains(name, "ffn_gate_inp") || strings.Contains(name, "shortconv.conv.") {
		r = r.float32s()
	}
	e.Tensors = append(e.Tensors, gguf.TensorData{Name: name, Type: r.typ, Shape: r.shape, Data: r.data})
}
