package synth

import (
	"cmp"
	"math"

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
	s.vocabulary(k)
	return k.list
}

// sizes adds the keys that describe the network.
func (s Shape) sizes(k *keys) {
	k.putInt("block_count", s.Layers)
	k.putInt("context_length", s.Context)
	k.putInt("embedding_length", s.Dim)
	k.putInt("feed_forward_length", max(s.FFN, s.DenseFFN))
	k.putInt("attention.head_count", s.Heads)
	k.putInt("attention.head_count_kv", s.KVHeads)
	k.putInt("attention.key_length", s.HeadDim)
	k.putInt("attention.value_length", s.HeadDim)
	if s.Arch == "cohere2" {
		k.putFloat("attention.layer_norm_epsilon", s.NormEps)
		k.putFloat("logit_scale", cohereLogitScale)
	} else {
		k.putFloat("attention.layer_norm_rms_epsilon", s.NormEps)
	}
	k.putFloat("rope.freq_base", s.Rope.Base)
	k.putInt("rope.dimension_count", cmp.Or(s.Rope.Dim, s.HeadDim))
	s.yarn(k)
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
		k.put(k.arch+".rope.dimension_sections", []int32{11, 11, 10, 0})
		k.putInt("ssm.conv_kernel", d.Taps)
		k.putInt("ssm.time_step_rank", d.Heads)
		k.putInt("ssm.group_count", d.Keys)
		k.putInt("ssm.state_size", d.HeadDim)
		k.putInt("ssm.inner_size", d.Heads*d.HeadDim)
	}
	if s.Experts > 0 {
		k.putInt("expert_count", s.Experts)
		k.putInt("expert_used_count", s.ExpertsUsed)
		k.putInt("expert_feed_forward_length", s.FFN)
	}
}

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
	factors := make([]float32, s.HeadDim/2)
	for i := range factors {
		frequency := math.Pow(s.Rope.Base, -2*float64(i)/float64(s.HeadDim))
		rotations := ropeOriginalContext * frequency / (2 * math.Pi)
		smooth := min(max((rotations-ropeLowFreqFactor)/(ropeHighFreqFactor-ropeLowFreqFactor), 0), 1)
		factors[i] = float32(1 / ((1-smooth)/s.Rope.Factor + smooth))
	}
	return factors
}
