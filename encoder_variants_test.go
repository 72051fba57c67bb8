package llmrun_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/store/gguf"
	"github.com/llmrun/llmrun/store/safetensors"
	"github.com/llmrun/llmrun/store/vfs"
)

// The encoders of these tests are random and small. Each is a variant that no fixture has, and is compared with the
// arithmetic of the published code, written plainly in float64.
const (
	variantDim     = 32
	variantHeads   = 2
	variantInner   = 48
	variantLayers  = 3
	variantVocab   = 64
	variantContext = 40
)

// variant is an encoder, as its family computes it.
type variant struct {
	name     string
	config   map[string]any
	names    map[string]string // of tensors in a checkpoint, by role; layers have %d
	weights  map[string][]float64
	shapes   map[string][]int
	first    int  // row of the first position; -1: positions are rotary
	types    int  // rows of token types
	gated    bool // MLP of act(gate)·up
	fused    bool // up holds what is activated, and what multiplies it behind it
	before   bool // norms before attention and MLP
	act      func(x float64) float64
	base     func(layer int) float64 // of rotations
	rotated  int                     // elements of a head
	window   func(layer int) int     // tokens to each side; 0: all
	inner    string                  // role of the head's first layer; "": none
	innerAct func(x float64) float64
	mean     bool // the head reads the mean
}

func gelu(x float64) float64 { return x / 2 * (1 + math.Erf(x/math.Sqrt2)) }
func silu(x float64) float64 { return x / (1 + math.Exp(-x)) }

// add adds a random tensor under its role.
func (v *variant) add(r *rand.Rand, role string, shape ...int) {
	n := 1
	for _, d := range shape {
		n *= d
	}
	values := make([]float64, n)
	for i := range values {
		x := r.NormFloat64() / math.Sqrt(float64(shape[len(shape)-1]))
		switch {
		case strings.HasSuffix(role, "norm.weight"):
			x = 1 + r.NormFloat64()/8
		case strings.HasSuffix(role, "bias"):
			x = r.NormFloat64() / 8
		case len(shape) == 2 && strings.Contains(role, "embd"), role == "token_types.weight":
			x = r.NormFloat64()
		}
		values[i] = float64(float32(x))
	}
	v.weights[role], v.shapes[role] = values, shape
}

// linear adds a matrix with a bias.
func (v *variant) linear(r *rand.Rand, role string, rows, cols int, bias bool) {
	v.add(r, role+".weight", rows, cols)
	if bias {
		v.add(r, role+".bias", rows)
	}
}

// norm adds a norm.
func (v *variant) norm(r *rand.Rand, role string, bias bool) {
	v.add(r, role+".weight", variantDim)
	if bias {
		v.add(r, role+".bias", variantDim)
	}
}

// times multiplies by a matrix and adds its bias.
func (v *variant) times(role string, x []float64) []float64 {
	w, rows := v.weights[role+".weight"], v.shapes[role+".weight"][0]
	out := make([]float64, rows)
	for r := range out {
		for i, e := range x {
			out[r] += w[r*len(x)+i] * e
		}
		if b := v.weights[role+".bias"]; b != nil {
			out[r] += b[r]
		}
	}
	return out
}

// normed is a layer norm.
func (v *variant) normed(role string, x []float64) []float64 {
	mean, square := 0.0, 0.0
	for _, e := range x {
		mean += e / float64(len(x))
	}
	for _, e := range x {
		square += (e - mean) * (e - mean) / float64(len(x))
	}
	out := make([]float64, len(x))
	for i, e := range x {
		out[i] = (e - mean) / math.Sqrt(square+1e-5) * v.weights[role+".weight"][i]
		if b := v.weights[role+".bias"]; b != nil {
			out[i] += b[i]
		}
	}
	return out
}

func sum(a, b []float64) []float64 {
	out := make([]float64, len(a))
	for i := range a {
		out[i] = a[i] + b[i]
	}
	return out
}

// states returns the hidden states of a text whose tokens have types.
func (v *variant) states(ids []int32, types []int) [][]float64 {
	x := make([][]float64, len(ids))
	for i, id := range ids {
		x[i] = slices.Clone(v.weights["token_embd.weight"][int(id)*variantDim:][:variantDim])
		if v.types > 0 {
			kind := 0
			if types != nil {
				kind = types[i]
			}
			x[i] = sum(x[i], v.weights["token_types.weight"][kind*variantDim:][:variantDim])
		}
		if v.first >= 0 {
			x[i] = sum(x[i], v.weights["position_embd.weight"][(i+v.first)*variantDim:][:variantDim])
		}
		x[i] = v.normed("token_embd_norm", x[i])
	}
	for l := range variantLayers {
		v.layer(l, x)
	}
	if v.before {
		for i := range x {
			x[i] = v.normed("output_norm", x[i])
		}
	}
	return x
}

