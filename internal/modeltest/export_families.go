package modeltest

import (
	"math"
)

// exportFamily holds the converter's rules for one family.
type exportFamily struct {
	arch  string
	names map[string]string // tensor names that differ from exportNames
	// permute: the rows of queries and keys are reordered.
	permute bool
	// normLessOne: the checkpoint stores norm gains minus one.
	normLessOne bool
	// split splits a fused QKV projection or reorders it; nil leaves it unchanged.
	split func(e *exporter, qkv *rows) map[string]*rows
	keys  func(e *exporter)
}

// exportNames maps the usual tensor names of checkpoints to those of GGUF files.
var exportNames = map[string]string{
	"model.embed_tokens": "token_embd",
	"model.norm":         "output_norm",
	"lm_head":            "output",

	"input_layernorm":             "attn_norm",
	"self_attn.q_proj":            "attn_q",
	"self_attn.k_proj":            "attn_k",
	"self_attn.v_proj":            "attn_v",
	"self_attn.qkv_proj":          "attn_qkv",
	"self_attn.o_proj":            "attn_output",
	"self_attn.q_norm":            "attn_q_norm",
	"self_attn.k_norm":            "attn_k_norm",
	"post_attention_layernorm":    "ffn_norm",
	"mlp.gate_proj":               "ffn_gate",
	"mlp.up_proj":                 "ffn_up",
	"mlp.down_proj":               "ffn_down",
	"mlp.gate":                    "ffn_gate_inp",
	"mlp.experts.gate_proj":       "ffn_gate_exps",
	"mlp.experts.up_proj":         "ffn_up_exps",
	"mlp.experts.down_proj":       "ffn_down_exps",
	"mlp.shared_expert_gate":      "ffn_gate_inp_shexp",
	"mlp.shared_expert.gate_proj": "ffn_gate_shexp",
	"mlp.shared_expert.up_proj":   "ffn_up_shexp",
	"mlp.shared_expert.down_proj": "ffn_down_shexp",
	"block_sparse_moe.gate":       "ffn_gate_inp",
	"block_sparse_moe.experts.w1": "ffn_gate_exps",
	"block_sparse_moe.experts.w2": "ffn_down_exps",
	"block_sparse_moe.experts.w3": "ffn_up_exps",
	"post_feedforward_layernorm":  "post_ffw_norm",
	"pre_feedforward_layernorm":   "ffn_norm",
	"self_attn.dense":             "attn_output",
	"mlp.fc1":                     "ffn_up",
	"mlp.fc2":                     "ffn_down",
	"mlp.gate_up_proj":            "ffn_up",
	"model.final_layernorm":       "output_norm",
	"model.embedding_norm":        "token_embd_norm",
	"operator_norm":               "attn_norm",
	"ffn_norm":                    "ffn_norm",
	"self_attn.out_proj":          "attn_output",
	"self_attn.q_layernorm":       "attn_q_norm",
	"self_attn.k_layernorm":       "attn_k_norm",
	"feed_forward.w1":             "ffn_gate",
	"feed_forward.w2":             "ffn_down",
	"feed_forward.w3":             "ffn_up",
	"conv.conv":                   "shortconv.conv",
	"conv.in_proj":                "shortconv.in_proj",
	"conv.out_proj":               "shortconv.out_proj",
	"model.tok_embeddings":        "token_embd",
	"output":                      "output",
	"attention_norm":              "attn_norm",
	"attention.wqkv":              "attn_qkv",
	"attention.wo":                "attn_output",
	"gpt_neox.embed_in":           "token_embd",
	"gpt_neox.final_layer_norm":   "output_norm",
	"embed_out":                   "output",
	"attention.query_key_value":   "attn_qkv",
	"attention.dense":             "attn_output",
	"mlp.dense_h_to_4h":           "ffn_up",
	"mlp.dense_4h_to_h":           "ffn_down",
}

// normsBehind are the tensor names of families that normalize attention's output.
var normsBehind = map[string]string{"post_attention_layernorm": "post_attention_norm"}

