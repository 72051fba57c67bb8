package exec

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/llmrun/llmrun/internal/modeltest"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/quant"
)

// checkpoint is a fixture that a test changes into a file of the same network.
type checkpoint struct {
	config, text modeltest.Fields // text is the language model's part, which may be all of config
	tensors      map[string]modeltest.RawTensor
}

// layerNumber finds the layer of a tensor.
var layerNumber = regexp.MustCompile(`layers\.(\d+)\.`)

// dropLayers removes tensors of the layers from one on whose names match.
func (c *checkpoint) dropLayers(first int, pattern string) {
	matches := regexp.MustCompile(pattern)
	maps.DeleteFunc(c.tensors, func(name string, _ modeltest.RawTensor) bool {
		number := layerNumber.FindStringSubmatch(name)
		if number == nil || !matches.MatchString(name) {
			return false
		}
		layer, _ := strconv.Atoi(number[1])
		return layer >= first
	})
}

// splitExperts stores each expert in tensors of its own.
func (c *checkpoint) splitExperts() {
	for name, r := range maps.Clone(c.tensors) {
		prefix, projection, stacked := strings.Cut(name, "experts.")
		if !stacked || len(r.Shape) != 3 {
			continue
		}
		delete(c.tensors, name)
		size := len(r.Data) / r.Shape[0]
		for i := range r.Shape[0] {
			data, at := r.Data[i*size:(i+1)*size], fmt.Sprintf("%sexperts.%d.", prefix, i)
			if projection == "down_proj" {
				c.tensors[at+"down_proj.weight"] = modeltest.RawTensor{Dtype: r.Dtype, Shape: r.Shape[1:], Data: data}
				continue
			}
			half := []int{r.Shape[1] / 2, r.Shape[2]}
			c.tensors[at+"gate_proj.weight"] = modeltest.RawTensor{Dtype: r.Dtype, Shape: half, Data: data[:size/2]}
			c.tensors[at+"up_proj.weight"] = modeltest.RawTensor{Dtype: r.Dtype, Shape: half, Data: data[size/2:]}
		}
	}
}

// repeatKeys gives each value head of a delta net a key head of its own.
func (c *checkpoint) repeatKeys() {
	number := func(key string) int { return int(c.text[key].(float64)) }
	keys, values := number("linear_num_key_heads"), number("linear_num_value_heads")
	width, valueRows := number("linear_key_head_dim"), values*number("linear_value_head_dim")
	var order []int
	for part := range 2 { // queries, keys
		for head := range values {
			for i := range width {
				order = append(order, (part*keys+head*keys/values)*width+i)
			}
		}
	}
	for i := range valueRows {
		order = append(order, 2*keys*width+i)
	}
	for name, r := range c.tensors {
		if strings.HasSuffix(name, "linear_attn.in_proj_qkv.weight") || strings.HasSuffix(name, "linear_attn.conv1d.weight") {
			c.tensors[name] = pickRows(r, order)
		}
	}
	c.text["linear_num_key_heads"] = values
}

// pickRows returns rows of a tensor.
func pickRows(r modeltest.RawTensor, order []int) modeltest.RawTensor {
	size := len(r.Data) / r.Shape[0]
	out := modeltest.RawTensor{Dtype: r.Dtype, Shape: slices.Clone(r.Shape)}
	out.Shape[0] = len(order)
	for _, i := range order {
		out.Data = append(out.Data, r.Data[i*size:(i+1)*size]...)
	}
	return out
}

