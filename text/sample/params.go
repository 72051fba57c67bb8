package sample

import (
	"errors"
	"fmt"
	"math"
	"unicode/utf8"
)

// Params configures a Sampler. Zero disables the feature of a field, so the zero Params
// selects the most likely token.
type Params struct {
	Temperature float32 // 0: greedy; 1: the model's distribution
	TopK        int     // retain this many tokens; 0: all
	TopP        float32 // retain the most likely tokens up to this total probability; 0 or 1: all
	MinP        float32 // retain tokens with at least this fraction of the best token's probability
	TypicalP    float32 // retain the most typical tokens up to this total probability; 0 or 1: all

	RepeatPenalty    float32 // divides the positive and multiplies the negative logits of tokens in the history; 0 or 1: off
	PresencePenalty  float32 // subtracted once from the logit of a token in the history
	FrequencyPenalty float32 // subtracted once per occurrence in the history
	RepeatLastN      int     // length of the history in tokens; 0: 64, -1: unlimited

	LogitBias map[int32]float32 // added to the logits of these ids; -Inf forbids a token
	Seed      *uint64           // seed of the random numbers; nil selects a random seed, see Sampler.Seed
}

// filters reports whether a filter may remove tokens.
func (p *Params) filters() bool {
	return p.TopK != 0 || p.TopP != 0 && p.TopP != 1 || p.MinP != 0 || p.TypicalP != 0 && p.TypicalP != 1
}

// Limits of the stop strings. Stop strings come from untrusted requests, and the
// matcher's time per byte of text is proportional to their number.
const (
	MaxStops      = 64
	MaxStopLength = 1024 // bytes
)

// defaultRepeatLastN is the length of the history if Params.RepeatLastN is 0.
const defaultRepeatLastN = 64

// ErrParams reports an invalid parameter. The error that wraps it is a [*ParamError].
var ErrParams = errors.New("invalid sampling parameter")

// ParamError describes an invalid parameter.
type ParamError struct {
	Field  string // name in requests, such as "top_p"
	Reason string // invalid value and valid range
}

// Error returns the field and the reason.
func (e *ParamError) Error() string { return fmt.Sprintf("%v: %s %s", ErrParams, e.Field, e.Reason) }

// Unwrap returns ErrParams.
func (e *ParamError) Unwrap() error { return ErrParams }

// Validate returns a *ParamError for the first field that is out of range. New also
// checks that the vocabulary has the ids of LogitBias.
func (p *Params) Validate() error {
	const unbounded = math.MaxFloat32
	for _, f := range []struct {
		field         string
		value, lo, hi float32
	}{
		{"temperature", p.Temperature, 0, unbounded},
		{"top_p", p.TopP, 0, 1},
		{"min_p", p.MinP, 0, 1},
		{"typical_p", p.TypicalP, 0, 1},
		{"repeat_penalty", p.RepeatPenalty, 0, unbounded},
		{"presence_penalty", p.PresencePenalty, -unbounded, unbounded},
		{"frequency_penalty", p.FrequencyPenalty, -unbounded, unbounded},
	} {
		if f.value >= f.lo && f.value <= f.hi { // false for NaN
			continue
		}
		switch {
		case f.hi != unbounded:
			return &ParamError{f.field, fmt.Sprintf("is %v; it must be between %v and %v", f.value, f.lo, f.hi)}
		case f.lo == 0:
			return &ParamError{f.field, fmt.Sprintf("is %v; it must be a finite number and not negative", f.value)}
		}
		return &ParamError{f.field, fmt.Sprintf("is %v; it must be a finite number", f.value)}
	}
	if p.TopK < 0 {
		return &ParamError{"top_k", fmt.Sprintf("is %d; it must be at least 0 (0 retains all tokens)", p.TopK)}
	}
	if p.RepeatLastN < -1 {
		return &ParamError{"repeat_last_n", fmt.Sprintf("is %d; it must be at least -1 (-1 includes all tokens)", p.RepeatLastN)}
	}
	for id, bias := range p.LogitBias {
		if !(bias <= unbounded) {
			return &ParamError{"logit_bias", fmt.Sprintf("of token %d is %v; it must be a number, or -Inf to forbid the token", id, bias)}
		}
	}
	return nil
}

// validateStops checks the limits of the stop strings.
func validateStops(stops []string) error {
	if len(stops) > MaxStops {
		return &ParamError{"stop", fmt.Sprintf("has %d entries; at most %d are allowed", len(stops), MaxStops)}
	}
	for i, s := range stops {
		switch {
		case s == "":
			return &ParamError{"stop", fmt.Sprintf("entry %d is empty", i)}
		case len(s) > MaxStopLength:
			return &ParamError{"stop", fmt.Sprintf("entry %d has %d bytes; at most %d are allowed", i, len(s), MaxStopLength)}
		case !utf8.ValidString(s):
			return &ParamError{"stop", fmt.Sprintf("entry %d is not valid UTF-8", i)}
		}
	}
	return nil
}