// layer replaces the states by those behind a layer.
func (v *variant) layer(l int, x [][]float64) {
	role := func(name string) string { return fmt.Sprintf("blk.%d.%s", l, name) }
	in := make([][]float64, len(x))
	for i := range x {
		in[i] = x[i]
		if v.before && l > 0 {
			in[i] = v.normed(role("attn_norm"), x[i])
		}
	}
	for i, y := range v.attention(l, in) {
		x[i] = sum(x[i], v.times(role("attn_output"), y))
		var h []float64
		if v.before {
			h = v.normed(role("ffn_norm"), x[i])
		} else {
			x[i] = v.normed(role("attn_output_norm"), x[i])
			h = x[i]
		}
		up := v.times(role("ffn_up"), h)
		gate := up
		switch {
		case v.fused:
			gate, up = up[:len(up)/2], up[len(up)/2:]
		case v.gated:
			gate = v.times(role("ffn_gate"), h)
		}
		inner := make([]float64, len(gate))
		for k, g := range gate {
			inner[k] = v.act(g)
			if v.gated {
				inner[k] *= up[k]
			}
		}
		x[i] = sum(x[i], v.times(role("ffn_down"), inner))
		if !v.before {
			x[i] = v.normed(role("layer_output_norm"), x[i])
		}
	}
}

// attention returns what each token takes from the others.
func (v *variant) attention(l int, in [][]float64) [][]float64 {
	const d = variantDim / variantHeads
	q, k, w := make([][]float64, len(in)), make([][]float64, len(in)), make([][]float64, len(in))
	for i, x := range in {
		if v.weights[fmt.Sprintf("blk.%d.attn_qkv.weight", l)] != nil {
			all := v.times(fmt.Sprintf("blk.%d.attn_qkv", l), x)
			q[i], k[i], w[i] = all[:variantDim], all[variantDim:2*variantDim], all[2*variantDim:]
		} else {
			q[i], k[i], w[i] = v.times(fmt.Sprintf("blk.%d.attn_q", l), x), v.times(fmt.Sprintf("blk.%d.attn_k", l), x), v.times(fmt.Sprintf("blk.%d.attn_v", l), x)
		}
		for h := range variantHeads {
			v.rotate(l, i, q[i][h*d:(h+1)*d])
			v.rotate(l, i, k[i][h*d:(h+1)*d])
		}
	}
	out := make([][]float64, len(in))
	for i := range in {
		out[i] = make([]float64, variantDim)
		for h := range variantHeads {
			total := 0.0
			for j := range in {
				if n := v.window(l); n > 0 && max(i-j, j-i) > n {
					continue
				}
				dot := 0.0
				for e := h * d; e < (h+1)*d; e++ {
					dot += q[i][e] * k[j][e]
				}
				weight := math.Exp(dot / math.Sqrt(d))
				total += weight
				for e := h * d; e < (h+1)*d; e++ {
					out[i][e] += weight * w[j][e]
				}
			}
			for e := h * d; e < (h+1)*d; e++ {
				out[i][e] /= total
			}
		}
	}
	return out
}

// rotate turns the first elements of a head by its position.
func (v *variant) rotate(l, pos int, head []float64) {
	if v.first >= 0 {
		return
	}
	half := v.rotated / 2
	for e := range half {
		sin, cos := math.Sincos(float64(pos) * math.Pow(v.base(l), -float64(2*e)/float64(v.rotated)))
		a, b := head[e], head[e+half]
		head[e], head[e+half] = a*cos-b*sin, b*cos+a*sin
	}
}

// scores returns the outputs of the head.
func (v *variant) scores(ids []int32, types []int) []float64 {
	states := v.states(ids, types)
	x := states[0]
	if v.mean {
		x = make([]float64, variantDim)
		for _, s := range states {
			for i := range x {
				x[i] += s[i] / float64(len(states))
			}
		}
	}
	if v.inner != "" {
		x = v.times(v.inner, x)
		for i := range x {
			x[i] = v.innerAct(x[i])
		}
		if v.weights["cls_norm.weight"] != nil {
			x = v.normed("cls_norm", x)
		}
	}
	return v.times("cls_out", x)
}

