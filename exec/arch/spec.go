package arch

import (
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/quant"
)

// Spec describes a network completely: the forward pass needs only the Spec and the
// weights. Families differ only in the values of these fields.
type Spec struct {
	Family  string
	Dim     int // width of the residual stream
	Heads   int // query heads of an attention layer
	HeadDim int // of keys and queries, the most of any layer
	Inner   int // width of a dense MLP, the widest if layers differ; 0 = omitted by the file
	Vocab   int
	Context int // longest sequence
	// ContextFrom is what of the file states it, for errors.
	ContextFrom string

	Norm           NormSpec
	Act            Activation
	Gated          bool // MLP is down(act(gate)·up), else down(act(up))
	QKNorm         QKNorm
	AttnOutScale   float32 // of attention's result
	GateScale      float32 // of an MLP's gate, before the activation
	MLPScale       float32 // of an MLP's result
	GatedAttention bool    // queries come with gates of attention's output
	VNorm          bool    // each value head is normalized, without a gain
	PreNorm        bool    // norm before attention and before the MLP
	PostNorm       bool    // norm after attention and after the MLP, before the residual add
	SumNorm        bool    // norm after attention and after the MLP, behind the residual add
	Parallel       Parallel

	AttnScale     float32
	AttnSoftcap   float32 // 0 = none
	FinalSoftcap  float32 // 0 = none
	EmbedScale    float32
	ResidualScale float32
	LogitScale    float32
	ClipQKV       float32 // 0 = none
	QueryGrowth   QueryGrowth
	Sinks         bool // each head has a score that takes part in the softmax without a value
	ConvTaps      int  // of short convolutions
	Recurrence    Recurrence

	Experts       int
	ExpertsUsed   int
	Groups        ExpertGroups
	RouterSigmoid bool    // an expert's score is a sigmoid, else the softmax over all
	RoutedScale   float32 // of the sum of the chosen experts
	NormTopK      bool    // the used experts' weights are normalized to sum 1
	ExpertBias    bool    // experts have biases
	GateLimit     float32 // of ClampedSiLU
	DenseBeside   bool    // layers with experts have a dense MLP beside them, and norms for each of both

	Layers []LayerSpec
	Ropes  []RopeTable // LayerSpec.Rope indexes it

	PerLayer   int // width of the embedding that each layer has of its own; 0 = none
	AltUp      AltUp
	LaurelRank int // of a second residual path beside attention; 0 = none
	Latent     Latent
	LayerScale bool // layers may scale the residual stream behind them
	Encoder    Encoder
	Tied       bool // the output head is the embedding
	Headless   bool // the network ends with the final norm: callers receive hidden states instead of logits
	Interleave bool // rotary pairs are adjacent, not half a head apart
}

// LayerSpec describes one layer.
type LayerSpec struct {
	Mixer   Mixer
	KVHeads int
	HeadDim int // of keys and queries; 0 in a layer without attention
	// ValueDim is the elements of a stored value: HeadDim, unless the model has latent attention.
	ValueDim int
	// KVBack is how many layers before this one the layer is whose keys and values it attends to;
	// 0: it has its own.
	KVBack     int
	KeyIsValue bool // values are the keys before their norm and rotation
	// Window is how many tokens a query attends to, itself and those before it; 0 = all. In a bidirectional model it
	// attends to as many behind it.
	Window     int
	Rope       int // index into Spec.Ropes, -1 = no rotation
	Experts    bool
	NoMLP      bool // the layer is a mixer alone
	NoAttnNorm bool // with PreNorm: attention reads the residual stream itself
	// Sparse MLPs keep what a gate has above its mean plus Deviations of its standard deviations.
	Sparse     bool
	Deviations float32
}

// Encoder is what networks have that read a text to describe it. The zero value is that of networks that go on with a text.
type Encoder struct {
	// Bidirectional: tokens attend to later ones too. A pass takes a whole sequence, and each layer replaces the keys and
	// values of the layer before.
	Bidirectional bool
	Positions     int // rows of the learned positions; 0 = none
	PositionFrom  int // row of the first token
	TokenTypes    int // rows of the table of token types; 0 = none
	EmbedNorm     bool
	NoFinalNorm   bool // the last layer has normalized the residual stream
}