// widenValues adds elements of 0 to the value heads of latent attention.
func (c *checkpoint) widenValues(more int) {
	number := func(key string) int { return int(c.text[key].(float64)) }
	heads, nope, value := number("num_attention_heads"), number("qk_nope_head_dim"), number("v_head_dim")
	for name, r := range c.tensors {
		switch {
		case strings.HasSuffix(name, "kv_b_proj.weight"):
			size := len(r.Data) / r.Shape[0]
			r.Data = insertZeros(r.Data, (nope+value)*size, more*size)
			r.Shape = []int{heads * (nope + value + more), r.Shape[1]}
		case strings.HasSuffix(name, "self_attn.o_proj.weight"):
			size := len(r.Data) / r.Shape[0] / r.Shape[1]
			r.Data = insertZeros(r.Data, value*size, more*size)
			r.Shape = []int{r.Shape[0], heads * (value + more)}
		default:
			continue
		}
		c.tensors[name] = r
	}
	c.text["v_head_dim"] = value + more
}

// insertZeros adds zeros behind each part of some bytes.
func insertZeros(data []byte, part, zeros int) (out []byte) {
	for chunk := range slices.Chunk(data, part) {
		out = append(append(out, chunk...), make([]byte, zeros)...)
	}
	return out
}

// newerRopes moves the settings of rotations to where transformers 5 writes them.
func (c *checkpoint) newerRopes() {
	ropes := modeltest.Fields{"rope_type": "default"}
	if old, ok := c.text["rope_scaling"].(map[string]any); ok {
		maps.Copy(ropes, old)
		if kind, ok := old["type"]; ok {
			ropes["rope_type"] = kind
		}
	}
	for _, key := range []string{"rope_theta", "partial_rotary_factor"} {
		if v, ok := c.text[key]; ok {
			ropes[key] = v
		}
		delete(c.text, key)
	}
	delete(c.text, "rope_scaling")
	c.text["rope_parameters"] = ropes
}

// shiftValues adds a bias to the values of attention, and takes what becomes of it from the result by another bias: the
// weights of a token's attention have the sum 1.
func (c *checkpoint) shiftValues() {
	for name, v := range maps.Clone(c.tensors) {
		module, values := strings.CutSuffix(name, "v_proj.weight")
		if !values {
			continue
		}
		out := c.tensors[module+"o_proj.weight"]
		rows, heads, headDim := out.Shape[0], out.Shape[1], int(c.text["head_dim"].(float64))
		shift, result := make([]float32, v.Shape[0]), make([]float32, rows)
		for i := range shift {
			shift[i] = float32(i%7)/8 - 0.25
		}
		perValue := heads / v.Shape[0] // query heads of a head of values
		row := make([]float32, heads)
		for r := range rows {
			quant.DequantRow(quant.BF16, row, out.Data[2*r*heads:])
			for i, w := range row {
				result[r] -= w * shift[i/headDim/perValue*headDim+i%headDim]
			}
		}
		c.tensors[module+"v_proj.bias"], c.tensors[module+"o_proj.bias"] = floats(shift), floats(result)
	}
	c.text["attention_bias"] = true
}

// floats is a vector.
func floats(values []float32) modeltest.RawTensor {
	r := modeltest.RawTensor{Dtype: "F32", Shape: []int{len(values)}}
	for _, v := range values {
		r.Data = binary.LittleEndian.AppendUint32(r.Data, math.Float32bits(v))
	}
	return r
}

// textOnly stores the language model of a multimodal model alone.
func (c *checkpoint) textOnly() {
	maps.Copy(c.text, modeltest.Fields{"tie_word_embeddings": c.config["tie_word_embeddings"]})
	c.config = c.text
	renamed := map[string]modeltest.RawTensor{}
	for name, r := range c.tensors {
		name = strings.TrimPrefix(name, "language_model.")
		if rest, ok := strings.CutPrefix(name, "model.language_model."); ok {
			name = "model." + rest
		}
		renamed[name] = r
	}
	c.tensors = renamed
}