// checkpoint writes the variant as a Hugging Face directory.
func (v *variant) checkpoint(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), testutil.Must(json.Marshal(v.config)), 0o600))
	var tensors []safetensors.TensorData
	for _, role := range slices.Sorted(maps.Keys(v.weights)) {
		name, kind, _ := cutLast(role, ".")
		var layer int
		if _, err := fmt.Sscanf(name, "blk.%d.", &layer); err == nil {
			_, rest, _ := strings.Cut(strings.TrimPrefix(name, "blk."), ".")
			require.Contains(t, v.names, rest)
			name = fmt.Sprintf(v.names[rest], layer)
		} else {
			require.Contains(t, v.names, name)
			name = v.names[name]
		}
		tensors = append(tensors, floats(name+"."+kind, float32s(v.weights[role]), v.shapes[role]...))
	}
	require.NoError(t, safetensors.Write(vfs.OS(), filepath.Join(dir, "model.safetensors"), tensors))
	return dir
}

// file writes the variant as a GGUF file.
func (v *variant) file(t *testing.T, architecture string, more ...gguf.KV) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "m.gguf")
	keys := []gguf.KV{
		{Key: "general.architecture", Value: architecture},
		{Key: "tokenizer.ggml.model", Value: "none"},
		{Key: architecture + ".vocab_size", Value: uint32(variantVocab)},
		{Key: architecture + ".block_count", Value: uint32(variantLayers)},
		{Key: architecture + ".context_length", Value: uint32(variantContext)},
		{Key: architecture + ".embedding_length", Value: uint32(variantDim)},
		{Key: architecture + ".feed_forward_length", Value: uint32(variantInner)},
		{Key: architecture + ".attention.head_count", Value: uint32(variantHeads)},
		{Key: architecture + ".attention.layer_norm_epsilon", Value: float32(1e-5)},
		{Key: architecture + ".attention.causal", Value: false},
	}
	var tensors []gguf.TensorData
	for _, role := range slices.Sorted(maps.Keys(v.weights)) {
		name := strings.NewReplacer("cls_out.", "cls.output.", "cls_norm.", "cls.norm.").Replace(role)
		d := floats(name, float32s(v.weights[role]), v.shapes[role]...)
		if first := v.first; role == "position_embd.weight" && first > 0 { // the converter leaves them out
			d.Data, d.Shape = d.Data[4*first*variantDim:], []int{d.Shape[0] - first, variantDim}
		}
		tensors = append(tensors, gguf.TensorData{Name: d.Name, Type: d.Type, Shape: d.Shape, Data: d.Data})
	}
	require.NoError(t, gguf.Write(vfs.OS(), path, append(keys, more...), tensors))
	return path
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	return s[:i], s[i+len(sep):], i >= 0
}

func float32s(values []float64) (out []float32) {
	for _, x := range values {
		out = append(out, float32(x))
	}
	return out
}

// newVariant returns a variant without layers.
func newVariant(name string, config map[string]any) *variant {
	v := &variant{
		name: name, weights: map[string][]float64{}, shapes: map[string][]int{}, act: gelu, first: -1, rotated: variantDim / variantHeads,
		base: func(int) float64 { return 10000 }, window: func(int) int { return 0 },
	}
	v.config = map[string]any{"vocab_size": variantVocab, "hidden_size": variantDim, "num_hidden_layers": variantLayers, "num_attention_heads": variantHeads, "intermediate_size": variantInner, "layer_norm_eps": 1e-5}
	maps.Copy(v.config, config)
	return v
}

