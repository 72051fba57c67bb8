package synth

import (
	"cmp"
	"slices"
	"strings"
)

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
	DenseLayers          int // first layers that have such an MLP instead of experts
	SharedFFN            int // inner width of the experts that every token uses, together; 0 = none
	Routing              Routing
	Window               int // sliding window in tokens; 0 = none
	Deltas               Deltas
	States               States
	Convs                Convs
	Latent               Latent
	Layered              Layered
	Encoder              Encoder
	Pre                  string // splits texts before the merges; "" = as the architecture does
}

// Routing holds how tokens choose experts.
type Routing struct {
	Sigmoid      bool // scores are sigmoids with a bias, not a softmax
	Norm         bool // scores of the chosen experts are divided by their sum
	Scale        float64
	Shared       int // experts that every token uses
	Groups, Used int // groups of experts, and those of which a token chooses; 0 = one group
}

// Convs are the short convolutions of models that have them in most layers.
type Convs struct {
	Taps    int
	Attends []int // the layers that have attention instead
}

// inLayer reports whether a layer is a short convolution.
func (c *Convs) inLayer(l int) bool { return c.Taps > 0 && !slices.Contains(c.Attends, l) }

// Layered holds what the layers of Gemma 3n and 4 do not have in common.
type Layered struct {
	Interval int // one of so many layers has no window; 0 = the family has no such layers
	HeadDim  int // in layers without a window; 0 = as in the others
	KVHeads  int // in layers without a window, whose values are their keys; 0 = as in the others, with values
	SharedKV int // last layers that use keys and values of earlier ones, with MLPs twice as wide in Gemma 4
	PerLayer int // width of the embedding that each layer has of its own
	Streams  Streams
}

// full reports whether a layer of the family has no window.
func (g *Layered) full(l int) bool { return g.Interval > 0 && (l+1)%g.Interval == 0 }

// headDim returns the elements of a layer's heads.
func (s *Shape) headDim(l int) int {
	if s.Layered.full(l) {
		return cmp.Or(s.Layered.HeadDim, s.HeadDim)
	}
	return s.HeadDim
}

// kvHeads returns the heads of keys of a layer, 0 if it has no attention.
func (s *Shape) kvHeads(l int) int {
	if s.Convs.inLayer(l) || s.States.on() && !s.States.attends(l) {
		return 0
	}
	if s.Layered.full(l) {
		return cmp.Or(s.Layered.KVHeads, s.KVHeads)
	}
	return s.KVHeads
}

// inner returns the width of a layer's MLP that is not an expert's, 0 if the layer has none.
func (s *Shape) inner(l int) int {
	if !s.States.hasMLP(l) {
		return 0
	}
	width := s.FFN
	if s.Experts > 0 {
		width = s.DenseFFN
	}
	if l >= s.Layers-s.Layered.SharedKV && s.Layered.Streams.Count == 0 {
		width *= 2
	}
	return width
}

// Deltas holds the sizes of gated delta nets, in models that have them in most layers.
type Deltas struct {
	Interval int // one of so many layers has attention, whose outputs are gated; 0 = all layers, without gates
	Keys     int // heads of keys and of queries
	Heads    int // heads of values
	HeadDim  int
	Taps     int // of the convolution
}

// channels returns the channels of the convolution: queries, keys and values.
func (d *Deltas) channels() int { return (2*d.Keys + d.Heads) * d.HeadDim }

// inLayer reports whether a layer is a delta net.
func (d *Deltas) inLayer(l int) bool { return d.Interval > 0 && (l+1)%d.Interval != 0 }

// Rope holds the parameters of rotary position embedding.
type Rope struct {
	Base      float64
	LocalBase float64 // base in layers with a window, if it differs
	// Factor stretches low frequencies as in Llama 3.1; 0 means no scaling.
	Factor float64
	// Yarn stretches them from an original context of YarnContext tokens; 0 means no scaling.
	Yarn        float64
	YarnContext int
	YarnLog     float64 // by which the scale of attention grows with the logarithm of the factor
	// Long is the factor by which the slowest frequency is divided in longer texts than the context; 0 means no such factors.
	Long float64
	Dim  int // rotated elements of a head; 0 means all
	// Turned is the part of a head's frequencies that is not 0, in layers without a window; 0 means all.
	Turned float64
}

