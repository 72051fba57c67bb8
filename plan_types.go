package llmrun

import (
	"errors"

	"github.com/llmrun/llmrun/tiering"
)

// MemoryPlan says where the bytes of a model are while it runs, and how fast that is.
type MemoryPlan struct {
	Model       string `json:"model"`
	WeightBytes int64  `json:"weight_bytes"` // in memory, if all were there
	KV          string `json:"kv"`           // precision of keys and values
	Threads     int    `json:"threads"`
	Plan
	// Sections are the parts of the model in the order in which a pass uses them.
	Sections []PlannedSection `json:"sections"`
	Experts  int              `json:"experts,omitempty"` // of all layers
	Measured Rates            `json:"measured"`
}

// PlannedSection is a part of a model, some of which stays in memory.
type PlannedSection struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	Pinned int64  `json:"pinned_bytes"`
}

// MemoryItem is an amount of memory and what it is for.
type MemoryItem struct {
	Purpose string
	Bytes   int64
}

// Plan says what of a model stays in memory, what is read from flash while it is used, and how
// fast that is.
type Plan struct {
	Budget  int64            `json:"budget_bytes"` // 0 = unlimited
	By      map[string]int64 `json:"by_purpose"`   // the most that is held for each purpose
	Context int              `json:"context"`
	Chunk   int              `json:"chunk"`

	// Pinned is how many bytes of each layer stay in memory, from its start; the rest is
	// streamed in every pass. HeadPinned is the same of the output head.
	Pinned     []int64 `json:"pinned_bytes"`
	HeadPinned int64   `json:"head_pinned_bytes"`
	// Ring is the memory that streamed bytes pass through, in reads of Piece bytes; 0 if
	// nothing is streamed.
	Ring  int64 `json:"ring_bytes"`
	Piece int64 `json:"piece_bytes"`
	// Lookup is the memory in which embedding rows of a tied head are read; 0 if all of it
	// stays.
	Lookup int64 `json:"lookup_bytes,omitempty"`
	// KVHot is the memory for keys and values above which older ones go to flash, and KVRing
	// that in which they pass on their way back; both are 0 where those of the whole context
	// fit. KVCold is how many bytes of a full context are on flash, which each token reads.
	KVHot  int64 `json:"kv_hot_bytes,omitempty"`
	KVRing int64 `json:"kv_ring_bytes,omitempty"`
	KVCold int64 `json:"kv_cold_bytes,omitempty"`
	// ExpertSlots is how many experts, of all layers together, memory holds.
	ExpertSlots int `json:"expert_slots,omitempty"`

	// StreamedPerToken is what is read from flash for each token that is decoded,
	// StreamedPerChunk for each chunk of a prompt.
	StreamedPerToken int64 `json:"streamed_per_token_bytes"`
	StreamedPerChunk int64 `json:"streamed_per_chunk_bytes"`

	Rates PlanRates `json:"rates"` // that the predictions start from
	// Predicted tokens a second, of a prompt of some chunks and while decoding, both at the
	// start of a conversation; 0 where a rate is unknown.
	PredictedPrefill float64 `json:"predicted_prefill_tok_s"`
	PredictedDecode  float64 `json:"predicted_decode_tok_s"`
}

// PlanRates are the speeds of a machine that a plan's predictions start from.
type PlanRates struct {
	ReadGBs     float64 `json:"read_gbs"`     // flash, with the planned reads
	MemGBs      float64 `json:"mem_gbs"`      // weights in memory, while decoding
	PrefillGops float64 `json:"prefill_gops"` // integer operations during prefill
}

// planOf returns a plan in the library's own terms.
func planOf(p *tiering.Plan) Plan {
	return Plan{
		Budget: p.Budget, By: p.By.ByName(), Context: p.Context, Chunk: p.Chunk,
		Pinned: p.Pinned, HeadPinned: p.HeadPinned, Ring: p.Ring, Piece: p.Piece, Lookup: p.Lookup,
		KVHot: p.KVHot, KVRing: p.KVRing, KVCold: p.KVCold, ExpertSlots: p.ExpertSlots,
		StreamedPerToken: p.StreamedPerToken, StreamedPerChunk: p.StreamedPerChunk,
		Rates: PlanRates(p.Rates), PredictedPrefill: p.PredictedPrefill, PredictedDecode: p.PredictedDecode,
	}
}

// Memory lists how much memory the plan gives to each purpose.
func (p *Plan) Memory() []MemoryItem {
	var items []MemoryItem
	for _, purpose := range tiering.Purposes() {
		if n := p.By[purpose.String()]; n != 0 {
			items = append(items, MemoryItem{purpose.String(), n})
		}
	}
	return items
}

// Total returns the most that is held.
func (p *Plan) Total() (n int64) {
	for _, bytes := range p.By {
		n += bytes
	}
	return n
}

// Resident reports whether nothing but embedding rows is read from flash while the model runs.
func (p *Plan) Resident() bool { return p.Ring == 0 && p.StreamedPerToken == 0 }

// MinimumError refuses a memory budget that cannot hold what has to be in memory at any time. It
// says item by item what that is, and what would fit.
type MinimumError struct {
	Budget  int64            `json:"budget_bytes"`
	Minimum int64            `json:"minimum_bytes"`
	By      map[string]int64 `json:"by_purpose"` // the minimum, item by item
	Context int              `json:"context"`
	// ContextFits is the longest context that would fit, 0 if none does.
	ContextFits int `json:"context_fits"`
	// KVFits says that the context fits in the most compact format of keys and values.
	KVFits bool `json:"kv_fits"`
	// ExpertsTooLarge says that experts of a smaller quantization would help.
	ExpertsTooLarge bool `json:"experts_too_large"`

	message error // with the numbers above
}

func (e *MinimumError) Error() string { return e.message.Error() }

// Unwrap makes the error match ErrBudget.
func (e *MinimumError) Unwrap() error { return e.message }

// makePlan is tiering.MakePlan with its refusal in the library's own terms.
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
