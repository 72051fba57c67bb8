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

// whole puts a number of the architecture, as converters write it.
func (k *keys) whole(name string, n int) { k.put(k.arch+"."+name, uint32(n)) }

func (k *keys) float(name string, x float64) { k.put(k.arch+"."+name, float32(x)) }

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
	k.whole("block_count", s.Layers)
	k.whole("context_length", s.Context)
	k.whole("embedding_length", s.Dim)
	k.whole("feed_forward_length", max(s.FFN, s.DenseFFN))
	k.whole("attention.head_count", s.Heads)
	k.whole("attention.head_count_kv", s.KVHeads)
	k.whole("attention.key_length", s.HeadDim)
	k.whole("attention.value_length", s.HeadDim)
	k.float("attention.layer_norm_rms_epsilon", s.NormEps)
	k.float("rope.freq_base", s.Rope.Base)
	k.whole("rope.dimension_count", s.HeadDim)
	k.whole("vocab_size", s.Vocab)
	if s.Rope.LocalBase != 0 {
		k.float("rope.freq_base_swa", s.Rope.LocalBase)
	}
	if s.Window != 0 {
		k.whole("attention.sliding_window", s.Window)
	}
	if s.Arch == "phi3" {
		k.whole("rope.scaling.original_context_length", s.Context)
	}
	if s.Experts > 0 {
		k.whole("expert_count", s.Experts)
		k.whole("expert_used_count", s.Used)
		k.whole("expert_feed_forward_length", s.FFN)
	}
}

// The settings of Llama 3.1's rotation that all its sizes share.
const (
	ropeLow      = 1    // turns over the first context: fewer are stretched
	ropeHigh     = 4    // more are kept
	ropeOriginal = 8192 // the first context, in tokens
)

// ropeFactors returns what each rotary frequency is divided by: 1 where it
// turns often within the context of the first training, the factor where it
// hardly turns, and between the two, means of the frequencies.
func (s Shape) ropeFactors() []float32 {
	factors := make([]float32, s.HeadDim/2)
	for i := range factors {
		frequency := math.Pow(s.Rope.Base, -2*float64(i)/float64(s.HeadDim))
		turns := ropeOriginal * frequency / (2 * math.Pi)
		kept := min(max((turns-ropeLow)/(ropeHigh-ropeLow), 0), 1)
		factors[i] = float32(1 / ((1-kept)/s.Rope.Factor + kept))
	}
	return factors
}