// bertVariant returns an encoder of bert's kind. first is the row of the first position.
func bertVariant(name, root string, first, types int, config map[string]any) *variant {
	v, r := newVariant(name, config), rand.New(rand.NewPCG(3, uint64(first+types)))
	v.first, v.types = first, types
	v.config["max_position_embeddings"], v.config["type_vocab_size"] = variantContext+first, types
	layer := root + "encoder.layer.%d."
	v.names = map[string]string{
		"token_embd": root + "embeddings.word_embeddings", "position_embd": root + "embeddings.position_embeddings", "token_types": root + "embeddings.token_type_embeddings",
		"token_embd_norm": root + "embeddings.LayerNorm", "attn_q": layer + "attention.self.query", "attn_k": layer + "attention.self.key", "attn_v": layer + "attention.self.value",
		"attn_output": layer + "attention.output.dense", "attn_output_norm": layer + "attention.output.LayerNorm", "ffn_up": layer + "intermediate.dense",
		"ffn_down": layer + "output.dense", "layer_output_norm": layer + "output.LayerNorm",
	}
	v.add(r, "token_embd.weight", variantVocab, variantDim)
	v.add(r, "position_embd.weight", variantContext+first, variantDim)
	v.add(r, "token_types.weight", types, variantDim)
	v.norm(r, "token_embd_norm", true)
	for l := range variantLayers {
		role := func(name string) string { return fmt.Sprintf("blk.%d.%s", l, name) }
		for _, name := range []string{"attn_q", "attn_k", "attn_v", "attn_output"} {
			v.linear(r, role(name), variantDim, variantDim, true)
		}
		v.linear(r, role("ffn_up"), variantInner, variantDim, true)
		v.linear(r, role("ffn_down"), variantDim, variantInner, true)
		v.norm(r, role("attn_output_norm"), true)
		v.norm(r, role("layer_output_norm"), true)
	}
	return v
}

// withClassifier adds a head.
func (v *variant) withClassifier(inner, out string, labels int, bias bool, act func(float64) float64) *variant {
	r := rand.New(rand.NewPCG(5, uint64(labels)))
	v.inner, v.innerAct = "cls", act
	v.names["cls"], v.names["cls_out"], v.names["cls_norm"] = inner, out, "head.norm"
	v.linear(r, "cls", variantDim, variantDim, bias)
	v.linear(r, "cls_out", labels, variantDim, true)
	return v
}

// nomicVariant returns a nomic_bert with biases whose heads rotate in part.
func nomicVariant(bias bool, fraction float64, activation string) *variant {
	v, r := newVariant("nomic", map[string]any{
		"model_type": "nomic_bert", "n_embd": variantDim, "n_head": variantHeads, "n_layer": variantLayers, "n_inner": variantInner, "n_positions": variantContext,
		"layer_norm_epsilon": 1e-5, "activation_function": activation, "rotary_emb_base": 500, "rotary_emb_fraction": fraction, "qkv_proj_bias": bias, "mlp_fc1_bias": bias,
		"mlp_fc2_bias": bias, "rotary_emb_scale_base": nil, "rotary_emb_interleaved": false, "prenorm": false, "type_vocab_size": 2, "moe_every_n_layers": 0,
	}), rand.New(rand.NewPCG(9, 1))
	for _, field := range []string{"hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "layer_norm_eps"} {
		delete(v.config, field)
	}
	v.types, v.gated, v.act, v.base = 2, true, silu, func(int) float64 { return 500 }
	v.rotated = int(fraction * variantDim / variantHeads)
	if activation == "geglu" {
		v.act = gelu
	}
	layer := "encoder.layers.%d."
	v.names = map[string]string{
		"token_embd": "embeddings.word_embeddings", "token_types": "embeddings.token_type_embeddings", "token_embd_norm": "emb_ln", "attn_qkv": layer + "attn.Wqkv",
		"attn_output": layer + "attn.out_proj", "attn_output_norm": layer + "norm1", "ffn_up": layer + "mlp.fc11", "ffn_gate": layer + "mlp.fc12", "ffn_down": layer + "mlp.fc2",
		"layer_output_norm": layer + "norm2",
	}
	v.add(r, "token_embd.weight", variantVocab, variantDim)
	v.add(r, "token_types.weight", 2, variantDim)
	v.norm(r, "token_embd_norm", true)
	for l := range variantLayers {
		role := func(name string) string { return fmt.Sprintf("blk.%d.%s", l, name) }
		v.linear(r, role("attn_qkv"), 3*variantDim, variantDim, bias)
		v.linear(r, role("attn_output"), variantDim, variantDim, bias)
		v.linear(r, role("ffn_up"), variantInner, variantDim, bias)
		v.linear(r, role("ffn_gate"), variantInner, variantDim, bias)
		v.linear(r, role("ffn_down"), variantDim, variantInner, bias)
		v.norm(r, role("attn_output_norm"), true)
		v.norm(r, role("layer_output_norm"), true)
	}
	return v
}

