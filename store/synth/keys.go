package synth

import (
	"math"

	"github.com/llmrun/llmrun/store/gguf"
)

// keys collects the metadata of a file.
type keys struct {
	arch string
	list []gguf.KV
}

func (k *keys) put(name string, value any) { k.list = append(k.list, gguf.KV{Key: name, Value: value}) }

// putInt puts a number of the architecture, as converters write it.
func (k *keys) putInt(name string, n int) { k.put(k.arch+"."+name, uint32(n)) }

func (k *keys) putFloat(name string, x float64) { k.put(k.arch+"."+name, float32(x)) }

// quantizationVersion is that of the block formats in use today.
const quantizationVersion = 2

// metadata lists all keys of the file.
func (s Shape) metadata(m mix) []gguf.KV {
	k := &keys{arch: s.Arch}
	k.put("general.architecture", s.Arch)
	k.put("general.type", "model")
	// Engines look for model families in the name, and then for tokens that
	// these have: it must not be the shape's.
	k.put("general.name", "Random weights")
	k.put("general.description", "Random weights in the shape of "+s.Name+", for measuring speed and memory.")
	k.put("general.file_type", m.fileType)
	k.put("general.quantization_version", uint32(quantizationVersion))
	s.sizes(k)
	s.vocabulary(k)
	return k.list
}

// sizes puts the numbers that describe the network.
func (s Shape) sizes(k *keys) {
	k.putInt("block_count", s.Layers)
	k.putInt("context_length", s.Context)
	k.putInt("embedding_length", s.Dim)
	k.putInt("feed_forward_length", max(s.FFN, s.DenseFFN))
	k.putInt("attention.head_count", s.Heads)
	k.putInt("attention.head_count_kv", s.KVHeads)
	k.putInt("attention.key_length", s.HeadDim)
	k.putInt("attention.value_length", s.HeadDim)
	k.putFloat("attention.layer_norm_rms_epsilon", s.NormEps)
	k.putFloat("rope.freq_base", s.Rope.Base)
	k.putInt("rope.dimension_count", s.HeadDim)
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
	if s.Experts > 0 {
		k.putInt("expert_count", s.Experts)
		k.putInt("expert_used_count", s.ExpertsUsed)
		k.putInt("expert_feed_forward_length", s.FFN)
	}
}

// The settings of Llama 3.1's rotation that all its sizes share.
const (
	ropeLowFreqFactor   = 1    // turns over the first context: fewer are stretched
	ropeHighFreqFactor  = 4    // more are kept
	ropeOriginalContext = 8192 // the first context, in tokens
)

// ropeFactors returns what each rotary frequency is divided by: 1 where it
// turns often within the context of the first training, the factor where it
// hardly turns, and between the two, means of the frequencies.
func (s Shape) ropeFactors() []float32 {
	factors := make([]float32, s.HeadDim/2)
	for i := range factors {
		frequency := math.Pow(s.Rope.Base, -2*float64(i)/float64(s.HeadDim))
		turns := ropeOriginalContext * frequency / (2 * math.Pi)
		kept := min(max((turns-ropeLowFreqFactor)/(ropeHighFreqFactor-ropeLowFreqFactor), 0), 1)
		factors[i] = float32(1 / ((1-kept)/s.Rope.Factor + kept))
	}
	return factors
}
