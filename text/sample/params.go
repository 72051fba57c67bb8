package sample

import (
	"errors"
	"fmt"
	"math"
	"unicode/utf8"
)

// Params says how tokens are chosen. In every field the zero value means off, so
// the zero Params is greedy.
type Params struct {
	Temperature float32 // 0: greedy; 1: the model's own distribution
	TopK        int     // keep this many; 0: all
	TopP        float32 // keep the most likely up to this mass; 0 or 1: all
	MinP        float32 // keep those with this share of the best's probability
	TypicalP    float32 // keep the most typical up to this mass; 0 or 1: all

	RepeatPenalty    float32 // divides positive and multiplies negative logits of seen tokens; 0 or 1: off
	PresencePenalty  float32 // subtracted once from the logit of a seen token
	FrequencyPenalty float32 // subtracted for every time the token was seen
	RepeatLastN      int     // how many tokens count as seen; 0: 64, -1: all

	LogitBias map[int32]float32 // added to the logits of these ids; -Inf forbids one
	Seed      *uint64           // of the random numbers; nil: a fresh one, which Sampler.Seed tells
}

// Bounds of the stop strings. They come from requests; nobody needs more, and
// the matcher's work for every byte of text is proportional to their number.
const (
	MaxStops      = 64
	MaxStopLength = 1024 // bytes
)

// defaultRepeatLastN is how far back the penalties look unless told.
const defaultRepeatLastN = 64

// ErrParams is wrapped by every refusal of a parameter; the error itself is a
// [*ParamError].
var ErrParams = errors.New("invalid sampling parameter")

// ParamError names the field that cannot be used.
type ParamError struct {
	Field  string // as in requests, such as "top_p"
	Reason string // what it is and what it may be
}

// Error names the field and the values it may have.
func (e *ParamError) Error() string { return fmt.Sprintf("%v: %s %s", ErrParams, e.Field, e.Reason) }

// Unwrap makes errors.Is(err, ErrParams) true.
func (e *ParamError) Unwrap() error { return ErrParams }

// Validate returns a *ParamError for the first field that is out of range.
// Whether the ids of LogitBias exist is left to New, which knows the vocabulary.
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
			return &ParamError{f.field, fmt.Sprintf("is %v; it must lie between %v and %v", f.value, f.lo, f.hi)}
		case f.lo == 0:
			return &ParamError{f.field, fmt.Sprintf("is %v; it must be a finite number and not negative", f.value)}
		}
		return &ParamError{f.field, fmt.Sprintf("is %v; it must be a finite number", f.value)}
	}
	if p.TopK < 0 {
		return &ParamError{"top_k", fmt.Sprintf("is %d; it must not be negative (0 keeps all tokens)", p.TopK)}
	}
	if p.RepeatLastN < -1 {
		return &ParamError{"repeat_last_n", fmt.Sprintf("is %d; it must be a count, or -1 for all tokens", p.RepeatLastN)}
	}
	for id, bias := range p.LogitBias {
		if !(bias <= unbounded) {
			return &ParamError{"logit_bias", fmt.Sprintf("of token %d is %v; it must be a number, or -Inf to forbid the token", id, bias)}
		}
	}
	return nil
}

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