// modernVariant returns a modernbert. Its configuration lists the types of layers, as newer versions write it.
func modernVariant(bias bool, config map[string]any) *variant {
	v, r := newVariant("modernbert", map[string]any{
		"model_type": "modernbert", "norm_eps": 1e-5, "max_position_embeddings": variantContext, "local_attention": 8, "attention_bias": bias, "mlp_bias": bias, "norm_bias": bias,
		"hidden_activation": "gelu", "position_embedding_type": "absolute",
	}), rand.New(rand.NewPCG(11, 1))
	maps.Copy(v.config, config)
	v.before, v.gated, v.fused = true, true, true
	v.window = func(l int) int { return map[bool]int{true: 4}[l%3 != 0] }
	v.base = func(l int) float64 { return map[bool]float64{true: 10000, false: 160000}[l%3 != 0] }
	layer := "model.layers.%d."
	v.names = map[string]string{
		"token_embd": "model.embeddings.tok_embeddings", "token_embd_norm": "model.embeddings.norm", "output_norm": "model.final_norm", "attn_norm": layer + "attn_norm",
		"attn_qkv": layer + "attn.Wqkv", "attn_output": layer + "attn.Wo", "ffn_norm": layer + "mlp_norm", "ffn_up": layer + "mlp.Wi", "ffn_down": layer + "mlp.Wo",
	}
	v.add(r, "token_embd.weight", variantVocab, variantDim)
	v.norm(r, "token_embd_norm", bias)
	v.norm(r, "output_norm", bias)
	for l := range variantLayers {
		role := func(name string) string { return fmt.Sprintf("blk.%d.%s", l, name) }
		if l > 0 {
			v.norm(r, role("attn_norm"), bias)
		}
		v.norm(r, role("ffn_norm"), bias)
		v.linear(r, role("attn_qkv"), 3*variantDim, variantDim, bias)
		v.linear(r, role("attn_output"), variantDim, variantDim, bias)
		v.linear(r, role("ffn_up"), 2*variantInner, variantDim, bias)
		v.linear(r, role("ffn_down"), variantDim, variantInner, bias)
	}
	return v
}

// withNorm adds the norm of a modernbert's head.
func (v *variant) withNorm(bias bool) *variant {
	v.norm(rand.New(rand.NewPCG(13, 1)), "cls_norm", bias)
	return v
}

// variantTexts are of one token, some, and the whole context.
func variantTexts() (all [][]int32) {
	for _, n := range []int{1, 7, 23, variantContext} {
		ids := make([]int32, n)
		for i := range ids {
			ids[i] = int32((i*29 + n) % variantVocab)
		}
		all = append(all, ids)
	}
	return all
}

// requireStates compares the hidden states of all tokens.
func requireStates(t *testing.T, v *variant, path string) {
	t.Helper()
	e := open(t, path, llmrun.Options{Threads: 2, Exact: true})
	require.Equal(t, variantContext, e.MaxTextTokens())
	got, err := e.EmbedIDs(context.Background(), variantTexts(), llmrun.EmbedOptions{Pooling: "none", Raw: true})
	require.NoError(t, err)
	for _, ids := range variantTexts() {
		for i, want := range v.states(ids, nil) {
			require.InDeltaSlice(t, want, got[0], 2e-4, "%s: token %d of %d", v.name, i, len(ids))
			got = got[1:]
		}
	}
}

// requireScores compares the outputs of the head.
func requireScores(t *testing.T, v *variant, path string, labels int) {
	t.Helper()
	e := open(t, path, llmrun.Options{Threads: 2, Exact: true})
	got, err := e.RankIDs(context.Background(), variantTexts())
	require.NoError(t, err)
	for i, ids := range variantTexts() {
		want := v.scores(ids, nil)
		if labels == 2 {
			want[0] = want[1] - want[0]
		}
		require.InDelta(t, want[0], got[i], 1e-3, "%s: %d tokens", v.name, len(ids))
	}
}

