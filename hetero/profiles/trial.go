package profiles

import (
	"slices"
	"time"

	"github.com/llmrun/llmrun/hetero/solve"
	"github.com/llmrun/llmrun/internal/build"
)

// Passes describe whole passes of a model on a pair of devices. Together with the
// pair, they determine the outcome of a trial.
type Passes struct {
	Matmuls string `json:"products"` // the model's matmuls and their splits
	Chunk   int    `json:"chunk"`    // tokens per prefill chunk
	Exact   bool   `json:"exact"`    // the CPU multiplies in float32
}

// Trial is the measured time of passes as planned and on the CPU alone.
type Trial struct {
	Passes
	Program string    `json:"program"` // version of the program that ran the passes
	At      time.Time `json:"at"`
	Alone   PassTimes `json:"alone"`
	Planned PassTimes `json:"planned"`
}

// trialMaxAge is the time for which a trial is valid. System updates may change the
// outcome, and other load may have distorted the trial.
const trialMaxAge = 30 * 24 * time.Hour

// valid reports whether a trial still applies to this program.
func (t *Trial) valid() bool {
	age := time.Since(t.At)
	return t.plausible() && t.Program == build.Name() && age >= 0 && age < trialMaxAge
}

// PassTimes are the times of one prefill chunk and of one token after it. A time is
// zero if the device has no part in that kind of pass.
type PassTimes struct {
	Prompt time.Duration `json:"prompt_ns"`
	Token  time.Duration `json:"token_ns"`
}

// plausible reports whether all times are possible.
func (t *Trial) plausible() bool {
	return min(t.Alone.Prompt, t.Alone.Token, t.Planned.Prompt, t.Planned.Token) >= 0
}

// Trial returns the stored valid trial of passes on a pair of devices, nil for
// none.
func (f *File) Trial(k Keys, of Passes) *Trial {
	for _, t := range f.Pairs[k.pair()].Trials {
		if t.Passes == of && t.valid() {
			return &t
		}
	}
	return nil
}

// SaveTrial adds a finished trial to the file and drops invalid ones. It reads the
// file again first, because other processes may have measured during the trial.
func SaveTrial(dir string, k Keys, t Trial, report func(text string)) {
	f, _ := Load(dir)
	t.Program, t.At = build.Name(), time.Now()
	both := f.Pairs[k.pair()]
	both.Trials = append(slices.DeleteFunc(both.Trials, func(old Trial) bool { return old.Passes == t.Passes || !old.valid() }), t)
	f.Pairs[k.pair()] = both
	f.SaveOrReport(dir, report)
}

// Invalidate removes the results that depend on measurements which the caller repeats:
// copies and trials with any of the devices, and checks of these matmuls.
func (f *File) Invalidate(k Keys, matmuls []solve.Shape) {
	for name, both := range f.Pairs {
		if slices.ContainsFunc(k, func(key string) bool { return inPair(name, key) }) {
			both.Trials, both.Copies = nil, nil
		}
		if name == k.pair() {
			both.Checks = slices.DeleteFunc(both.Checks, func(c Check) bool { return slices.Contains(matmuls, c.Shape) })
		}
		f.Pairs[name] = both
	}
}

// CopyTime is the time to copy half of the input and output of a matmul.
type CopyTime struct {
	Tokens int           `json:"tokens"`
	Width  int           `json:"width"` // elements per token
	Took   time.Duration `json:"took_ns"`
}

// Copy returns the stored time of such a copy with a pair of devices.
func (f *File) Copy(k Keys, tokens, width int) (took time.Duration, known bool) {
	for _, c := range f.Pairs[k.pair()].Copies {
		if c.Tokens == tokens && c.Width == width && c.Took >= 0 {
			return c.Took, true
		}
	}
	return 0, false
}

// AddCopy stores the time of a copy.
func (f *File) AddCopy(k Keys, c CopyTime) {
	both := f.Pairs[k.pair()]
	both.Copies = append(slices.DeleteFunc(both.Copies, func(old CopyTime) bool { return old.Tokens == c.Tokens && old.Width == c.Width }), c)
	f.Pairs[k.pair()] = both
}
