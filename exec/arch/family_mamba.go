package arch

// The families with Mamba-2 layers: their decay rates are stored as logarithms in safetensors files.
var (
	// mamba2 has nothing else: no attention and no MLP.
	mamba2 = Family{
		name: "mamba2", hf: []string{"mamba2"}, gguf: []string{"mamba2"},
		defaults: map[string]string{"rms_norm_eps": "1e-5", "num_attention_heads": "1", "max_position_embeddings": "1048576"},
		complete: func(h *Hyper) {
			h.Heads, h.HeadDim = 1, 2 // no layer attends
			clear(h.KVHeads)
		},
		describe: func(h *Hyper, s *Spec) error {
			for l := range s.Layers {
				s.Layers[l] = LayerSpec{Mixer: Recurrent, Rope: -1, NoMLP: true}
			}
			return describeMamba(h, s)
		},
		names: withNames(backboneNames, mambaNames("mixer")),
	}
	// nemotronH has one block in each layer: Mamba-2, attention without rotation, an MLP, or experts.
	nemotronH = Family{
		name: "nemotron_h", hf: []string{"nemotron_h"}, gguf: []string{"nemotron_h", "nemotron_h_moe"},
		defaults: map[string]string{
			"rms_norm_eps": "1e-5", "mamba_num_heads": "128", "mamba_head_dim": "64", "ssm_state_size": "128", "n_groups": "8", "conv_kernel": "4",
			"head_dim": "128", "num_key_value_heads": "8", "norm_topk_prob": "true",
		},
		aliases: map[string]string{"mlp_hidden_act": "hidden_act"},
		describe: func(h *Hyper, s *Spec) error {
			s.Gated, s.Act, s.RouterSigmoid = false, ReLU2, true
			s.Groups.Best = 2
			for l := range s.Layers {
				layer := &s.Layers[l]
				layer.Rope = -1
				switch {
				case layer.KVHeads > 0:
					layer.NoMLP = true
				case h.LayerTypes != nil && h.LayerTypes[l] == noMixer:
					layer.Mixer = NoMixer
				default:
					layer.Mixer, layer.NoMLP, layer.Experts = Recurrent, true, false
				}
				layer.Experts = layer.Experts && !layer.NoMLP
			}
			return describeMamba(h, s)
		},
		names: withNames(withNames(backboneNames, mambaNames("mixer")), map[string]string{
			"attn_q": "mixer.q_proj", "attn_k": "mixer.k_proj", "attn_v": "mixer.v_proj", "attn_output": "mixer.o_proj",
			"ffn_up": "mixer.up_proj", "ffn_down": "mixer.down_proj",
			"ffn_gate_inp": "mixer.gate", "exp_probs_b.bias": "mixer.gate.e_score_correction_bias",
			"ffn_up_exps": "mixer.experts.%d.up_proj", "ffn_down_exps": "mixer.experts.%d.down_proj",
			"ffn_up_shexp": "mixer.shared_experts.up_proj", "ffn_down_shexp": "mixer.shared_experts.down_proj",
			"ffn_gate_inp_shexp": "mixer.shared_expert_gate",
		}),
	}
	// graniteHybrid is granite with Mamba-2 layers, and with or without experts beside its MLP.
	graniteHybrid = Family{
		name: "granitehybrid", hf: []string{"granitemoehybrid"}, gguf: []string{"granitehybrid"},
		defaults: map[string]string{
			"attention_multiplier": "1",
			"mamba_n_heads":        "128", "mamba_n_groups": "1", "mamba_d_state": "256", "mamba_d_conv": "4", "mamba_d_head": `"auto"`,
		},
		describe: func(h *Hyper, s *Spec) error {
			s.NormTopK = true // a softmax over the chosen experts alone
			for l := range s.Layers {
				if layer := &s.Layers[l]; layer.KVHeads == 0 {
					layer.Mixer, layer.Rope = Recurrent, -1
				}
			}
			return describeMamba(h, s)
		},
		names: withNames(mambaNames("mamba"), map[string]string{
			"ffn_gate_inp": "block_sparse_moe.router.layer", "ffn_gate_up_exps": "block_sparse_moe.input_linear",
			"ffn_down_stack": "block_sparse_moe.output_linear",
			"ffn_gate":       "shared_mlp.gate", "ffn_up": "shared_mlp.input_linear", "ffn_down": "shared_mlp.output_linear",
			"ffn_gate_shexp": "shared_mlp.gate", "ffn_up_shexp": "shared_mlp.input_linear", "ffn_down_shexp": "shared_mlp.output_linear",
		}),
	}
	// falconH1 has attention and Mamba-2 side by side in each layer. Its multipliers are folded into the weights of GGUF files.
	falconH1 = Family{
		name: "falcon_h1", hf: []string{"falcon_h1"}, gguf: []string{"falcon-h1"},
		defaults: map[string]string{
			"rms_norm_eps": "1e-5", "mamba_rms_norm": "false", "mamba_norm_before_gate": "true", "num_key_value_heads": "8", "mamba_d_ssm": "1024",
			"mamba_n_heads": "128", "mamba_n_groups": "1", "mamba_d_state": "256", "mamba_d_conv": "4", "mamba_d_head": `"auto"`,
		},
		describe: func(h *Hyper, s *Spec) error {
			for l := range s.Layers {
				s.Layers[l].Mixer = AttentionAndRecurrent
			}
			m := &h.Multipliers
			s.AttnScale *= m.AttnIn * m.AttnIn * m.Key
			s.AttnOutScale, s.GateScale, s.MLPScale = m.AttnIn*m.AttnOut, m.Gate, m.Down
			s.Recurrence.OutScale = m.StateOut
			s.Recurrence.InScales = m.State
			return describeMamba(h, s)
		},
		names: withNames(mambaNames("mamba"), map[string]string{
			"output_norm": "model.final_layernorm", "ffn_norm": "pre_ff_layernorm",
			"ffn_gate": "feed_forward.gate_proj", "ffn_up": "feed_forward.up_proj", "ffn_down": "feed_forward.down_proj",
		}),
	}
)