// TestVariantsOfEncoders compares the states of checkpoints and of GGUF files with plain arithmetic.
func TestVariantsOfEncoders(t *testing.T) {
	roberta := map[string]any{"model_type": "roberta", "pad_token_id": 1}
	padded := map[string]any{"model_type": "xlm-roberta", "pad_token_id": 3, "position_embedding_type": "absolute"}
	types := map[string]any{
		"layer_types":     []string{"full_attention", "sliding_attention", "sliding_attention"},
		"rope_parameters": map[string]any{"full_attention": map[string]any{"rope_type": "default", "rope_theta": 160000}, "sliding_attention": map[string]any{"rope_type": "default", "rope_theta": 10000}},
	}
	for _, c := range []struct {
		v    *variant
		arch string
		more []gguf.KV
	}{
		{v: bertVariant("bert", "bert.", 0, 2, map[string]any{"model_type": "bert", "is_decoder": false}), arch: "bert"},
		{v: bertVariant("roberta", "", 2, 1, roberta), arch: "bert"},
		{v: bertVariant("xlm-roberta with another padding", "roberta.", 4, 1, padded), arch: "bert"},
		{v: nomicVariant(false, 1, "swiglu"), arch: "nomic-bert", more: []gguf.KV{{Key: "nomic-bert.rope.freq_base", Value: float32(500)}}},
		{v: nomicVariant(true, 0.5, "geglu")},
		{v: modernVariant(false, nil), arch: "modern-bert", more: []gguf.KV{
			{Key: "modern-bert.attention.sliding_window", Value: uint32(8)},
			{Key: "modern-bert.attention.sliding_window_pattern", Value: uint32(3)},
			{Key: "modern-bert.rope.freq_base", Value: float32(160000)},
			{Key: "modern-bert.rope.freq_base_swa", Value: float32(10000)},
		}},
		{v: modernVariant(true, types)},
	} {
		t.Run(c.v.name, func(t *testing.T) {
			requireStates(t, c.v, c.v.checkpoint(t))
			if c.arch != "" {
				requireStates(t, c.v, c.v.file(t, c.arch, c.more...))
			}
		})
	}
}

// TestVariantsOfHeads compares the scores of heads as they are published.
func TestVariantsOfHeads(t *testing.T) {
	bert := func() *variant { return bertVariant("bert", "bert.", 0, 2, map[string]any{"model_type": "bert"}) }
	roberta := func() *variant {
		return bertVariant("roberta", "roberta.", 2, 1, map[string]any{"model_type": "roberta", "pad_token_id": 1})
	}
	labels := func(arch string, n int) []gguf.KV {
		return []gguf.KV{{Key: arch + ".classifier.output_labels", Value: []string{"LABEL_0", "LABEL_1"}[:n]}}
	}
	modern := func(config map[string]any) *variant { return modernVariant(false, config) }
	v := bert().withClassifier("bert.pooler.dense", "classifier", 1, true, math.Tanh)
	requireScores(t, v, v.checkpoint(t), 1)
	requireScores(t, v, v.file(t, "bert", labels("bert", 1)...), 1)

	v = roberta().withClassifier("classifier.dense", "classifier.out_proj", 2, true, math.Tanh)
	requireScores(t, v, v.checkpoint(t), 2)
	requireScores(t, v, v.file(t, "bert", labels("bert", 2)...), 2)

	v = modern(map[string]any{"classifier_pooling": "cls"}).withClassifier("head.dense", "classifier", 1, false, gelu).withNorm(false)
	requireScores(t, v, v.checkpoint(t), 1)
	v = modern(map[string]any{"classifier_pooling": "mean", "classifier_activation": "silu"}).withClassifier("head.dense", "classifier", 2, true, silu).withNorm(true)
	v.mean = true
	requireScores(t, v, v.checkpoint(t), 2)
	v = modern(nil).withClassifier("head.dense", "classifier", 1, false, gelu).withNorm(false)
	v.mean = true // as the converter's only models of this kind
	more := append(labels("modern-bert", 1), gguf.KV{Key: "modern-bert.attention.sliding_window", Value: uint32(8)}, gguf.KV{Key: "modern-bert.attention.sliding_window_pattern", Value: uint32(3)},
		gguf.KV{Key: "modern-bert.rope.freq_base", Value: float32(160000)}, gguf.KV{Key: "modern-bert.rope.freq_base_swa", Value: float32(10000)})
	requireScores(t, v, v.file(t, "modern-bert", more...), 1)
}