// AltUp is alternating updates: a token has several residual streams, of which a layer computes one. A
// layer predicts all of them, and corrects them by what it computed.
type AltUp struct {
	Streams  int // 0 = one residual stream
	Active   int // the computed one
	Unscaled bool
}

// Mixer is the part of a layer that combines tokens.
type Mixer uint8

// The mixers.
const (
	Attention             Mixer = iota
	ShortConv                   // gated causal convolution over the last few tokens
	Recurrent                   // matrices that every token changes, see Recurrence
	AttentionAndRecurrent       // the sum of both, which read the same input
	NoMixer                     // the layer is an MLP alone
)

// NormSpec is the normalization of the whole model.
type NormSpec struct {
	Layer  bool    // LayerNorm with bias, else RMSNorm
	Eps    float32 // added to the mean square
	Offset float32 // added to RMSNorm's gain; gemma stores gain-1
}

// Activation is the MLP's nonlinearity.
type Activation uint8

// The activations.
const (
	SiLU Activation = iota
	GELUTanh
	GELUErf
	ReLU2       // not gated: the square of what is positive
	ClampedSiLU // gated only: clamp(up)+1 times a steeper SiLU of min(gate, GateLimit)
)

// QKNorm selects the normalization of queries and keys, usually before the rotation.
type QKNorm uint8

// The kinds of query/key normalization.
const (
	NoQKNorm       QKNorm = iota
	QKNormHead            // each head separately
	QKNormAllHeads        // all heads of a token together
	QKNormRotated         // each head separately, after the rotation
)

// QueryGrowth scales the queries of late tokens: the token at position p by
// 1 + Beta·ln(1 + ⌊p/Every⌋). The zero value scales none.
type QueryGrowth struct {
	Beta  float64
	Every int
}

// At returns the factor of a position.
func (g QueryGrowth) At(pos int) float32 {
	if g.Every == 0 || pos < g.Every {
		return 1
	}
	return float32(1 + float64(g.Beta*quant.Log1p(float64(pos/g.Every))))
}

// Parallel selects whether attention and MLP read the same input.
type Parallel uint8

// The arrangements of attention and MLP.
const (
	Serial             Parallel = iota
	ParallelSharedNorm          // both read the same normalized input
	ParallelTwoNorms            // each normalizes the same input with its own norm
)

// newSpec sets the values that most families share. A family's describe function changes
// the rest.
func newSpec(h *Hyper) *Spec {
	s := &Spec{
		Family: h.Family, Dim: h.Dim, Heads: h.Heads, HeadDim: h.HeadDim, Inner: h.FFN, Vocab: h.Vocab, Context: h.Context,
		Norm: NormSpec{Eps: h.NormEps}, Gated: true, PreNorm: true,
		AttnSoftcap: h.AttnSoftcap, FinalSoftcap: h.FinalSoftcap, ClipQKV: h.ClipQKV, ConvTaps: h.ConvTaps,
		EmbedScale:    orOne(h.EmbedScale),
		ResidualScale: orOne(h.ResidualScale),
		LogitScale:    orOne(h.LogitScale),
		Experts:       h.Experts, ExpertsUsed: h.ExpertsUsed, Groups: h.Groups, RouterSigmoid: h.RouterSigmoid, RoutedScale: orOne(h.RoutedScale),
		Recurrence: h.Recurrence, AttnOutScale: 1, GateScale: 1, MLPScale: 1,
		Tied: h.Headless || h.Tied != nil && *h.Tied, Headless: h.Headless,
	}
	if h.QueryGrowth != 0 {
		s.QueryGrowth = QueryGrowth{h.QueryGrowth, h.Rope.OriginalContext}
	}
	s.AttnScale = float32(h.AttnScale)
	if h.AttnScale == 0 {
		s.AttnScale = invSqrt(h.HeadDim)
	}
	s.Layers = make([]LayerSpec, h.Layers)
	for l := range s.Layers {
		s.Layers[l] = LayerSpec{KVHeads: h.KVHeads[l], Window: h.layerWindow(l), Experts: h.hasExperts(l)}
		if l < len(h.NoRope) && h.NoRope[l] {
			s.Layers[l].Rope = -1
		}
	}
	if h.NormTopK != nil {
		s.NormTopK = *h.NormTopK
	}
	return s
}

