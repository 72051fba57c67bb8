package llmrun

import (
	"errors"

	"github.com/llmrun/llmrun/tiering"
)

// MemoryPlan assigns a memory budget to the parts of a model and predicts its speed.
type MemoryPlan struct {
	Model       string `json:"model"`
	WeightBytes int64  `json:"weight_bytes"` // all weights as they are in memory
	KV          string `json:"kv"`           // format of keys and values
	Threads     int    `json:"threads"`
	Plan
	// Sections are the parts of the model in the order in which a pass uses them.
	Sections []PlannedSection `json:"sections"`
	Experts  int              `json:"experts,omitempty"` // over all layers
	Measured Rates            `json:"measured"`
}

// PlannedSection is a part of a model, and how much of it stays in memory.
type PlannedSection struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	Pinned int64  `json:"pinned_bytes"`
}

// MemoryItem is an amount of memory for one purpose.
type MemoryItem struct {
	Purpose string
	Bytes   int64
}

// Plan assigns a memory budget to the parts of a model, and predicts its speed.
type Plan struct {
	Budget  int64            `json:"budget_bytes"` // 0 = unlimited
	By      map[string]int64 `json:"by_purpose"`   // maximum for each purpose
	Context int              `json:"context"`
	Chunk   int              `json:"chunk"`

	// Pinned is how many bytes of each layer stay in memory, counted from the layer's start;
	// every pass streams the rest. HeadPinned is the same for the output head.
	Pinned     []int64 `json:"pinned_bytes"`
	HeadPinned int64   `json:"head_pinned_bytes"`
	// Ring is the size of the ring buffer for streamed weights, and Piece the size of one
	// read. Ring is 0 if nothing is streamed.
	Ring  int64 `json:"ring_bytes"`
	Piece int64 `json:"piece_bytes"`
	// Lookup is the size of the buffer for embedding rows of a tied head that is not fully in
	// memory; 0 if it is.
	Lookup int64 `json:"lookup_bytes,omitempty"`
	// KVHot is the limit of keys and values in memory; older pages go to flash. KVRing is the
	// size of the buffer in which they are read back. Both are 0 if a full context fits.
	// KVCold is how many bytes of a full context are on flash; each token reads all of them.
	KVHot  int64 `json:"kv_hot_bytes,omitempty"`
	KVRing int64 `json:"kv_ring_bytes,omitempty"`
	KVCold int64 `json:"kv_cold_bytes,omitempty"`
	// ExpertSlots is the number of experts that fit in memory, over all layers.
	ExpertSlots int `json:"expert_slots,omitempty"`

	// StreamedPerToken and StreamedPerChunk are the bytes that one decoded token and one
	// prefill chunk read from flash.
	StreamedPerToken int64 `json:"streamed_per_token_bytes"`
	StreamedPerChunk int64 `json:"streamed_per_chunk_bytes"`

	Rates PlanRates `json:"rates"` // inputs of the predictions
	// The predicted speeds are in tokens per second at the start of a conversation, for a
	// prompt of several chunks and for decode. They are 0 where a rate is unknown.
	PredictedPrefill float64 `json:"predicted_prefill_tok_s"`
	PredictedDecode  float64 `json:"predicted_decode_tok_s"`
}

// PlanRates are the speeds of a machine from which a plan predicts.
type PlanRates struct {
	ReadGBs     float64 `json:"read_gbs"`     // flash, with reads of the planned size
	MemGBs      float64 `json:"mem_gbs"`      // weights in memory, during decode
	PrefillGops float64 `json:"prefill_gops"` // integer operations during prefill
}

// planOf returns the public form of a plan.
func planOf(p *tiering.Plan) Plan {
	return Plan{
		Budget: p.Budget, By: p.By.ByName(), Context: p.Context, Chunk: p.Chunk,
		Pinned: p.Pinned, HeadPinned: p.HeadPinned, Ring: p.Ring, Piece: p.Piece, Lookup: p.Lookup,
		KVHot: p.KVHot, KVRing: p.KVRing, KVCold: p.KVCold, ExpertSlots: p.ExpertSlots,
		StreamedPerToken: p.StreamedPerToken, StreamedPerChunk: p.StreamedPerChunk,
		Rates: PlanRates(p.Rates), PredictedPrefill: p.PredictedPrefill, PredictedDecode: p.PredictedDecode,
	}
}

// Memory lists the planned memory for each purpose.
func (p *Plan) Memory() []MemoryItem {
	var items []MemoryItem
	for _, purpose := range tiering.Purposes() {
		if n := p.By[purpose.String()]; n != 0 {
			items = append(items, MemoryItem{purpose.String(), n})
		}
	}
	return items
}

// Total returns the maximum of the memory for all purposes.
func (p *Plan) Total() (n int64) {
	for _, bytes := range p.By {
		n += bytes
	}
	return n
}

// Resident reports whether the engine reads nothing but embedding rows from flash.
func (p *Plan) Resident() bool { return p.Ring == 0 && p.StreamedPerToken == 0 }

// MinimumError refuses a memory budget that is smaller than the memory that the engine needs
// at all times. It lists that memory by purpose and says what would fit.
type MinimumError struct {
	Budget  int64            `json:"budget_bytes"`
	Minimum int64            `json:"minimum_bytes"`
	By      map[string]int64 `json:"by_purpose"` // the minimum for each purpose
	Context int              `json:"context"`
	// ContextFits is the longest context that fits, 0 if none does.
	ContextFits int `json:"context_fits"`
	// KVFits reports that the context fits with the smallest format of keys and values.
	KVFits bool `json:"kv_fits"`
	// ExpertsTooLarge reports that a smaller quantization of the experts would fit.
	ExpertsTooLarge bool `json:"experts_too_large"`

	message error // contains the numbers above
}

func (e *MinimumError) Error() string { return e.message.Error() }

// Unwrap makes the error match ErrBudget.
func (e *MinimumError) Unwrap() error { return e.message }

// makePlan calls tiering.MakePlan and converts its refusal to this package's type.
func makePlan(s tiering.Shape, n tiering.Need, r tiering.Rates) (*tiering.Plan, error) {
	plan, err := tiering.MakePlan(s, n, r)
	var refused *tiering.MinimumError
	if errors.As(err, &refused) {
		err = &MinimumError{
			Budget: refused.Budget, Minimum: refused.Minimum, By: refused.By.ByName(), Context: refused.Context,
			ContextFits: refused.ContextFits, KVFits: refused.KVFits, ExpertsTooLarge: refused.ExpertsTooLarge, message: err,
		}
	}
	return plan, err
}
