package synth

import (
	"cmp"
	"math"
	"slices"

	"github.com/llmrun/llmrun/store/gguf"
)

// keys collects the metadata of a file.
type keys struct {
	arch string
	list []gguf.KV
}

func (k *keys) put(name string, value any) { k.list = append(k.list, gguf.KV{Key: name, Value: value}) }

// putInt adds an integer key of the architecture, with the type that converters write.
func (k *keys) putInt(name string, n int) { k.put(k.arch+"."+name, uint32(n)) }

func (k *keys) putFloat(name string, x float64) { k.put(k.arch+"."+name, float32(x)) }

// quantizationVersion is the version of the current block formats.
const quantizationVersion = 2

// metadata returns all keys of the file.
func (s Shape) metadata(m mix) []gguf.KV {
	k := &keys{arch: s.Arch}
	k.put("general.architecture", s.Arch)
	k.put("general.type", "model")
	// Some engines recognize model families by this name and then expect special tokens, so
	// it must not be the name of the shape.
	k.put("general.name", "Random weights")
	k.put("general.description", "Random weights in the shape of "+s.Name+", for measuring speed and memory.")
	k.put("general.file_type", m.fileType)
	k.put("general.quantization_version", uint32(quantizationVersion))
	s.sizes(k)
	if s.Encoder.on() {
		s.wordPiece(k)
	} else {
		s.vocabulary(k)
	}
	return k.list
}

// sizes adds the keys that describe the network.
func (s Shape) sizes(k *keys) {
	k.putInt("block_count", s.Layers)
	k.putInt("context_length", s.Context)
	k.putInt("embedding_length", s.Dim)
	k.putInt("attention.head_count", s.Heads)
	if s.Encoder.on() {
		s.Encoder.keys(&s, k)
		return
	}
	s.widths(k)
	s.scales(k)
	s.rotation(k)
	s.States.keys(k)
	k.putInt("vocab_size", s.Vocab)
	if s.Rope.LocalBase != 0 {
		k.putFloat("rope.freq_base_swa", s.Rope.LocalBase)
	}
	if s.Window != 0 {
		k.putInt("attention.sliding_window", s.Window)
	}
	if s.Arch == "phi3" {
		k.putInt("rope.scaling.original_context_length", s.Context)
	}
	if d := &s.Deltas; d.Interval > 0 {
		k.putInt("full_attention_interval", d.Interval)
		if s.Arch != "qwen3next" {
			k.put(k.arch+".rope.dimension_sections", []int32{11, 11, 10, 0})
		}
		k.putInt("ssm.conv_kernel", d.Taps)
		k.putInt("ssm.time_step_rank", d.Heads)
		k.putInt("ssm.group_count", d.Keys)
		k.putInt("ssm.state_size", d.HeadDim)
		k.putInt("ssm.inner_size", d.Heads*d.HeadDim)
	}
	if s.Convs.Taps > 0 {
		k.putInt("shortconv.l_cache", s.Convs.Taps)
	}
	if s.Experts > 0 {
		s.expertKeys(k)
	}
}

// expertKeys adds the keys of experts.
func (s Shape) expertKeys(k *keys) {
	k.putInt("expert_count", s.Experts)
	k.putInt("expert_used_count", s.ExpertsUsed)
	k.putInt("expert_feed_forward_length", s.FFN)
	if s.DenseLayers > 0 {
		k.putInt("leading_dense_block_count", s.DenseLayers)
	}
	r := &s.Routing
	switch s.Arch {
	case "lfm2moe":
		k.putInt("expert_gating_func", gatingSigmoid)
	case "qwen35moe", "qwen3next", "granitehybrid", "nemotron_h_moe":
		k.putInt("expert_shared_feed_forward_length", s.SharedFFN)
	case "deepseek2":
		switch {
		case !r.Sigmoid:
			k.putInt("expert_gating_func", gatingSoftmax)
		case s.Rope.Yarn != 0: // converters omit it for GLM, which has no such rotation
			k.putInt("expert_gating_func", gatingSigmoid)
		}
	}
	if r.Shared > 0 {
		k.putInt("expert_shared_count", r.Shared)
		k.putInt("expert_group_count", cmp.Or(r.Groups, 1))
		k.putInt("expert_group_used_count", cmp.Or(r.Used, 1))
		k.putFloat("expert_weights_scale", r.Scale)
		if r.Norm {
			k.put(k.arch+".expert_weights_norm", true)
		}
	}
}

// scales adds the norm's epsilon, and what multiplies activations.
func (s Shape) scales(k *keys) {
	switch s.Arch {
	case "cohere2":
		k.putFloat("attention.layer_norm_epsilon", s.NormEps)
		k.putFloat("logit_scale", cohereLogitScale)
		return
	case "nemotron_h", "nemotron_h_moe":
		k.putFloat("attention.layer_norm_epsilon", s.NormEps)
	case "granitehybrid":
		k.putFloat("attention.scale", 1/float64(s.HeadDim))
		k.putFloat("embedding_scale", 12)
		k.putFloat("residual_scale", 0.22)
		k.putFloat("logit_scale", float64(s.Dim)/256)
	}
	if s.Arch != "nemotron_h" {
		k.putFloat("attention.layer_norm_rms_epsilon", s.NormEps)
	}
}

// rotation adds the keys of rotary position embedding.
func (s Shape) rotation(k *keys) {
	if s.Rope.Base == 0 && s.Heads == 0 {
		return // no attention
	}
	k.putInt("rope.dimension_count", cmp.Or(s.Rope.Dim, s.Layered.HeadDim, s.HeadDim))
	if s.Rope.Base != 0 {
		k.putFloat("rope.freq_base", s.Rope.Base)
	}
	if s.Rope.Base == 0 || s.Arch == "granitehybrid" {
		k.put(k.arch+".rope.scaling.finetuned", false) // attention without rotation
	}
	s.yarn(k)
}

