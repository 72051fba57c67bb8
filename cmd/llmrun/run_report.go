package main

import (
	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/cli"
)

// A runReport is the JSON object of --json. Scripts depend on its names.
type runReport struct {
	IDs             []int32           `json:"ids"`
	Text            string            `json:"text"`
	StopReason      llmrun.StopReason `json:"stop_reason"`
	ShortestTokens  int               `json:"shortest_tokens,omitempty"` // with --schema, --regex or --grammar
	Thinking        string            `json:"thinking,omitempty"`        // what the model thought
	ToolCalls       []llmrun.ToolCall `json:"tool_calls,omitempty"`      // calls that it asks for
	Sources         []string          `json:"sources,omitempty"`         // files that the answer comes from, with --notes
	PromptTokens    int               `json:"prompt_tokens"`
	GeneratedTokens int               `json:"generated_tokens"`
	PrefillTokPerS  float64           `json:"prefill_tok_per_s"`
	DecodeTokPerS   float64           `json:"decode_tok_per_s"`
	PrefillSeconds  float64           `json:"prefill_seconds"`
	DecodeSeconds   float64           `json:"decode_seconds"`
	FirstTokenAfter float64           `json:"first_token_seconds"`
	ReusedTokens    int               `json:"reused_tokens"`    // prompt tokens whose keys and values were reused
	RestoredTokens  int               `json:"recalled_tokens"`  // those of them that came from the prefix cache on flash
	SavedBytes      int64             `json:"kept_bytes"`       // written to the cache directory
	Slides          int               `json:"slides"`           // how often the full context slid
	ForgottenTokens int               `json:"forgotten_tokens"` // tokens that slides dropped

	Passes        int             `json:"passes"` // of the whole model after the prompt
	TokensPerPass float64         `json:"tokens_per_pass"`
	Drafters      []drafterReport `json:"drafters"`

	LogProbs   cli.JSONList      `json:"logprobs,omitzero"`    // with --logprobs, of tokenReport
	Candidates []candidateReport `json:"candidates,omitempty"` // with --samples or --beam
	Steps      []stepReport      `json:"steps,omitempty"`      // with --beam
	// StepsLeftOut counts the steps behind them.
	StepsLeftOut int    `json:"steps_left_out,omitempty"`
	Chosen       *int   `json:"chosen,omitempty"` // index of the candidate that is the answer
	Why          string `json:"why,omitempty"`    // why it was chosen

	Seed  *uint64      `json:"seed,omitempty"`  // none for greedy decoding
	Stats *memoryStats `json:"stats,omitempty"` // with --stats
}

func newRunReport(got *answer, stats llmrun.Stats, seed *uint64) runReport {
	return runReport{
		Passes: stats.Passes, TokensPerPass: stats.TokensPerPass(), Drafters: drafterReports(stats),
		IDs:             notNull(got.ids),
		Text:            got.Text(),
		StopReason:      stats.StopReason,
		ShortestTokens:  stats.ShortestTokens,
		Thinking:        got.Thinking(),
		ToolCalls:       got.ToolCalls(),
		PromptTokens:    stats.PromptTokens,
		ReusedTokens:    stats.ReusedTokens,
		RestoredTokens:  stats.RestoredTokens,
		GeneratedTokens: stats.GeneratedTokens,
		SavedBytes:      stats.SavedBytes,
		Slides:          stats.Slides,
		ForgottenTokens: stats.ForgottenTokens,
		PrefillTokPerS:  finite(stats.PrefillTokPerS()),
		DecodeTokPerS:   finite(stats.DecodeTokPerS()),
		PrefillSeconds:  stats.Prefill.Seconds(),
		DecodeSeconds:   stats.Decode.Seconds(),
		FirstTokenAfter: stats.FirstToken.Seconds(),
		Seed:            seed,
	}
}

// A tokenReport is a token of the answer, or a token that could have stood there, with the logarithm of its
// probability.
type tokenReport struct {
	ID      int32         `json:"id"`
	Text    string        `json:"text"` // the text that the token completes
	LogProb float64       `json:"logprob"`
	Top     []tokenReport `json:"top_logprobs,omitempty"` // the most likely tokens
}

// lists are the lists of the report, in its order.
func (r *runReport) lists() (all []cli.JSONList) {
	if r.LogProbs != nil {
		all = append(all, r.LogProbs)
	}
	for i := range r.Candidates {
		if list := r.Candidates[i].LogProbs; list != nil {
			all = append(all, list)
		}
	}
	return all
}

// newTokenReport describes a token of the answer.
func newTokenReport(engine *llmrun.Engine, p *llmrun.Piece) tokenReport {
	r := tokenReport{ID: p.ID, Text: p.Text, LogProb: finite(float64(p.LogProb))}
	for _, top := range p.Top {
		r.Top = append(r.Top, tokenReport{ID: top.ID, Text: tokenText(engine, top.ID), LogProb: finite(float64(top.LogProb))})
	}
	return r
}

// tokenText returns the text of a token behind others, "" without a tokenizer.
func tokenText(engine *llmrun.Engine, id int32) string {
	decoder := engine.Tokenizer().NewDecoder()
	text, _ := decoder.Next(id) // an id of a padded vocabulary that the tokenizer does not have has no text
	return text + decoder.Flush()
}

// notNull returns a list that is an empty one in JSON rather than null.
func notNull[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
