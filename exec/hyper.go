package exec

import (
	"fmt"
	"math"
)

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
	LayerTypes    []string   // "full_attention", "sliding_attention", "conv"; nil = not said
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

	path string // of the file these came from, for messages
}

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

// Sanity caps: no model in use comes near them, and every product of two of
// them fits an int64.
const (
	maxLayers  = 4096
	maxDim     = 1 << 20
	maxHeads   = 1 << 14
	maxVocab   = 1 << 24
	maxExperts = 4096
	maxContext = 1 << 28
)

// fieldError reports a value of a model's description that cannot be.
func (h *Hyper) fieldError(field, format string, args ...any) error {
	return fmt.Errorf("%w: %s: %s: %s", ErrModel, h.path, field, fmt.Sprintf(format, args...))
}

// validate checks what every family relies on, so that later code can divide
// and allocate without looking again.
func (h *Hyper) validate() error {
	for _, c := range []struct {
		field    string
		v        int
		min, max int
	}{
		{"number of layers", h.Layers, 1, maxLayers},
		{"hidden size", h.Dim, 1, maxDim},
		{"attention heads", h.Heads, 1, maxHeads},
		{"head size", h.HeadDim, 1, maxDim},
		{"feed-forward size", h.FFN, 0, maxDim},
		{"vocabulary size", h.Vocab, 1, maxVocab},
		{"context length", h.Context, 1, maxContext},
		{"expert count", h.Experts, 0, maxExperts},
		{"experts used", h.ExpertsUsed, 0, maxExperts},
		{"expert feed-forward size", h.ExpertFFN, 0, maxDim},
		{"sliding window", h.Window, 0, math.MaxInt32},
		{"rotary dimensions", h.RopeDim, 0, maxDim},
		{"convolution taps", h.ConvTaps, 0, 64},
	} {
		if c.v < c.min || c.v > c.max {
			return h.fieldError(c.field, "%d is outside %d…%d", c.v, c.min, c.max)
		}
	}
	if err := h.validateHeads(); err != nil {
		return err
	}
	if h.ExpertsUsed > h.Experts {
		return h.fieldError("experts used", "%d of only %d experts", h.ExpertsUsed, h.Experts)
	}
	if h.RopeDim > h.HeadDim || h.RopeDim%2 != 0 {
		return h.fieldError("rotary dimensions", "%d must be even and at most the head size %d", h.RopeDim, h.HeadDim)
	}
	if eps := float64(h.NormEps); !(eps >= 0 && eps < 1) {
		return h.fieldError("norm epsilon", "%v is not between 0 and 1", h.NormEps)
	}
	if err := h.validateRope("rope", &h.Rope); err != nil {
		return err
	}
	if h.RopeLocal != nil {
		return h.validateRope("local rope", h.RopeLocal)
	}
	return nil
}

func (h *Hyper) validateHeads() error {
	if len(h.KVHeads) != h.Layers {
		return h.fieldError("key/value heads", "%d entries for %d layers", len(h.KVHeads), h.Layers)
	}
	if h.LayerTypes != nil && len(h.LayerTypes) != h.Layers {
		return h.fieldError("layer types", "%d entries for %d layers", len(h.LayerTypes), h.Layers)
	}
	for l, kv := range h.KVHeads {
		if kv < 0 || kv > h.Heads || (kv > 0 && h.Heads%kv != 0) {
			return h.fieldError("key/value heads", "%d in layer %d do not divide %d heads", kv, l, h.Heads)
		}
	}
	return nil
}

func (h *Hyper) validateRope(field string, r *RopeHyper) error {
	if !(r.Base > 0) || math.IsInf(r.Base, 0) {
		return h.fieldError(field+" base", "%v is not a positive number", r.Base)
	}
	for name, v := range map[string]float64{
		"factor": r.Factor, "low_freq_factor": r.LowFreqFactor, "high_freq_factor": r.HighFreqFactor,
		"beta_fast": r.BetaFast, "beta_slow": r.BetaSlow, "attention factor": r.AttnFactor,
	} {
		if !(v >= 0) || math.IsInf(v, 0) {
			return h.fieldError(field+" "+name, "%v is not a finite number of at least 0", v)
		}
	}
	for _, list := range [][]float64{r.Short, r.Long, r.Divisors} {
		for i, v := range list {
			if !(v > 0) || math.IsInf(v, 0) {
				return h.fieldError(field+" factors", "entry %d is %v", i, v)
			}
		}
	}
	return nil
}
