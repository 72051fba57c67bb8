package spec

import (
	"encoding/json"

	"github.com/llmrun/llmrun"
)

// element is one element of the array that a Report is in JSON.
type element struct {
	Drafter       string  `json:"drafter"`
	Text          string  `json:"text"`
	TokensPerPass float64 `json:"tokens_per_pass"`
	TokPerSec     float64 `json:"tok_per_s"` // the median
	TokPerSecMin  float64 `json:"tok_per_s_min"`
	TokPerSecMax  float64 `json:"tok_per_s_max"`
	Plain         float64 `json:"plain_tok_per_s"` // without guesses
	Replay        bool    `json:"replay"`          // false: all that Run reports was measured
	Speed         float64 `json:"speed"`
	Pays          bool    `json:"pays"`
	Tokens        int     `json:"tokens"`
	Passes        int     `json:"passes"`
	BytesPerToken int64   `json:"read_bytes_per_token"`
	Guesses       []Guess `json:"drafters"`
}

// MarshalJSON returns the report as an array.
func (r *Report) MarshalJSON() ([]byte, error) {
	plain := map[string]float64{}
	for _, t := range r.Tests {
		if t.Drafter == llmrun.DraftOff {
			plain[t.Prompt] = t.TokPerSec.Median
		}
	}
	elements := make([]element, len(r.Tests))
	for i, t := range r.Tests {
		elements[i] = element{
			Drafter: t.Drafter, Text: t.Prompt, TokensPerPass: t.TokensPerPass, TokPerSec: t.TokPerSec.Median,
			TokPerSecMin: t.TokPerSec.Min, TokPerSecMax: t.TokPerSec.Max, Plain: plain[t.Prompt], Speed: t.Speed,
			Pays:   t.Drafter == r.Pays && r.Pays != llmrun.DraftOff,
			Tokens: t.Tokens, Passes: t.Passes, BytesPerToken: t.BytesPerToken, Guesses: t.Guesses,
		}
	}
	return json.Marshal(elements)
}
