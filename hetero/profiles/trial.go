package profiles

import (
	"slices"
	"time"

	"github.com/llmrun/llmrun/hetero/solve"
	"github.com/llmrun/llmrun/internal/build"
)

// Passes are whole passes of a model, as they are computed with a pair of devices:
// with the pair all that the outcome of a trial depends on.
type Passes struct {
	Matmuls string `json:"products"` // the model's, and which rows of them are where
	Chunk   int    `json:"chunk"`    // tokens of a prompt that pass together
	Exact   bool   `json:"exact"`    // the processor multiplies in float32
}

// Trial is how long passes took as they were planned, and on the processor alone.
type Trial struct {
	Passes
	Program string    `json:"program"` // that computed them
	At      time.Time `json:"at"`
	Alone   PassTimes `json:"alone"`
	Planned PassTimes `json:"planned"`
}

// trialMaxAge is for how long a trial tells what passes take. Systems are updated, and what
// else ran at that moment may have decided.
const trialMaxAge = 30 * 24 * time.Hour

// valid reports whether a trial still tells what passes take with this program.
func (t *Trial) valid() bool {
	age := time.Since(t.At)
	return t.plausible() && t.Program == build.Name() && age >= 0 && age < trialMaxAge
}

// PassTimes is how long a prompt of a chunk took and a token behind it; nothing of what is
// planned to be the processor's alone.
type PassTimes struct {
	Prompt time.Duration `json:"prompt_ns"`
	Token  time.Duration `json:"token_ns"`
}

// plausible reports whether passes can have taken so long.
func (t *Trial) plausible() bool {
	return min(t.Alone.Prompt, t.Alone.Token, t.Planned.Prompt, t.Planned.Token) >= 0
}

// Trial returns what is known of passes with a pair of devices, nil for nothing.
func (f *File) Trial(k Keys, of Passes) *Trial {
	for _, t := range f.Pairs[k.pair()].Trials {
		if t.Passes == of && t.valid() {
			return &t
		}
	}
	return nil
}

// SaveTrial adds a trial that has just ended to what is kept by now: it took a while, and
// others may have measured. It takes the place of what no longer counts.
func SaveTrial(dir string, k Keys, t Trial, notice func(text string)) {
	f, _ := Load(dir)
	t.Program, t.At = build.Name(), time.Now()
	both := f.Pairs[k.pair()]
	both.Trials = append(slices.DeleteFunc(both.Trials, func(old Trial) bool { return old.Passes == t.Passes || !old.valid() }), t)
	f.Pairs[k.pair()] = both
	f.SaveOrReport(dir, notice)
}

// Invalidate takes out what followed from measurements of devices that are made again: what
// copies and whole passes took with one of them, and checks of these products.
func (f *File) Invalidate(k Keys, products []solve.Shape) {
	for name, both := range f.Pairs {
		if slices.ContainsFunc(k, func(key string) bool { return inPair(name, key) }) {
			both.Trials, both.Copies = nil, nil
		}
		if name == k.pair() {
			both.Checks = slices.DeleteFunc(both.Checks, func(c Check) bool { return slices.Contains(products, c.Shape) })
		}
		f.Pairs[name] = both
	}
}

// CopyTime is what a copy of half of what a product reads and writes took.
type CopyTime struct {
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
func (f *File) AddCopy(k Keys, c CopyTime) {
	both := f.Pairs[k.pair()]
	both.Copies = append(slices.DeleteFunc(both.Copies, func(old CopyTime) bool { return old.Tokens == c.Tokens && old.Width == c.Width }), c)
	f.Pairs[k.pair()] = both
}
