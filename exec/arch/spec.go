package arch

import "github.com/llmrun/llmrun/kv"

// Spec describes a network completely: the forward pass needs only the Spec and the
// weights. Families differ only in the values of these fields.
type Spec struct {
	Family  string
	Dim     int // width of the residual stream
	Heads   int // query heads of an attention layer
	HeadDim int
	Inner   int // width of a dense MLP, the widest if layers differ; 0 = omitted by the file
	Vocab   int
	Context int // longest sequence

	Norm     NormSpec
	Act      Activation
	Gated    bool // MLP is down(act(gate)·up), else down(act(up))
	QKNorm   QKNorm
	PreNorm  bool // norm before attention and before the MLP
	PostNorm bool // norm after attention and after the MLP, before the residual add
	Parallel Parallel

	AttnScale     float32
	AttnSoftcap   float32 // 0 = none
	FinalSoftcap  float32 // 0 = none
	EmbedScale    float32
	ResidualScale float32
	LogitScale    float32
	ClipQKV       float32 // 0 = none
	ConvTaps      int

	Experts     int
	ExpertsUsed int
	NormTopK    bool // the used experts' weights are normalized to sum 1

	Layers []LayerSpec
	Ropes  []RopeTable // LayerSpec.Rope indexes it

	Tied       bool // the output head is the embedding
	Interleave bool // rotary pairs are adjacent, not half a head apart
}

// LayerSpec describes one layer.
type LayerSpec struct {
	Mixer   Mixer
	KVHeads int
	Window  int // tokens that a query attends to, itself included; 0 = all
	Rope    int // index into Spec.Ropes, -1 = no rotation
	Experts bool
}

// Mixer is the part of a layer that combines tokens.
type Mixer uint8

// The mixers.
const (
	Attention Mixer = iota
	ShortConv       // gated causal convolution over the last few tokens
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
)

// QKNorm selects the normalization of queries and keys before the rotation.
type QKNorm uint8

// The kinds of query/key normalization.
const (
	NoQKNorm       QKNorm = iota
	QKNormHead            // each head separately
	QKNormAllHeads        // all heads of a token together
)

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
		Experts:       h.Experts, ExpertsUsed: h.ExpertsUsed,
		Tied: h.Tied != nil && *h.Tied,
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

// KVShape returns the shape of the model's KV in a format.
func (s *Spec) KVShape(format kv.Format) kv.Shape {
	shape := kv.Shape{HeadDim: s.HeadDim, KVHeads: make([]int, len(s.Layers)), Format: format}
	for l := range s.Layers {
		shape.KVHeads[l] = s.Layers[l].KVHeads
	}
	return shape
}