// backboneNames are the names outside of the mixers of models whose layers have one block each.
var backboneNames = map[string]string{
	"token_embd": "backbone.embeddings", "output_norm": "backbone.norm_f", "layers": "backbone.layers", "attn_norm": "norm",
}

// mambaNames returns the names of a Mamba-2 mixer.
func mambaNames(mixer string) map[string]string {
	return map[string]string{
		"ssm_in": mixer + ".in_proj", "ssm_out": mixer + ".out_proj", "ssm_conv1d": mixer + ".conv1d",
		"ssm_a": mixer + ".A_log", "ssm_d": mixer + ".D", "ssm_dt.bias": mixer + ".dt_bias", "ssm_norm": mixer + ".norm",
	}
}

func describeMamba(h *Hyper, s *Spec) error {
	s.Recurrence.LogDecay = !h.GGUF
	return nil
}

// Multipliers are the factors of falcon_h1; each is 1 if the file omits it.
type Multipliers struct {
	Key, AttnIn, AttnOut float32
	Gate, Down           float32    // of the MLP
	State                [5]float32 // of the gate, the values, the keys, the queries and the steps of Mamba-2
	StateOut             float32
}

// multipliers reads the factors.
func (c *hfConfig) multipliers(h *Hyper) {
	m := &h.Multipliers
	*m = noMultipliers
	for _, f := range []struct {
		key string
		to  *float32
	}{
		{"key_multiplier", &m.Key},
		{"attention_in_multiplier", &m.AttnIn},
		{"attention_out_multiplier", &m.AttnOut},
		{"ssm_out_multiplier", &m.StateOut},
	} {
		*f.to = float32(c.float(f.key, 1))
	}
	if v := c.float("lm_head_multiplier", 0); v != 0 {
		h.LogitScale = v
	}
	var mlp, state []float32
	c.get("mlp_multipliers", &mlp)
	c.get("ssm_multipliers", &state)
	if len(mlp) == 2 {
		m.Gate, m.Down = mlp[0], mlp[1]
	}
	in := float32(c.float("ssm_in_multiplier", 1))
	for i := range m.State {
		if len(state) == len(m.State) {
			m.State[i] = state[i]
		}
		m.State[i] *= in
	}
}

var noMultipliers = Multipliers{Key: 1, AttnIn: 1, AttnOut: 1, Gate: 1, Down: 1, State: [5]float32{1, 1, 1, 1, 1}, StateOut: 1}