var exportFamilies = map[string]exportFamily{
	"llama":       {arch: "llama", permute: true, keys: llamaKeys},
	"mistral":     {arch: "llama", permute: true, keys: windowed(llamaKeys)},
	"mixtral":     {arch: "llama", permute: true, keys: llamaKeys},
	"granite":     {arch: "granite", permute: true, keys: graniteKeys},
	"smollm3":     {arch: "smollm3", permute: true, keys: llamaKeys},
	"internlm2":   {arch: "internlm2", permute: true, split: splitByKeyHead, keys: commonKeys},
	"qwen2":       {arch: "qwen2", keys: commonKeys},
	"qwen3":       {arch: "qwen3", keys: commonKeys},
	"qwen2_moe":   {arch: "qwen2moe", keys: qwenExpertKeys},
	"qwen3_moe":   {arch: "qwen3moe", keys: qwenExpertKeys},
	"gemma":       {arch: "gemma", normLessOne: true, keys: gemmaKeys},
	"gemma2":      {arch: "gemma2", names: normsBehind, normLessOne: true, keys: gemma2Keys},
	"gemma3_text": {arch: "gemma3", names: normsBehind, normLessOne: true, keys: gemma3Keys},
	"phi":         {arch: "phi2", keys: phi2Keys},
	"phi3":        {arch: "phi3", keys: windowed(phi3Keys)},
	"gpt_neox":    {arch: "gptneox", split: blocksOfHeads, keys: gptneoxKeys},
	"olmo2":       {arch: "olmo2", names: normsBehind, keys: commonKeys},
	"olmoe":       {arch: "olmoe", keys: commonKeys},
	"lfm2":        {arch: "lfm2", keys: lfm2Keys},
}

// splitByKeyHead splits a projection that stores, for each key head, its queries, key and value
// next to each other.
func splitByKeyHead(e *exporter, qkv *rows) map[string]*rows {
	kvHeads, width := e.config.whole("num_key_value_heads"), e.config.headDim()
	group := e.config.whole("num_attention_heads") / kvHeads
	var q, k, v []int
	for head := range kvHeads {
		first := head * (group + 2) * width
		q = append(q, span(first, group*width)...)
		k = append(k, span(first+group*width, width)...)
		v = append(v, span(first+(group+1)*width, width)...)
	}
	return map[string]*rows{"attn_q": qkv.pick(q), "attn_k": qkv.pick(k), "attn_v": qkv.pick(v)}
}

// blocksOfHeads reorders a projection that stores each head's query, key and value next to each
// other into all queries, all keys, all values.
func blocksOfHeads(e *exporter, qkv *rows) map[string]*rows {
	width := e.config.headDim()
	var order []int
	for part := range 3 {
		for head := range e.config.whole("num_attention_heads") {
			order = append(order, span((head*3+part)*width, width)...)
		}
	}
	return map[string]*rows{"attn_qkv": qkv.pick(order)}
}

// shapeKeys writes the keys that the converters of all families write.
func shapeKeys(e *exporter) {
	e.key("block_count", e.config.whole("num_hidden_layers"))
	e.key("context_length", e.config.whole("max_position_embeddings"))
	e.key("embedding_length", e.config.whole("hidden_size"))
	e.key("feed_forward_length", e.config.whole("intermediate_size"))
	e.key("attention.head_count", e.config.whole("num_attention_heads"))
	if e.config.has("num_key_value_heads") {
		e.key("attention.head_count_kv", e.config.whole("num_key_value_heads"))
	}
	if e.config.has("rms_norm_eps") {
		e.key("attention.layer_norm_rms_epsilon", e.config.number("rms_norm_eps"))
	}
	if e.config.has("head_dim") {
		e.key("attention.key_length", e.config.whole("head_dim"))
		e.key("attention.value_length", e.config.whole("head_dim"))
	}
}

// commonKeys writes the keys of most families.
func commonKeys(e *exporter) {
	shapeKeys(e)
	e.key("rope.freq_base", e.config.number("rope_theta"))
	if e.config.experts() > 0 {
		e.key("expert_count", e.config.experts())
		e.key("expert_used_count", e.config.whole("num_experts_per_tok"))
	}
	scaling := e.config.object("rope_scaling")
	switch kind := scaling.text("type") + scaling.text("rope_type"); kind {
	case "yarn", "linear":
		e.key("rope.scaling.type", kind)
		e.key("rope.scaling.factor", scaling.number("factor"))
		if kind == "yarn" {
			e.key("rope.scaling.original_context_length", scaling.whole("original_max_position_embeddings"))
		}
	case "llama3":
		e.AddFloats("rope_freqs.weight", e.config.llama3Divisors(scaling))
	}
}

func llamaKeys(e *exporter) {
	commonKeys(e)
	e.key("vocab_size", e.config.whole("vocab_size"))
	e.key("rope.dimension_count", e.config.headDim())
}