// layerWindow returns the sliding window of layer l if the file lists layer types. Families
// with a fixed pattern set it afterwards.
func (h *Hyper) layerWindow(l int) int {
	if h.LayerTypes != nil && h.LayerTypes[l] == SlidingAttention {
		return h.Window
	}
	return 0
}

// hasExperts reports whether layer l has routed experts.
func (h *Hyper) hasExperts(l int) bool {
	if h.Experts == 0 {
		return false
	}
	for _, d := range h.DenseLayers {
		if d == l {
			return false
		}
	}
	return h.ExpertInterval <= 1 || (l+1)%h.ExpertInterval == 0
}

// setWindows sets the model's window in the layers for which sliding returns true, unless the
// file lists layer types.
func (s *Spec) setWindows(h *Hyper, sliding func(layer int) bool) {
	if h.LayerTypes != nil {
		return
	}
	for l := range s.Layers {
		if sliding(l) {
			s.Layers[l].Window = h.Window
		}
	}
}

// setWindowPattern gives all layers but every n-th a window. The file may override n.
func (s *Spec) setWindowPattern(h *Hyper, n int) {
	if h.WindowPattern > 0 {
		n = h.WindowPattern
	}
	s.setWindows(h, func(l int) bool { return (l+1)%n != 0 })
}

// rotateWindows leaves the rotation to layers with a window.
func (s *Spec) rotateWindows() {
	for l := range s.Layers {
		if s.Layers[l].Window == 0 {
			s.Layers[l].Rope = -1
		}
	}
}

// useLocalRope makes layers with a window use the second rotary table.
func (s *Spec) useLocalRope() {
	for l := range s.Layers {
		if s.Layers[l].Window > 0 {
			s.Layers[l].Rope = 1
		}
	}
}

func orOne(v float64) float32 {
	if v == 0 {
		return 1
	}
	return float32(v)
}

// setHeads completes the head sizes: layers have that of the model unless the family sets another.
func (s *Spec) setHeads() {
	most := 0
	for l := range s.Layers {
		layer := &s.Layers[l]
		if layer.HeadDim == 0 && layer.Mixer.Attends() {
			layer.HeadDim = s.HeadDim
		}
		layer.ValueDim = layer.HeadDim
		if s.Latent.Rank > 0 && layer.HeadDim > 0 {
			layer.KVHeads, layer.HeadDim, layer.ValueDim = 1, s.Latent.Rank+s.Latent.Rope, s.Latent.Rank
		}
		most = max(most, layer.HeadDim, s.Latent.Nope+s.Latent.Rope, s.Latent.Value)
	}
	s.HeadDim = max(most, 1)
}

// Stored returns the layer whose memory has the keys and values that a layer attends to.
func (s *Spec) Stored(layer int) int {
	if s.Encoder.Bidirectional {
		return 0
	}
	return layer - s.Layers[layer].KVBack
}

// StoresKV reports whether a layer has memory of its own for keys and values.
func (s *Spec) StoresKV(layer int) bool {
	return s.Layers[layer].KVHeads > 0 && s.Stored(layer) == layer
}

// KVTokenBytes returns the bytes of a token's keys and values in all layers.
func (s *Spec) KVTokenBytes(format kv.Format) (n int64) {
	for l := range s.Layers {
		if layer := &s.Layers[l]; s.StoresKV(l) {
			n += int64(layer.KVHeads * kv.Shape{HeadDim: layer.HeadDim, Format: format, Latent: s.Latent.Rank}.HeadBytes(l))
		}
	}
	return n / kv.BlockTokens
}

// KVShape returns the shape of the model's KV in a format.
func (s *Spec) KVShape(format kv.Format) kv.Shape {
	shape := kv.Shape{HeadDims: make([]int, len(s.Layers)), KVHeads: make([]int, len(s.Layers)), Format: format, Latent: s.Latent.Rank}
	for l := range s.Layers {
		shape.HeadDims[l] = s.Layers[l].HeadDim
		if s.StoresKV(l) {
			shape.KVHeads[l] = s.Layers[l].KVHeads
		}
	}
	return shape
}
