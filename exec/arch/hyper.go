package arch

// Hyper is what a model file says about its network, in one form for
// config.json and GGUF metadata. Zero means that the file does not say; the
// family decides what that stands for.
type Hyper struct {
	Family  string // registry name, such as "qwen2"
	GGUF    bool   // names, norm offsets and row order follow the GGUF converters
	Layers  int
	Dim     int // width of the residual stream
	Heads   int
	KVHeads []int // per layer; 0 where the layer has no attention
	HeadDim int
	FFN     int // inner width of a dense MLP
	Vocab   int
	Context int // longest sequence the model was made for

	NormEps    float32
	Activation string // name as in config.json, "" = the family's own
	Tied       *bool  // output head shares the embedding; nil = not said

	RopeDim       int // rotated elements of a head; 0 = all
	RopeFraction  float64
	Rope          RopeHyper
	RopeLocal     *RopeHyper // sliding-window layers, where they differ
	NoRope        []bool     // per layer: true = no rotation
	Window        int        // sliding window in tokens
	WindowPattern int        // every n-th layer attends fully
	LayerTypes    []string   // one of the kinds below for each layer; nil = not said
	UseWindow     *bool
	WindowFrom    int // first layer with a window (qwen2's max_window_layers)

	AttnScale      float64 // multiplier of q·k; 0 = 1/sqrt(HeadDim)
	AttnSoftcap    float32
	FinalSoftcap   float32
	EmbedScale     float64
	ResidualScale  float64
	LogitScale     float64 // logits are multiplied by it; 0 = 1
	ClipQKV        float32
	QKNorm         bool
	ParallelBlock  *bool
	Experts        int
	ExpertsUsed    int
	ExpertFFN      int
	SharedFFN      int
	NormTopK       *bool
	DenseLayers    []int // layers without experts in an expert model
	ExpertInterval int   // every n-th layer has experts
	ConvTaps       int   // taps of a short convolution

	IntPacking *IntPacking // how weights were rounded and packed; nil = they were not

	Path string // of the file these came from, for messages
	arch string // prefix of GGUF keys, for messages
}

// usesWindow reports whether a file of a family that has windows only when
// asked to switches them on.
func (h *Hyper) usesWindow() bool { return h.UseWindow != nil && *h.UseWindow }

// RopeHyper describes a rotary table before it is computed.
type RopeHyper struct {
	Kind            string // "", "default", "linear", "dynamic", "llama3", "yarn", "longrope"
	Base            float64
	Factor          float64
	OriginalContext int
	LowFreqFactor   float64
	HighFreqFactor  float64
	BetaFast        float64
	BetaSlow        float64
	AttnFactor      float64 // 0 = by the kind's formula
	MScale          float64
	MScaleAllDim    float64
	NoTruncate      bool // yarn: correction range is not rounded to whole dimensions
	Short, Long     []float64
	Divisors        []float64 // GGUF's rope_freqs: each frequency is divided by its entry
}

// The kinds of layers that config.json lists.
const (
	FullAttention    = "full_attention"
	SlidingAttention = "sliding_attention"
	convolution      = "conv"
)