// Parameters that all models of a generation share.
const (
	llamaVocab   = 128256
	llamaContext = 131072
	qwenVocab    = 151936
	qwenContext  = 32768
	qwen3Context = 40960

	qwen35Vocab   = 248320
	qwen35Context = 262144

	graniteVocab   = 100352
	graniteContext = 131072
)

var (
	llama31 = Rope{Base: 5e5, Factor: 8}
	llama32 = Rope{Base: 5e5, Factor: 32}
	qwen    = Rope{Base: 1e6}
	qwen35  = Rope{Base: 1e7, Dim: 64}
	gemma4  = Rope{Base: 1e6, LocalBase: 1e4, Turned: 0.25}
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
		Name: "qwen3.5-0.8b", Arch: "qwen35", Layers: 24, Dim: 1024, Heads: 8, KVHeads: 2, HeadDim: 256, FFN: 3584,
		Vocab: qwen35Vocab, Context: qwen35Context, Tied: true, NormEps: 1e-6, Rope: qwen35,
		Deltas: Deltas{Interval: 4, Keys: 16, Heads: 16, HeadDim: 128, Taps: 4},
	},
	{
		Name: "qwen3.5-4b", Arch: "qwen35", Layers: 32, Dim: 2560, Heads: 16, KVHeads: 4, HeadDim: 256, FFN: 9216,
		Vocab: qwen35Vocab, Context: qwen35Context, Tied: true, NormEps: 1e-6, Rope: qwen35,
		Deltas: Deltas{Interval: 4, Keys: 16, Heads: 32, HeadDim: 128, Taps: 4},
	},
	{
		Name: "qwen3.5-35b-a3b", Arch: "qwen35moe", Layers: 40, Dim: 2048, Heads: 16, KVHeads: 2, HeadDim: 256, FFN: 512,
		Vocab: qwen35Vocab, Context: qwen35Context, NormEps: 1e-6, Rope: qwen35, Experts: 256, ExpertsUsed: 8, SharedFFN: 512,
		Deltas: Deltas{Interval: 4, Keys: 16, Heads: 32, HeadDim: 128, Taps: 4},
	},
	{
		Name: "qwen3-next-80b-a3b", Arch: "qwen3next", Layers: 48, Dim: 2048, Heads: 16, KVHeads: 2, HeadDim: 256, FFN: 512,
		Vocab: qwenVocab, Context: 262144, NormEps: 1e-6, Rope: qwen35, Experts: 512, ExpertsUsed: 10, DenseFFN: 5120, SharedFFN: 512,
		Deltas: Deltas{Interval: 4, Keys: 16, Heads: 32, HeadDim: 128, Taps: 4},
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
		Name: "gemma-3n-e2b", Arch: "gemma3n", Layers: 30, Dim: 2048, Heads: 8, KVHeads: 2, HeadDim: 256, FFN: 8192,
		Vocab: 262144, Context: 32768, Tied: true, NormEps: 1e-6, Rope: Rope{Base: 1e6, LocalBase: 1e4}, Window: 512,
		Layered: Layered{Interval: 5, SharedKV: 10, PerLayer: 256, Streams: Streams{Count: 4, Laurel: 64, Sparse: 10}},
	},
	{
		Name: "gemma-4-e2b", Arch: "gemma4", Layers: 35, Dim: 1536, Heads: 8, KVHeads: 1, HeadDim: 256, FFN: 6144,
		Vocab: 262144, Context: 131072, Tied: true, NormEps: 1e-6, Rope: gemma4, Window: 512,
		Layered: Layered{Interval: 5, HeadDim: 512, SharedKV: 20, PerLayer: 256},
	},
	{
		Name: "gemma-4-26b-a4b", Arch: "gemma4", Layers: 30, Dim: 2816, Heads: 16, KVHeads: 8, HeadDim: 256, FFN: 704,
		Vocab: 262144, Context: 262144, Tied: true, NormEps: 1e-6, Rope: gemma4, Window: 1024,
		Experts: 128, ExpertsUsed: 8, DenseFFN: 2112, Layered: Layered{Interval: 6, HeadDim: 512, KVHeads: 2},
	},
	{
		Name: "phi-3-mini-4k", Arch: "phi3", Layers: 32, Dim: 3072, Heads: 32, KVHeads: 32, HeadDim: 96, FFN: 8192,
		Vocab: 32064, Context: 4096, NormEps: 1e-5, Rope: Rope{Base: 1e4}, Window: 2047,
	},
	{
		Name: "olmoe-1b-7b", Arch: "olmoe", Layers: 16, Dim: 2048, Heads: 16, KVHeads: 16, HeadDim: 128, FFN: 1024,
		Vocab: 50304, Context: 4096, NormEps: 1e-5, Rope: Rope{Base: 1e4}, Experts: 64, ExpertsUsed: 8, DenseFFN: 1024,
	},
	{
		Name: "ernie-4.5-0.3b", Arch: "ernie4_5", Layers: 18, Dim: 1024, Heads: 16, KVHeads: 2, HeadDim: 128, FFN: 3072,
		Vocab: 103424, Context: 131072, Tied: true, NormEps: 1e-5, Rope: Rope{Base: 5e5},
	},
	{
		Name: "exaone-4-1.2b", Arch: "exaone4", Layers: 30, Dim: 2048, Heads: 32, KVHeads: 8, HeadDim: 64, FFN: 4096,
		Vocab: 102400, Context: 65536, Tied: true, NormEps: 1e-5, Rope: Rope{Base: 1e6, Factor: 16},
	},
	{
		Name: "hunyuan-1.8b", Arch: "hunyuan-dense", Layers: 32, Dim: 2048, Heads: 16, KVHeads: 4, HeadDim: 128, FFN: 6144,
		Vocab: 120818, Context: 262144, Tied: true, NormEps: 1e-5, Rope: Rope{Base: 11158840},
	},
	{
		Name: "ministral-3-3b", Arch: "mistral3", Layers: 26, Dim: 3072, Heads: 32, KVHeads: 8, HeadDim: 128, FFN: 9216,
		Vocab: 131072, Context: 262144, Tied: true, NormEps: 1e-5, Rope: Rope{Base: 1e6, Yarn: 16, YarnContext: 16384},
	},
	{
		Name: "phi-4-mini", Arch: "phi3", Layers: 32, Dim: 3072, Heads: 24, KVHeads: 8, HeadDim: 128, FFN: 8192,
		Vocab: 200064, Context: 131072, Tied: true, NormEps: 1e-5, Rope: Rope{Base: 1e4, Dim: 96},
	},
	{
		Name: "olmo-3-7b", Arch: "olmo2", Layers: 32, Dim: 4096, Heads: 32, KVHeads: 32, HeadDim: 128, FFN: 11008,
		Vocab: 100278, Context: 65536, NormEps: 1e-6, Rope: Rope{Base: 5e5, LocalBase: 5e5, Yarn: 8, YarnContext: 8192}, Window: 4096,
	},
	{
		Name: "command-r7b", Arch: "cohere2", Layers: 32, Dim: 4096, Heads: 32, KVHeads: 8, HeadDim: 128, FFN: 14336,
		Vocab: 256000, Context: 132096, Tied: true, NormEps: 1e-5, Rope: Rope{Base: 5e4}, Window: 4096,
	},
	{
		Name: "glm-4-9b", Arch: "glm4", Layers: 40, Dim: 4096, Heads: 32, KVHeads: 2, HeadDim: 128, FFN: 13696,
		Vocab: 151552, Context: 32768, NormEps: 1e-5, Rope: Rope{Base: 1e4, Dim: 64},
	},
	{
		Name: "seed-oss-36b", Arch: "seed_oss", Layers: 64, Dim: 5120, Heads: 80, KVHeads: 8, HeadDim: 128, FFN: 27648,
		Vocab: 155136, Context: 524288, NormEps: 1e-6, Rope: Rope{Base: 1e7},
	},
	{
		Name: "gpt-oss-20b", Arch: "gpt-oss", Layers: 24, Dim: 2880, Heads: 64, KVHeads: 8, HeadDim: 64, FFN: 2880,
		Vocab: 201088, Context: 131072, NormEps: 1e-5, Rope: Rope{Base: 15e4, Yarn: 32, YarnContext: 4096},
		Window: 128, Experts: 32, ExpertsUsed: 4,
	},
	{
		Name: "lfm2-8b-a1b", Arch: "lfm2moe", Layers: 24, Dim: 2048, Heads: 32, KVHeads: 8, HeadDim: 64, FFN: 1792,
		Vocab: 65536, Context: 128000, Tied: true, NormEps: 1e-5, Rope: Rope{Base: 1e6},
		Experts: 32, ExpertsUsed: 4, DenseFFN: 7168, DenseLayers: 2, Routing: Routing{Sigmoid: true},
		Convs: Convs{3, []int{2, 6, 10, 14, 18, 21}},
	},
	{
		Name: "glm-4.7-flash", Arch: "deepseek2", Layers: 47, Dim: 2048, Heads: 20, KVHeads: 1, HeadDim: 256, FFN: 1536,
		Vocab: 154880, Context: 202752, NormEps: 1e-5, Rope: Rope{Base: 1e6, Dim: 64},
		Experts: 64, ExpertsUsed: 4, DenseFFN: 10240, DenseLayers: 1, SharedFFN: 1536,
		Routing: Routing{Sigmoid: true, Norm: true, Scale: 1.8, Shared: 1}, Latent: Latent{Rank: 512, QRank: 768, Rope: 64, Value: 256},
	},
	{
		Name: "deepseek-v2-lite", Arch: "deepseek2", Layers: 27, Dim: 2048, Heads: 16, KVHeads: 1, HeadDim: 192, FFN: 1408,
		Vocab: 102400, Context: 163840, NormEps: 1e-6, Rope: Rope{Base: 1e4, Dim: 64, Yarn: 40, YarnContext: 4096, YarnLog: 0.0707},
		Experts: 64, ExpertsUsed: 6, DenseFFN: 10944, DenseLayers: 1, SharedFFN: 2816, Pre: "deepseek-llm",
		Routing: Routing{Scale: 1, Shared: 2}, Latent: Latent{Rank: 512, Rope: 64, Value: 128},
	},
	{
		Name: "deepseek-v3", Arch: "deepseek2", Layers: 61, Dim: 7168, Heads: 128, KVHeads: 1, HeadDim: 192, FFN: 2048,
		Vocab: 129280, Context: 163840, NormEps: 1e-6, Rope: Rope{Base: 1e4, Dim: 64, Yarn: 40, YarnContext: 4096, YarnLog: 0.1},
		Experts: 256, ExpertsUsed: 8, DenseFFN: 18432, DenseLayers: 3, SharedFFN: 2048, Pre: "deepseek-v3",
		Routing: Routing{Sigmoid: true, Norm: true, Scale: 2.5, Shared: 1, Groups: 8, Used: 4}, Latent: Latent{Rank: 512, QRank: 1536, Rope: 64, Value: 128},
	},
	{
		Name: "minicpm3-4b", Arch: "minicpm3", Layers: 62, Dim: 2560, Heads: 40, KVHeads: 40, HeadDim: 96, FFN: 6400,
		Vocab: 73448, Context: 32768, Tied: true, NormEps: 1e-5, Rope: Rope{Base: 1e4, Dim: 32, Long: 23},
		Latent: Latent{Rank: 256, QRank: 768, Rope: 32, Value: 64, Joint: true},
	},
	{
		Name: "granite-4-h-micro", Arch: "granitehybrid", Layers: 40, Dim: 2048, Heads: 32, KVHeads: 8, HeadDim: 64, FFN: 8192,
		Vocab: graniteVocab, Context: graniteContext, Tied: true, NormEps: 1e-5, Rope: Rope{Base: 1e4},
		States: States{Heads: 64, HeadDim: 64, Groups: 1, Size: 128, Taps: 4, Normed: true, Attends: []int{5, 15, 25, 35}},
	},
	{
		Name: "granite-4-h-tiny", Arch: "granitehybrid", Layers: 40, Dim: 1536, Heads: 12, KVHeads: 4, HeadDim: 128, FFN: 512,
		Vocab: graniteVocab, Context: graniteContext, Tied: true, NormEps: 1e-5, Rope: Rope{Base: 1e4},
		Experts: 64, ExpertsUsed: 6, DenseFFN: 512, SharedFFN: 1024,
		States: States{Heads: 48, HeadDim: 64, Groups: 1, Size: 128, Taps: 4, Normed: true, Attends: []int{5, 15, 25, 35}},
	},
	{
		Name: "falcon-h1-0.5b", Arch: "falcon-h1", Layers: 36, Dim: 1024, Heads: 8, KVHeads: 2, HeadDim: 64, FFN: 2048,
		Vocab: 32784, Context: 16384, NormEps: 1e-5, Rope: Rope{Base: 1e11},
		States: States{Heads: 24, HeadDim: 64, Groups: 1, Size: 128, Taps: 4, Beside: true},
	},
	{
		Name: "nemotron-nano-9b-v2", Arch: "nemotron_h", Layers: 56, Dim: 4480, Heads: 40, KVHeads: 8, HeadDim: 128, FFN: 15680,
		Vocab: 131072, Context: 131072, NormEps: 1e-5,
		States: States{
			Heads: 128, HeadDim: 80, Groups: 8, Size: 128, Taps: 4, Normed: true,
			Blocks: "M-M-M-MM-M-M-M*-M-M-M*-M-M-M-M*-M-M-M-M*-M-MM-M-M-M-M-M-",
		},
	},
	{
		Name: "nemotron-3-nano-30b-a3b", Arch: "nemotron_h_moe", Layers: 52, Dim: 2688, Heads: 32, KVHeads: 2, HeadDim: 128, FFN: 1856,
		Vocab: 131072, Context: 262144, NormEps: 1e-5,
		Experts: 128, ExpertsUsed: 6, DenseFFN: 1856, SharedFFN: 3712, Routing: Routing{Sigmoid: true, Norm: true, Scale: 2.5, Shared: 1},
		States: States{
			Heads: 64, HeadDim: 64, Groups: 8, Size: 128, Taps: 4, Normed: true,
			Blocks: "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME",
		},
	},
	{
		Name: "mamba2-1.3b", Arch: "mamba2", Layers: 48, Dim: 2048, Vocab: 50288, Context: 1 << 20, Tied: true, NormEps: 1e-5,
		States: States{Heads: 64, HeadDim: 64, Groups: 1, Size: 128, Taps: 4, Normed: true, Blocks: strings.Repeat("M", 48)},
	},
	{
		Name: "bge-small", Arch: "bert", Layers: 12, Dim: 384, Heads: 12, KVHeads: 12, HeadDim: 32, FFN: 1536,
		Vocab: 30522, Context: 512, Tied: true, NormEps: 1e-12, Encoder: Encoder{Pooling: 2, Types: 2, Positions: true},
	},
	{
		Name: "bge-m3", Arch: "bert", Layers: 24, Dim: 1024, Heads: 16, KVHeads: 16, HeadDim: 64, FFN: 4096,
		Vocab: 250002, Context: 8192, Tied: true, NormEps: 1e-5, Encoder: Encoder{Pooling: 2, Types: 1, Positions: true},
	},
	{
		Name: "nomic-embed-text", Arch: "nomic-bert", Layers: 12, Dim: 768, Heads: 12, KVHeads: 12, HeadDim: 64, FFN: 3072,
		Vocab: 30522, Context: 2048, Tied: true, NormEps: 1e-12, Rope: Rope{Base: 1000}, Encoder: Encoder{Pooling: 1, Types: 2},
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
		if t.fill != fillRopeFactors && t.fill != fillLongFactors { // tables, not weights
			n += t.elems()
		}
	}
	return n
}
