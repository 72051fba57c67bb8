package arch

// Hyper contains the hyper-parameters in a model file, in one form for config.json and GGUF
// metadata. Zero means that the file omits a value; the family then sets the default.
type Hyper struct {
	Family string // registry name, such as "qwen2"
	GGUF   bool   // names, norm offsets and row order follow the GGUF converters
	Layers int
	// NextLayers is how many layers behind them predict further tokens; the network does not use them.
	NextLayers int
	Dim        int // width of the residual stream
	Heads      int
	KVHeads    []int // per layer; 0 where the layer has no attention
	HeadDim    int
	FFN        int // inner width of a dense MLP
	Vocab      int
	Context    int // longest sequence the model was trained for

	NormEps    float32
	Activation string // name as in config.json; "" = the family's default
	Headless   bool   // the output head, if there is one, is not used
	Tied       *bool  // output head shares the embedding; nil = omitted

	RopeDim       int // rotated elements of a head; 0 = all
	RopeFraction  float64
	Rope          RopeHyper
	RopeLocal     *RopeHyper // of sliding-window layers, if it differs
	NoRope        []bool     // per layer: true = no rotation
	Window        int        // sliding window in tokens
	WindowPattern int        // every n-th layer has no window
	LayerTypes    []string   // type of each layer, see below; nil = omitted
	UseWindow     *bool
	WindowFrom    int // first layer with a window (qwen2's max_window_layers)

	AttnScale      float64 // multiplier of q·k; 0 = 1/sqrt(HeadDim)
	QueryGrowth    float64 // Beta of QueryGrowth; its steps are Rope.OriginalContext
	AttnSoftcap    float32
	FinalSoftcap   float32
	EmbedScale     float64
	ResidualScale  float64
	LogitScale     float64 // logits are multiplied by it; 0 = 1
	ClipQKV        float32
	QKNorm         bool
	ParallelBlock  *bool
	RotatesHalves  bool // rotary pairs are not adjacent, in a family where they usually are
	Experts        int
	ExpertsUsed    int
	ExpertFFN      int
	SharedFFN      int
	NormTopK       *bool
	GateLimit      float64 // of ClampedSiLU
	DenseLayers    []int   // layers without experts in an expert model
	ExpertInterval int     // every n-th layer has experts
	ConvTaps       int     // taps of a short convolution
	Gemma          gemmaHyper
	Bidirectional  bool // tokens attend to later ones too
	Positions      int  // rows of the learned positions
	PadToken       int
	Unrotated      bool // positions are learned, in a family where they are rotary
	TokenTypes     int  // rows of the table of token types
	Latent         Latent
	MiniCPM        multipliersMiniCPM
	Multipliers    Multipliers // of falcon_h1
	Recurrence     Recurrence
	RouterSigmoid  bool
	Groups         ExpertGroups
	RoutedScale    float64

	IntPacking *IntPacking // quantization of packed integers; nil = none
	MXFP4      bool        // the experts of a safetensors file are stored in MXFP4

	Path string // the source file, for errors
	arch string // prefix of GGUF keys, for errors
	// completed: the family has set what its files omit, or changed their units.
	completed bool
}

// usesWindow reports whether the file enables an optional sliding window.
func (h *Hyper) usesWindow() bool { return h.UseWindow != nil && *h.UseWindow }

// RopeHyper contains the hyper-parameters of a rotary table.
type RopeHyper struct {
	Kind            string // "", "default", "linear", "dynamic", "llama3", "yarn", "longrope"
	Base            float64
	Factor          float64
	Alpha           float64 // "dynamic": growth of the base, 0 = none
	OriginalContext int
	LowFreqFactor   float64
	HighFreqFactor  float64
	BetaFast        float64
	BetaSlow        float64
	AttnFactor      float64 // 0 = the formula of Kind
	MScale          float64
	MScaleAllDim    float64
	Rotated         int  // "proportional": elements that turn, of those in the table; 0 = all
	Dim             int  // rotated elements; 0 = Hyper.RopeDim
	NoTruncate      bool // yarn: the correction range is not rounded to whole dimensions
	Short, Long     []float64
	Divisors        []float64 // GGUF's rope_freqs: divisors of the frequencies
}

// The layer types in config.json.
const (
	FullAttention    = "full_attention"
	SlidingAttention = "sliding_attention"
	convolution      = "conv"
	linearAttention  = "linear_attention"
	mamba            = "mamba"
	hybrid           = "hybrid" // attention and mamba
	noMixer          = "mlp"
)
