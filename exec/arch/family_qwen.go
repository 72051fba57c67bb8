package arch

// qwen2 covers Qwen1.5, 2 and 2.5: llama with biases for queries, keys and values, and an
// optional sliding window from a certain layer on.
var qwen2 = Family{
	name: "qwen2", hf: []string{"qwen2"}, gguf: []string{"qwen2"}, describe: describeQwen,
	defaults: map[string]string{"max_window_layers": "28", "sliding_window": "4096"},
}

// qwen2moe adds routed experts and a shared expert. Its optional sliding window is in every
// other one of the first layers.
var qwen2moe = Family{
	name: "qwen2moe", hf: []string{"qwen2_moe"}, gguf: []string{"qwen2moe"},
	defaults: map[string]string{"max_window_layers": "28", "sliding_window": "4096"},
	describe: func(h *Hyper, s *Spec) error {
		s.setWindows(h, func(l int) bool { return h.usesWindow() && l%2 == 0 && l < h.WindowFrom })
		return nil
	},
}

// qwen3 drops the biases and normalizes each query and key head.
var qwen3 = Family{
	name: "qwen3", hf: []string{"qwen3"}, gguf: []string{"qwen3"},
	defaults: map[string]string{"head_dim": "128", "max_window_layers": "28", "sliding_window": "4096"},
	describe: func(h *Hyper, s *Spec) error {
		s.QKNorm = QKNormHead
		return describeQwen(h, s)
	},
}

// qwen3moe is qwen3 with routed experts and no shared expert. Its optional sliding window
// is in every layer.
var qwen3moe = Family{
	name: "qwen3moe", hf: []string{"qwen3_moe"}, gguf: []string{"qwen3moe"},
	defaults: map[string]string{"sliding_window": "4096"},
	describe: func(h *Hyper, s *Spec) error {
		s.QKNorm = QKNormHead
		if h.GGUF && h.NormTopK == nil {
			s.NormTopK = true // GGUF files omit it; all published models have it
		}
		s.setWindows(h, func(int) bool { return h.usesWindow() })
		return nil
	},
}

func describeQwen(h *Hyper, s *Spec) error {
	s.setWindows(h, func(l int) bool { return h.usesWindow() && l >= h.WindowFrom })
	return nil
}

// The hybrids of Qwen mix tokens by gated delta nets in most layers, and by attention whose output is gated in a few.
// Their norms store gains minus one, except that of the delta nets.
var (
	// qwen35 is Qwen3.5 and 3.6 with a dense MLP.
	qwen35 = Family{
		name: "qwen35", hf: []string{"qwen3_5", "qwen3_5_text"}, gguf: []string{"qwen35"},
		describe: describeQwen35, names: qwen35Names, ggufNames: qwen35GGUF,
		defaults: withNames(deltaDefaults, map[string]string{"num_key_value_heads": "4"}),
	}
	// qwen35moe has routed experts and a shared expert instead.
	qwen35moe = Family{
		name: "qwen35moe", hf: []string{"qwen3_5_moe", "qwen3_5_moe_text"}, gguf: []string{"qwen35moe"},
		describe: describeQwen35, names: qwen35Names, ggufNames: qwen35GGUF,
		defaults: withNames(deltaDefaults, map[string]string{
			"num_key_value_heads": "2", "num_experts": "256", "num_experts_per_tok": "8", "moe_intermediate_size": "512", "shared_expert_intermediate_size": "512",
		}),
	}
	// qwen3next stores the projections of delta nets key head by key head.
	qwen3next = Family{
		name: "qwen3next", hf: []string{"qwen3_next"}, gguf: []string{"qwen3next"},
		describe: describeDeltaNets,
		defaults: withNames(deltaDefaults, map[string]string{
			"num_key_value_heads": "2", "num_experts": "512", "num_experts_per_tok": "10", "moe_intermediate_size": "512", "shared_expert_intermediate_size": "512",
		}),
		names:     withNames(deltaNames, map[string]string{"ssm_in": "linear_attn.in_proj_qkvz", "ssm_ba": "linear_attn.in_proj_ba"}),
		ggufNames: deltaGGUF,
	}
)

// deltaDefaults are the fields that files of all of them may omit.
var deltaDefaults = map[string]string{
	"head_dim": "256", "partial_rotary_factor": "0.25", "full_attention_interval": "4", "linear_conv_kernel_dim": "4",
	"linear_key_head_dim": "128", "linear_value_head_dim": "128", "linear_num_key_heads": "16", "linear_num_value_heads": "32",
}

var (
	deltaNames = map[string]string{
		"ssm_conv1d": "linear_attn.conv1d", "ssm_a": "linear_attn.A_log", "ssm_dt.bias": "linear_attn.dt_bias",
		"ssm_norm": "linear_attn.norm", "ssm_out": "linear_attn.out_proj",
	}
	qwen35Names = withNames(deltaNames, map[string]string{
		"ssm_qkv": "linear_attn.in_proj_qkv", "ssm_gate": "linear_attn.in_proj_z",
		"ssm_step": "linear_attn.in_proj_a", "ssm_value": "linear_attn.in_proj_b",
	})
	deltaGGUF  = map[string]string{"ffn_norm": "post_attention_norm", "ssm_qkv": "attn_qkv", "ssm_gate": "attn_gate"}
	qwen35GGUF = withNames(deltaGGUF, map[string]string{"ssm_step": "ssm_alpha", "ssm_value": "ssm_beta"})
)

// withNames returns names, or defaults, with others added.
func withNames(names, others map[string]string) map[string]string {
	all := map[string]string{}
	for _, m := range []map[string]string{names, others} {
		for role, name := range m {
			all[role] = name
		}
	}
	return all
}

func describeQwen35(h *Hyper, s *Spec) error {
	s.Recurrence.InTurn = h.GGUF // GGUF converters reorder the heads of values
	return describeDeltaNets(h, s)
}

func describeDeltaNets(h *Hyper, s *Spec) error {
	s.QKNorm, s.GatedAttention = QKNormHead, true
	if !h.GGUF {
		s.Norm.Offset = 1 // GGUF converters add 1 to the stored gains
	}
	r := &s.Recurrence
	r.Delta, r.NormFirst, r.LogDecay, r.NormGroups = true, true, !h.GGUF, r.Heads
	if h.NormTopK == nil {
		s.NormTopK = true // files omit it; all published models have it
	}
	for l := range s.Layers {
		if layer := &s.Layers[l]; layer.KVHeads == 0 {
			layer.Mixer, layer.Rope = Recurrent, -1
		}
	}
	return nil
}