// TestUnknownVariantsOfEncodersAreRefused: what is not computed is an error that names it.
func TestUnknownVariantsOfEncodersAreRefused(t *testing.T) {
	bert := func(config map[string]any) *variant {
		v := bertVariant("bert", "", 0, 2, map[string]any{"model_type": "bert"})
		maps.Copy(v.config, config)
		return v
	}
	nomic := func(field string, value any) *variant {
		v := nomicVariant(false, 1, "swiglu")
		v.config[field] = value
		return v
	}
	r := rand.New(rand.NewPCG(1, 1))
	shifted := bert(nil)
	shifted.names["more"] = "embeddings.projection"
	shifted.linear(r, "more", variantDim, variantDim, false)
	for _, c := range []struct {
		v    *variant
		want string
	}{
		{bert(map[string]any{"position_embedding_type": "alibi"}), "field position_embedding_type"},
		{bert(map[string]any{"is_decoder": true}), "field is_decoder"},
		{bert(map[string]any{"hidden_act": "relu"}), `activation "relu"`},
		{shifted, "embeddings.projection.weight"},
		{nomic("use_rms_norm", true), "field use_rms_norm"},
		{nomic("rotary_emb_interleaved", true), "field rotary_emb_interleaved"},
		{nomic("rotary_emb_scale_base", 512), "field rotary_emb_scale_base"},
		{nomic("rotary_emb_fraction", 0), "field rotary_emb_fraction"},
		{nomic("moe_every_n_layers", 2), "field moe_every_n_layers"},
		{nomic("parallel_block", true), "field parallel_block"},
		{nomic("prenorm", true), "field prenorm"},
		{nomic("activation_function", "gelu"), "no gate"},
	} {
		_, err := llmrun.Open(c.v.checkpoint(t), llmrun.Options{Threads: 1, Exact: true})
		require.ErrorContains(t, err, c.want)
	}
	labelled := bert(map[string]any{"architectures": []string{"BertForTokenClassification"}})
	labelled.names["cls_out"] = "classifier"
	labelled.linear(r, "cls_out", 2, variantDim, true)
	e := open(t, labelled.checkpoint(t), llmrun.Options{Threads: 1})
	_, err := e.RankIDs(context.Background(), [][]int32{{1}})
	require.ErrorContains(t, err, "BertForTokenClassification")
	delete(labelled.config, "architectures")
	e = open(t, labelled.checkpoint(t), llmrun.Options{Threads: 1})
	_, err = e.RankIDs(context.Background(), [][]int32{{1}})
	require.ErrorContains(t, err, "lacks the layer before it")
}

// withLetters writes a WordPiece tokenizer of letters beside a checkpoint. kind is the type of a second text.
func withLetters(t *testing.T, dir string, kind int) {
	t.Helper()
	vocab := map[string]int{"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3}
	for c := 'a'; c <= 'z'; c++ {
		vocab[string(c)] = len(vocab)
	}
	var added []map[string]any
	for _, name := range []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]"} {
		added = append(added, map[string]any{"id": vocab[name], "content": name, "special": true, "normalized": false, "single_word": false, "lstrip": false, "rstrip": false})
	}
	text := func(id string, kind int) map[string]any {
		return map[string]any{"Sequence": map[string]any{"id": id, "type_id": kind}}
	}
	special := func(id string, kind int) map[string]any {
		return map[string]any{"SpecialToken": map[string]any{"id": id, "type_id": kind}}
	}
	all := map[string]any{
		"version": "1.0", "added_tokens": added,
		"normalizer":    map[string]any{"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": nil, "lowercase": false},
		"pre_tokenizer": map[string]any{"type": "BertPreTokenizer"},
		"post_processor": map[string]any{
			"type": "TemplateProcessing", "single": []any{special("[CLS]", 0), text("A", 0), special("[SEP]", 0)},
			"pair":           []any{special("[CLS]", 0), text("A", 0), special("[SEP]", 0), text("B", kind), special("[SEP]", kind)},
			"special_tokens": map[string]any{"[CLS]": map[string]any{"id": "[CLS]", "ids": []int{2}, "tokens": []string{"[CLS]"}}, "[SEP]": map[string]any{"id": "[SEP]", "ids": []int{3}, "tokens": []string{"[SEP]"}}},
		},
		"decoder": map[string]any{"type": "WordPiece", "prefix": "##", "cleanup": true},
		"model":   map[string]any{"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": vocab},
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tokenizer.json"), testutil.Must(json.Marshal(all)), 0o600))
}

