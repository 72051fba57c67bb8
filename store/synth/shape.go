package synth

import "strings"

// Shape describes the sizes of a model and its other properties that determine its speed.
type Shape struct {
	Name    string // name on the command line, such as "qwen2.5-0.5b"
	Arch    string // general.architecture, which determines the tensors
	Layers  int
	Dim     int // width of the residual stream
	Heads   int // query heads
	KVHeads int
	HeadDim int
	FFN     int // inner width of the MLP, or of each expert
	Vocab   int
	Context int     // context length in tokens
	Tied    bool    // the output head shares the embedding matrix
	NormEps float64 // epsilon of the RMS norm
	Rope    Rope

	Experts, ExpertsUsed int // routed experts, and those used per token
	DenseFFN             int // the file's MLP width in a model with experts
	Window               int // sliding window in tokens; 0 = none
}

// Rope holds the parameters of rotary position embedding.
type Rope struct {
	Base      float64
	LocalBase float64 // base in layers with a window, if it differs
	// Factor stretches low frequencies as in Llama 3.1; 0 means no scaling.
	Factor float64
}

// Parameters that all models of a generation share.
const (
	llamaVocab   = 128256
	llamaContext = 131072
	qwenVocab    = 151936
	qwenContext  = 32768
	qwen3Context = 40960
)

var (
	llama31 = Rope{Base: 5e5, Factor: 8}
	llama32 = Rope{Base: 5e5, Factor: 32}
	qwen    = Rope{Base: 1e6}
)

