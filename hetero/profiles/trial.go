package profiles

import (
	"slices"
	"time"
)

// Passes are whole passes of a model, as they are computed with a pair of devices:
// with the pair all that the outcome of a trial depends on.
type Passes struct {
	Products string `json:"products"` // the model's, and which rows of them are where
	Chunk    int    `json:"chunk"`    // tokens of a prompt that pass together
	Exact    bool   `json:"exact"`    // the processor multiplies in float32
}

// Trial is how long passes took as they were planned, and on the processor alone.
type Trial struct {
	Passes
	Alone   Took `json:"alone"`
	Planned Took `json:"planned"`
}

// Took is how long a prompt of a chunk took and a token behind it; nothing of what is
// planned to be the processor's alone.
type Took struct {
	Prompt time.Duration `json:"prompt_ns"`
	Token  time.Duration `json:"token_ns"`
}

// possible reports whether passes can have taken so long.
func (t *Trial) possible() bool {
	return min(t.Alone.Prompt, t.Alone.Token, t.Planned.Prompt, t.Planned.Token) >= 0
}

// Trial returns what is known of passes with a pair of devices, nil for nothing.
func (f *File) Trial(k Keys, of Passes) *Trial {
	for _, t := range f.Pairs[k.pair()].Trials {
		if t.Passes == of && t.possible() {
			return &t
		}
	}
	return nil
}

// AddTrial keeps a trial in place of one of the same passes.
func (f *File) AddTrial(k Keys, t Trial) {
	both := f.Pairs[k.pair()]
	both.Trials = append(slices.DeleteFunc(both.Trials, func(old Trial) bool { return old.Passes == t.Passes }), t)
	f.Pairs[k.pair()] = both
}

// Copied is what a copy of half of what a product reads and writes took.
type Copied struct {
	Tokens int           `json:"tokens"`
	Width  int           `json:"width"` // values of a token
	Took   time.Duration `json:"took_ns"`
}

// Copy returns what is known of such a copy with a pair of devices.
func (f *File) Copy(k Keys, tokens, width int) (took time.Duration, known bool) {
	for _, c := range f.Pairs[k.pair()].Copies {
		if c.Tokens == tokens && c.Width == width && c.Took >= 0 {
			return c.Took, true
		}
	}
	return 0, false
}

// AddCopy keeps one that was not known.
func (f *File) AddCopy(k Keys, c Copied) {
	both := f.Pairs[k.pair()]
	both.Copies = append(slices.DeleteFunc(both.Copies, func(old Copied) bool { return old.Tokens == c.Tokens && old.Width == c.Width }), c)
	f.Pairs[k.pair()] = both
}