// widths adds the keys of the sizes that layers may have of their own.
func (s Shape) widths(k *keys) {
	if s.Heads == 0 { // no layer attends, and none has an MLP
		k.putInt("feed_forward_length", 0)
		return
	}
	inner, kvHeads := make([]int32, s.Layers), make([]int32, s.Layers)
	for l := range s.Layers {
		inner[l], kvHeads[l] = int32(s.inner(l)), int32(s.kvHeads(l))
	}
	k.putEach("attention.head_count_kv", kvHeads)
	switch {
	case s.Layered.Interval > 0:
		k.putEach("feed_forward_length", inner)
		s.layeredKeys(k)
	case s.Latent.Rank > 0:
		k.putInt("feed_forward_length", max(s.FFN, s.DenseFFN))
		s.latentKeys(k)
	case s.States.Blocks != "":
		k.put(k.arch+".feed_forward_length", inner)
		k.putInt("attention.key_length", s.HeadDim)
		k.putInt("attention.value_length", s.HeadDim)
	default:
		if s.Arch != "qwen35moe" { // its files do not have it
			k.putInt("feed_forward_length", max(s.FFN, s.DenseFFN))
		}
		k.putInt("attention.key_length", s.HeadDim)
		k.putInt("attention.value_length", s.HeadDim)
	}
}

// putEach adds a value for each layer, as one number if all are equal.
func (k *keys) putEach(name string, values []int32) {
	if slices.Min(values) == slices.Max(values) {
		k.putInt(name, int(values[0]))
		return
	}
	k.put(k.arch+"."+name, values)
}

// layeredKeys adds the keys of Gemma 3n and 4.
func (s Shape) layeredKeys(k *keys) {
	g := &s.Layered
	k.putInt("attention.key_length", cmp.Or(g.HeadDim, s.HeadDim))
	k.putInt("attention.value_length", cmp.Or(g.HeadDim, s.HeadDim))
	if g.HeadDim != 0 {
		k.putInt("attention.key_length_swa", s.HeadDim)
		k.putInt("attention.value_length_swa", s.HeadDim)
		k.putInt("rope.dimension_count_swa", s.HeadDim)
	}
	if g.Streams.Count > 0 {
		g.Streams.keys(&s, k)
	}
	k.putInt("attention.shared_kv_layers", g.SharedKV)
	k.putInt("embedding_length_per_layer_input", g.PerLayer)
	k.putFloat("final_logit_softcapping", gemmaSoftcap)
	windows := make([]bool, s.Layers)
	for l := range windows {
		windows[l] = !g.full(l)
	}
	k.put(k.arch+".attention.sliding_window_pattern", windows)
}

const (
	gemmaSoftcap  = 30 // of the logits of Gemma 3n and 4
	gatingSoftmax = 1  // numbers of the functions that choose experts
	gatingSigmoid = 2
)

// cohereLogitScale multiplies the logits of Command R7B.
const cohereLogitScale = 0.25

// yarn adds the keys of rotary scaling by yarn.
func (s Shape) yarn(k *keys) {
	if s.Rope.Yarn == 0 {
		return
	}
	k.put(k.arch+".rope.scaling.type", "yarn")
	k.putFloat("rope.scaling.factor", s.Rope.Yarn)
	k.putInt("rope.scaling.original_context_length", s.Rope.YarnContext)
	if s.Rope.YarnLog != 0 {
		k.putFloat("rope.scaling.yarn_log_multiplier", s.Rope.YarnLog)
		k.putFloat("rope.scaling.yarn_beta_fast", 32)
		k.putFloat("rope.scaling.yarn_beta_slow", 1)
	}
	if s.Arch == "mistral3" {
		k.putFloat("rope.scaling.yarn_log_multiplier", 1)
		k.putFloat("attention.temperature_scale", 0.1)
	}
}

// The RoPE scaling parameters that all sizes of Llama 3.1 share.
const (
	ropeLowFreqFactor   = 1    // rotations over the original context: frequencies with fewer are stretched
	ropeHighFreqFactor  = 4    // frequencies with more stay unchanged
	ropeOriginalContext = 8192 // original context in tokens
)

// ropeFactors returns the divisor of each rotary frequency: 1 for frequencies that rotate
// often within the original context, Rope.Factor for those that hardly rotate, and an
// interpolation for those between.
func (s Shape) ropeFactors() []float32 {
	if s.Rope.Turned > 0 {
		return s.turnedFactors()
	}
	factors := make([]float32, s.HeadDim/2)
	for i := range factors {
		frequency := math.Pow(s.Rope.Base, -2*float64(i)/float64(s.HeadDim))
		rotations := ropeOriginalContext * frequency / (2 * math.Pi)
		smooth := min(max((rotations-ropeLowFreqFactor)/(ropeHighFreqFactor-ropeLowFreqFactor), 0), 1)
		factors[i] = float32(1 / ((1-smooth)/s.Rope.Factor + smooth))
	}
	return factors
}

// turnedFactors returns divisors that stop all but the first frequencies.
func (s Shape) turnedFactors() []float32 {
	const still = 1e30
	factors := make([]float32, s.Layered.HeadDim/2)
	for i := range factors {
		factors[i] = 1
		if float64(i) >= s.Rope.Turned*float64(len(factors)) {
			factors[i] = still
		}
	}
	return factors
}