// shapes lists the models by family, the smallest first. The two tiny ones are not
// published models; they are for tests.
var shapes = []Shape{
	{
		Name: "tiny", Arch: "llama", Layers: 2, Dim: 256, Heads: 4, KVHeads: 2, HeadDim: 64, FFN: 512,
		Vocab: 512, Context: 2048, Tied: true, NormEps: 1e-5, Rope: llama32,
	},
	{
		Name: "tiny-moe", Arch: "qwen3moe", Layers: 2, Dim: 256, Heads: 4, KVHeads: 2, HeadDim: 64, FFN: 256,
		Vocab: 512, Context: 2048, NormEps: 1e-6, Rope: qwen, Experts: 16, ExpertsUsed: 4, DenseFFN: 1024,
	},
	{
		Name: "qwen2.5-0.5b", Arch: "qwen2", Layers: 24, Dim: 896, Heads: 14, KVHeads: 2, HeadDim: 64, FFN: 4864,
		Vocab: qwenVocab, Context: qwenContext, Tied: true, NormEps: 1e-6, Rope: qwen,
	},
	{
		Name: "qwen2.5-1.5b", Arch: "qwen2", Layers: 28, Dim: 1536, Heads: 12, KVHeads: 2, HeadDim: 128, FFN: 8960,
		Vocab: qwenVocab, Context: qwenContext, Tied: true, NormEps: 1e-6, Rope: qwen,
	},
	{
		Name: "qwen2.5-3b", Arch: "qwen2", Layers: 36, Dim: 2048, Heads: 16, KVHeads: 2, HeadDim: 128, FFN: 11008,
		Vocab: qwenVocab, Context: qwenContext, Tied: true, NormEps: 1e-6, Rope: qwen,
	},
	{
		Name: "qwen2.5-7b", Arch: "qwen2", Layers: 28, Dim: 3584, Heads: 28, KVHeads: 4, HeadDim: 128, FFN: 18944,
		Vocab: 152064, Context: qwenContext, NormEps: 1e-6, Rope: qwen,
	},
	{
		Name: "qwen2.5-14b", Arch: "qwen2", Layers: 48, Dim: 5120, Heads: 40, KVHeads: 8, HeadDim: 128, FFN: 13824,
		Vocab: 152064, Context: qwenContext, NormEps: 1e-6, Rope: qwen,
	},
	{
		Name: "qwen3-0.6b", Arch: "qwen3", Layers: 28, Dim: 1024, Heads: 16, KVHeads: 8, HeadDim: 128, FFN: 3072,
		Vocab: qwenVocab, Context: qwen3Context, Tied: true, NormEps: 1e-6, Rope: qwen,
	},
	{
		Name: "qwen3-1.7b", Arch: "qwen3", Layers: 28, Dim: 2048, Heads: 16, KVHeads: 8, HeadDim: 128, FFN: 6144,
		Vocab: qwenVocab, Context: qwen3Context, Tied: true, NormEps: 1e-6, Rope: qwen,
	},
	{
		Name: "qwen3-4b", Arch: "qwen3", Layers: 36, Dim: 2560, Heads: 32, KVHeads: 8, HeadDim: 128, FFN: 9728,
		Vocab: qwenVocab, Context: qwen3Context, Tied: true, NormEps: 1e-6, Rope: qwen,
	},
	{
		Name: "qwen3-8b", Arch: "qwen3", Layers: 36, Dim: 4096, Heads: 32, KVHeads: 8, HeadDim: 128, FFN: 12288,
		Vocab: qwenVocab, Context: qwen3Context, NormEps: 1e-6, Rope: qwen,
	},
	{
		Name: "qwen3-30b-a3b", Arch: "qwen3moe", Layers: 48, Dim: 2048, Heads: 32, KVHeads: 4, HeadDim: 128, FFN: 768,
		Vocab: qwenVocab, Context: qwen3Context, NormEps: 1e-6, Rope: qwen, Experts: 128, ExpertsUsed: 8, DenseFFN: 6144,
	},
	{
		Name: "llama-3.2-1b", Arch: "llama", Layers: 16, Dim: 2048, Heads: 32, KVHeads: 8, HeadDim: 64, FFN: 8192,
		Vocab: llamaVocab, Context: llamaContext, Tied: true, NormEps: 1e-5, Rope: llama32,
	},
	{
		Name: "llama-3.2-3b", Arch: "llama", Layers: 28, Dim: 3072, Heads: 24, KVHeads: 8, HeadDim: 128, FFN: 8192,
		Vocab: llamaVocab, Context: llamaContext, Tied: true, NormEps: 1e-5, Rope: llama32,
	},
	{
		Name: "llama-3.1-8b", Arch: "llama", Layers: 32, Dim: 4096, Heads: 32, KVHeads: 8, HeadDim: 128, FFN: 14336,
		Vocab: llamaVocab, Context: llamaContext, NormEps: 1e-5, Rope: llama31,
	},
	{
		Name: "mistral-7b-v0.3", Arch: "llama", Layers: 32, Dim: 4096, Heads: 32, KVHeads: 8, HeadDim: 128, FFN: 14336,
		Vocab: 32768, Context: 32768, NormEps: 1e-5, Rope: Rope{Base: 1e6},
	},
	{
		Name: "smollm3-3b", Arch: "smollm3", Layers: 36, Dim: 2048, Heads: 16, KVHeads: 4, HeadDim: 128, FFN: 11008,
		Vocab: llamaVocab, Context: 65536, Tied: true, NormEps: 1e-6, Rope: Rope{Base: 5e6},
	},
	{
		Name: "gemma-3-1b", Arch: "gemma3", Layers: 26, Dim: 1152, Heads: 4, KVHeads: 1, HeadDim: 256, FFN: 6912,
		Vocab: 262144, Context: 32768, Tied: true, NormEps: 1e-6, Rope: Rope{Base: 1e6, LocalBase: 1e4}, Window: 512,
	},
	{
		Name: "phi-3-mini-4k", Arch: "phi3", Layers: 32, Dim: 3072, Heads: 32, KVHeads: 32, HeadDim: 96, FFN: 8192,
		Vocab: 32064, Context: 4096, NormEps: 1e-5, Rope: Rope{Base: 1e4}, Window: 2047,
	},
	{
		Name: "olmoe-1b-7b", Arch: "olmoe", Layers: 16, Dim: 2048, Heads: 16, KVHeads: 16, HeadDim: 128, FFN: 1024,
		Vocab: 50304, Context: 4096, NormEps: 1e-5, Rope: Rope{Base: 1e4}, Experts: 64, ExpertsUsed: 8, DenseFFN: 1024,
	},
}

// Shapes returns all shapes by family and size.
func Shapes() []Shape { return append([]Shape(nil), shapes...) }

// FindShape returns the shape with the given name, ignoring case.
func FindShape(name string) (Shape, bool) {
	for _, s := range shapes {
		if strings.EqualFold(s.Name, name) {
			return s, true
		}
	}
	return Shape{}, false
}

// Parameters returns the number of weights.
func (s Shape) Parameters() int64 {
	var n int64
	for _, t := range s.tensors() {
		if t.fill != fillRopeFactors { // a table, not weights
			n += t.elems()
		}
	}
	return n
}
