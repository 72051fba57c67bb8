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
	// Runs reports whether Open accepts the model with these options; Refused is the error of
	// Open if it does not. Minimum is the smallest budget with which the model runs with this
	// context.
	Runs    bool   `json:"runs"`
	Refused string `json:"refused,omitempty"`
	Minimum int64  `json:"minimum_bytes"`
	Plan
	// Decode predicts the speed of an answer, and FirstToken and TotalTime the seconds of a
	// prompt of Prompt tokens and an answer of Answer tokens.
	Decode     PlannedSpeed `json:"decode_tok_per_s"`
	Prompt     int          `json:"prompt_tokens"`
	Answer     int          `json:"answer_tokens"`
	Forgotten  int          `json:"forgotten_tokens,omitempty"` // of a longer prompt that slides
	FirstToken float64      `json:"first_token_seconds"`
	TotalTime  float64      `json:"total_seconds"`
	// PromptPasses is the number of passes that the prompt takes, and PromptStreamed the bytes of weights that they read
	// from flash. Both are 0 where a rate is unknown.
	PromptPasses   int   `json:"prompt_passes"`
	PromptStreamed int64 `json:"prompt_streamed_bytes"`
	// Guesses predicts the speed with each drafter of the options; the other predictions are without guesses.
	Guesses []PlannedGuesses `json:"guesses"`
	// Together predicts the speed of several answers at the same time; see [Session.Candidates].
	Together []PlannedTogether `json:"together"`
	// GuessesNotPredicted says why the speed with the named drafter is not predicted; "" if it is, or none is named.
	GuessesNotPredicted string `json:"guesses_not_predicted,omitempty"`
	// GPU is which layers a GPU computes, whose memory is not part of the plan unless it is the
	// machine's; nil without a GPU. The plan's sections are the other layers.
	GPU *Placement `json:"-"`
	// Advice lists changes that make decode faster, or with which the model runs at all.
	Advice []PlanAdvice `json:"advice"`
	// Sections are the parts of the model in the order in which a pass uses them.
	Sections []PlannedSection `json:"sections"`
	Experts  int              `json:"experts,omitempty"` // over all layers
	Measured Rates            `json:"measured"`

	fits int // longest context that runs, if this one does not; 0 = none
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
	// size of the buffer in which they are read back, 0 if the stream of weights reads them. Both
	// are 0 if a full context fits.
	// KVCold is how many bytes of a full context are on flash; each token reads all of them.
	KVHot  int64 `json:"kv_hot_bytes,omitempty"`
	KVRing int64 `json:"kv_ring_bytes,omitempty"`
	KVCold int64 `json:"kv_cold_bytes,omitempty"`
	// KVDepth is the number of tokens beyond which a conversation exceeds what may be written to
	// flash today, or fits on its disk; 0 if a full context does not.
	KVDepth int `json:"kv_depth_tokens,omitempty"`
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
	ReadGBs float64 `json:"read_gbs"` // flash, with reads of the planned size
	// ReadWorkGBs is how much all threads could read if they did nothing else, and ReadCoreGBs how much one could: copies,
	// system calls and checksums of reads take processor time from computing. 0 where the system does not tell.
	ReadWorkGBs float64 `json:"read_work_gbs,omitempty"`
	ReadCoreGBs float64 `json:"read_core_gbs,omitempty"`
	MemGBs      float64 `json:"mem_gbs"`      // weights in memory, during decode
	PrefillGops float64 `json:"prefill_gops"` // integer operations during prefill
	// AttendGBs is the speed at which a decoded token attends to keys and values in memory, and
	// AttendChunkGBs that of each token of a prefill chunk.
	AttendGBs      float64 `json:"attend_gbs,omitempty"`
	AttendChunkGBs float64 `json:"attend_chunk_gbs,omitempty"`
	// ConvertGBs is the speed at which all threads convert streamed weights; 0 if they need no
	// conversion.
	ConvertGBs float64 `json:"convert_gbs,omitempty"`
	// RoundSeconds is what a round of scattered reads takes besides their transfer; only with a page
	// selection.
	RoundSeconds float64 `json:"round_seconds,omitempty"`
	// ExpertReuse tells how often a router chooses experts that are in memory: if a fraction f of
	// the experts is not there, a token misses (e^(f*c)-1)/(e^c-1) of those that it uses, where c is ExpertReuse-1. PromptReuse
	// tells in the same way how many experts the tokens of a prefill chunk share. Both are what earlier runs of the model saw;
	// 0 if there were none: then the plan takes the router for one that chooses evenly, as 1 is.
	ExpertReuse float64 `json:"expert_reuse,omitempty"`
	PromptReuse float64 `json:"prompt_reuse,omitempty"`
}

// PlannedSpeed is the predicted speed of decode in tokens per second: with an empty context,
// with half of it, and with all of it.
type PlannedSpeed struct {
	Start float64 `json:"0"`
	Half  float64 `json:"half"`
	Full  float64 `json:"full"`
}

// forecast records the prediction of a plan.
func (p *MemoryPlan) forecast(f *tiering.Forecast) {
	if f == nil {
		return
	}
	p.Decode = PlannedSpeed{f.DecodeStart, f.DecodeHalf, f.DecodeFull}
	p.Prompt, p.Answer = f.Talk.Prompt, f.Talk.Answer
	p.FirstToken, p.TotalTime = f.FirstToken, f.Total
	p.PromptPasses, p.PromptStreamed = f.PromptPasses, f.PromptRead
}

// planOf returns the public form of a plan.
func planOf(p *tiering.Plan) Plan {
	kvRing := p.KVRing
	if p.KVInStream {
		kvRing = 0
	}
	return Plan{
		Budget: p.Budget, By: p.By.ByName(), Context: p.Context, Chunk: p.Chunk,
		Pinned: p.Pinned, HeadPinned: p.HeadPinned, Ring: p.Ring, Piece: p.Piece, Lookup: p.Lookup,
		KVHot: p.KVHot, KVRing: kvRing, KVCold: p.KVCold, KVDepth: p.KVDepth, ExpertSlots: p.ExpertSlots,
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
	// PromptTooLong reports that a shorter prompt would fit.
	PromptTooLong bool `json:"prompt_too_long"`

	kvWrites int64 // see tiering.MinimumError
	message  error // contains the numbers above
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
			ContextFits: refused.ContextFits, KVFits: refused.KVFits, ExpertsTooLarge: refused.ExpertsTooLarge, PromptTooLong: refused.PromptTooLong, kvWrites: refused.KVWrites, message: err,
		}
	}
	return plan, err
}