// TestPairsHaveTypes: the second text of a pair has the type of tokens that the tokenizer's template names, and a long one is
// cut, which is counted.
func TestPairsHaveTypes(t *testing.T) {
	v := bertVariant("bert", "bert.", 0, 2, map[string]any{"model_type": "bert"}).withClassifier("bert.pooler.dense", "classifier", 1, true, math.Tanh)
	long := strings.TrimSpace(strings.Repeat("x y ", variantContext))
	for _, kind := range []int{0, 1} {
		dir := v.checkpoint(t)
		withLetters(t, dir, kind)
		e := open(t, dir, llmrun.Options{Threads: 1, Exact: true})
		var stats llmrun.EmbedStats
		got, err := e.RankCounted(context.Background(), "a b", []string{"c d e", long}, &stats)
		require.NoError(t, err)
		require.Equal(t, 1, stats.Truncated)
		pair := []int32{2, 4, 5, 3, 6, 7, 8, 3}
		require.InDelta(t, v.scores(pair, []int{0, 0, 0, 0, kind, kind, kind, kind})[0], got[0], 1e-3, "type %d", kind)

		cut, types := []int32{2, 4, 5, 3}, make([]int, variantContext)
		for i := range types {
			if i >= 4 {
				types[i], cut = kind, append(cut, int32(27+i%2))
			}
		}
		cut[variantContext-1] = 3
		require.InDelta(t, v.scores(cut, types)[0], got[1], 1e-3, "type %d, a long text", kind)
		_, err = e.Rank(context.Background(), long, []string{"a"})
		require.ErrorIs(t, err, llmrun.ErrContextFull)
	}
}

// TestTextsInSmallLetters: sentence-transformers may ask for small letters before the tokenizer.
func TestTextsInSmallLetters(t *testing.T) {
	v := bertVariant("bert", "", 0, 2, map[string]any{"model_type": "bert"})
	ctx, dir := context.Background(), v.checkpoint(t)
	withLetters(t, dir, 1)
	embed := func(text string) []float32 {
		e := open(t, dir, llmrun.Options{Threads: 1, Exact: true})
		got, err := e.Embed(ctx, []string{text}, llmrun.EmbedOptions{})
		require.NoError(t, err)
		return got[0]
	}
	require.NotEqual(t, embed("a b"), embed("A B"), "letters that the vocabulary lacks")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "sentence_bert_config.json"), []byte(`{"max_seq_length": 20, "do_lower_case": true}`), 0o600))
	require.Equal(t, embed("a b"), embed("A B"))
}

// TestTokenVectorsAreRefused: models with a vector for each token have layers that pooled vectors must not go through.
func TestTokenVectorsAreRefused(t *testing.T) {
	v := bertVariant("bert", "", 0, 2, map[string]any{"model_type": "bert"})
	ctx, dir := context.Background(), v.checkpoint(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "modules.json"),
		[]byte(`[{"path": "", "type": "sentence_transformers.models.Transformer"}, {"path": "1_Dense", "type": "pylate.models.Dense.Dense"}]`), 0o600))
	v.add(rand.New(rand.NewPCG(1, 1)), "dense_2.weight", 16, variantDim)
	for _, path := range []string{dir, v.file(t, "bert")} {
		e := open(t, path, llmrun.Options{Threads: 1})
		_, err := e.EmbedIDs(ctx, [][]int32{{1, 2}}, llmrun.EmbedOptions{})
		require.ErrorContains(t, err, "a vector for each token")
		got, err := e.EmbedIDs(ctx, [][]int32{{1, 2}}, llmrun.EmbedOptions{Pooling: "none"})
		require.NoError(t, err)
		require.Len(t, got, 2)
	}
}

// TestHeadOfTwoLayers compares the head of process reward models with its arithmetic on the reference's hidden states.
func TestHeadOfTwoLayers(t *testing.T) {
	path := testutil.Shared(t, "fixtures2026", "qwen3_reward")
	var ref rewardReference
	testutil.ReadJSON(t, filepath.Join(path, "reference.json"), &ref)
	dim, r := len(ref.Sequences[0].Hidden["0"]), rand.New(rand.NewPCG(21, 1))
	h := newVariant("head", nil)
	for _, layer := range []struct {
		name string
		rows int
	}{{"score.0", dim}, {"score.2", 2}} {
		h.linear(r, layer.name, layer.rows, dim, true)
	}
	var head []safetensors.TensorData
	for _, name := range slices.Sorted(maps.Keys(h.weights)) {
		head = append(head, floats(name, float32s(h.weights[name]), h.shapes[name]...))
	}
	e := open(t, withHead(t, path, head, "", false), llmrun.Options{Threads: 1, Exact: true})
	for _, s := range ref.Sequences[:3] {
		x := h.times("score.0", s.Hidden[lastRow(s.IDs)])
		for i := range x {
			x[i] = max(0, x[i])
		}
		x = h.times("score.2", x)
		got, err := e.RankIDs(context.Background(), [][]int32{s.IDs})
		require.NoError(t, err)
		require.InDelta(t, x[1]-x[0], got[0], 1e-3)
	}
}