// windowed adds the sliding window, which the converter omits for some families although their
// checkpoints have one.
func windowed(keys func(e *exporter)) func(e *exporter) {
	return func(e *exporter) {
		keys(e)
		if e.config.has("sliding_window") {
			e.key("attention.sliding_window", e.config.whole("sliding_window"))
		}
	}
}

func graniteKeys(e *exporter) {
	llamaKeys(e)
	e.key("attention.scale", e.config.number("attention_multiplier"))
	e.key("embedding_scale", e.config.number("embedding_multiplier"))
	e.key("residual_scale", e.config.number("residual_multiplier"))
	e.key("logit_scale", e.config.number("logits_scaling"))
}

func qwenExpertKeys(e *exporter) {
	commonKeys(e)
	e.key("expert_feed_forward_length", e.config.whole("moe_intermediate_size"))
	if e.config.has("shared_expert_intermediate_size") {
		e.key("expert_shared_feed_forward_length", e.config.whole("shared_expert_intermediate_size"))
	}
}

// gemmaKeys omits the rotary base, which has always been 10000.
func gemmaKeys(e *exporter) { shapeKeys(e) }

func gemma2Keys(e *exporter) {
	shapeKeys(e)
	e.key("attn_logit_softcapping", e.config.number("attn_logit_softcapping"))
	e.key("final_logit_softcapping", e.config.number("final_logit_softcapping"))
	e.key("attention.sliding_window", e.config.whole("sliding_window"))
	queryScale(e)
}

func gemma3Keys(e *exporter) {
	commonKeys(e)
	e.key("rope.freq_base_swa", e.config.number("rope_local_base_freq"))
	e.key("attention.sliding_window", e.config.whole("sliding_window"))
	e.key("attention.sliding_window_pattern", e.config.whole("sliding_window_pattern"))
	queryScale(e)
}

// queryScale adds the scale of attention, which the converter omits because it follows from the
// other sizes in every published model.
func queryScale(e *exporter) {
	e.key("attention.scale", 1/math.Sqrt(e.config.number("query_pre_attn_scalar")))
}

// phi2Keys writes four times the width as the size of the MLP, whatever the real size, and omits
// the rotary base.
func phi2Keys(e *exporter) {
	shapeKeys(e)
	e.key("feed_forward_length", 4*e.config.whole("hidden_size"))
	e.key("attention.layer_norm_epsilon", e.config.number("layer_norm_eps"))
	e.key("rope.dimension_count", int(e.config.number("partial_rotary_factor")*float64(e.config.headDim())))
}

func phi3Keys(e *exporter) {
	shapeKeys(e)
	context, original := e.config.number("max_position_embeddings"), e.config.number("original_max_position_embeddings")
	e.key("rope.freq_base", e.config.number("rope_theta"))
	e.key("rope.dimension_count", e.config.headDim())
	e.key("rope.scaling.original_context_length", int(original))
	e.key("attention.sliding_window", 0)
	if scaling := e.config.object("rope_scaling"); scaling.has("long_factor") {
		e.key("rope.scaling.attn_factor", math.Sqrt(1+math.Log(context/original)/math.Log(original)))
		e.AddFloats("rope_factors_long.weight", scaling.list("long_factor"))
		e.AddFloats("rope_factors_short.weight", scaling.list("short_factor"))
	}
}

// gptneoxKeys omits the number of key heads and the rotary base.
func gptneoxKeys(e *exporter) {
	shapeKeys(e)
	e.key("attention.layer_norm_epsilon", e.config.number("layer_norm_eps"))
	e.key("rope.dimension_count", int(e.config.number("rotary_pct")*float64(e.config.headDim())))
	e.key("use_parallel_residual", e.config.flag("use_parallel_residual"))
}

// lfm2Keys writes 0 key heads for layers without attention.
func lfm2Keys(e *exporter) {
	commonKeys(e)
	var kvHeads []int32
	for _, kind := range e.config.texts("layer_types") {
		n := 0
		if kind == "full_attention" {
			n = e.config.whole("num_key_value_heads")
		}
		kvHeads = append(kvHeads, int32(n))
	}
	e.key("attention.head_count_kv", kvHeads)
	e.key("attention.layer_norm_rms_epsilon", e.config.number("norm_eps"))
	e.key("shortconv.l_cache", e.config.whole("conv_L_cache"))
	e.key("vocab_size", e.config.whole("vocab_size"))
}