// TestFamilies2026InOtherFiles: the same network in the other files that are published, or that tools write, gives the
// same logits.
func TestFamilies2026InOtherFiles(t *testing.T) {
	type change func(c *checkpoint)
	set := func(fields modeltest.Fields) change { return func(c *checkpoint) { maps.Copy(c.text, fields) } }
	drop := func(keys ...string) change {
		return func(c *checkpoint) {
			for _, key := range keys {
				delete(c.text, key)
			}
		}
	}
	for _, test := range []struct {
		fixture, name string
		changes       []change
	}{
		{"qwen3_5_moe", "an expert in each tensor", []change{(*checkpoint).splitExperts}},
		{"qwen3_5_moe", "text alone", []change{(*checkpoint).textOnly}},
		{"qwen3_5", "as many key heads as value heads", []change{(*checkpoint).repeatKeys}},
		{"qwen3_5", "text alone, no layer types", []change{(*checkpoint).textOnly, drop("layer_types")}},
		{"gemma4", "no keys in layers that share", []change{func(c *checkpoint) { c.dropLayers(3, `self_attn\.(k_proj|v_proj|k_norm)`) }}},
		{"gemma3n", "no keys in layers that share", []change{func(c *checkpoint) { c.dropLayers(3, `self_attn\.(k_proj|v_proj|k_norm)`) }}},
		{"deepseek_v3", "no layer that predicts", []change{func(c *checkpoint) { c.dropLayers(2, "") }}},
		{"deepseek_v3", "uncounted layer that predicts", []change{drop("num_nextn_predict_layers", "scoring_func", "topk_method")}},
		{"deepseek_v3", "wider values", []change{func(c *checkpoint) { c.widenValues(3) }}},
		{"deepseek_v3", "newer rotations", []change{(*checkpoint).newerRopes}},
		{"glm4_moe_lite", "as transformers 5 writes it", []change{
			(*checkpoint).newerRopes, drop("topk_method", "first_k_dense_replace"), set(modeltest.Fields{"mlp_layer_types": []string{"dense", "sparse"}}),
		}},
		{"nemotron_h", "types by name", []change{
			drop("hybrid_override_pattern"), set(modeltest.Fields{"layers_block_type": []string{"mamba", "mlp", "mamba", "attention", "mlp"}}),
		}},
		{"nemotron_h_moe", "types by name", []change{
			drop("hybrid_override_pattern"), set(modeltest.Fields{"layers_block_type": []string{"mamba", "moe", "mamba", "attention", "moe"}}),
		}},
		{"nemotron_h", "size of heads by its other name", []change{drop("head_dim"), set(modeltest.Fields{"attention_head_dim": 32})}},
		{"ministral3", "text alone", []change{(*checkpoint).textOnly}},
		{"phi4_mini", "newer rotations", []change{(*checkpoint).newerRopes}},
		{"granitemoehybrid", "newer rotations", []change{(*checkpoint).newerRopes}},
		{"granitemoehybrid", "biases", []change{set(modeltest.Fields{"head_dim": 16.0}), (*checkpoint).shiftValues}},
		{"nemotron_h", "biases", []change{(*checkpoint).shiftValues}},
		{"nemotron_h", "steps without a limit", []change{
			set(modeltest.Fields{"time_step_limit": []any{0, modeltest.Fields{"__float__": "Infinity"}}}),
		}},
	} {
		t.Run(test.fixture+" "+test.name, func(t *testing.T) {
			dir := testutil.Shared(t, "fixtures2026", test.fixture)
			c := checkpoint{}
			c.config, c.tensors = modeltest.ReadRaw(t, dir)
			if c.text = c.config; c.config["text_config"] != nil {
				c.text = c.config["text_config"].(map[string]any)
			}
			for _, apply := range test.changes {
				apply(&c)
			}
			fsys := modeltest.WriteRaw(t, c.config, c.tensors)
			var ref reference
			testutil.ReadJSON(t, filepath.Join(dir, "reference.json"), &ref)
			ref.check(t, loadModel(t, fsys, "m", Options{Threads: 2, Chunk: 64, Exact: true}))
		})
	}
}
