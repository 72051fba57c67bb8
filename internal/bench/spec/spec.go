// Package spec measures what guesses of tokens gain: the same answers with each drafter, in turns.
package spec

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/bench"
)

// Options configure a measurement.
type Options struct {
	// Open opens the model with a drafter. It is called once for each drafter in each turn, so that each has the
	// memory that a run with it would have.
	Open     func(ctx context.Context, d llmrun.DraftOptions) (*llmrun.Engine, error)
	Drafters []string // besides llmrun.DraftOff; nil: all that need no other model
	Max      int      // most guesses in a pass; 0 = the default
	Prompts  []Prompt // nil: a story, a summary and a question
	Tokens   int      // most tokens of an answer
	// Temperature is that of all answers. The turns have different seeds.
	Temperature float32
	Turns       int
	Running     func(done, total int64) // may be nil: progress in answers
}

// Prompt is one of the prompts that are answered.
type Prompt struct{ Name, Text string }

//go:embed note.txt
var note string

// Prompts returns a story, where there is nothing to copy, and a summary and a question, whose answers stand in
// the prompt for the most part.
func Prompts() []Prompt {
	return []Prompt{
		{"story", "Write a story about a fox and a river."},
		{"summary", note + "\nSummarize the note."},
		{"question", note + "\nList the actions."},
	}
}

// Report compares drafters. In JSON it is an array with an element for each drafter and prompt.
type Report struct {
	Tests []*Test
	// Pays is the drafter with the fastest answers, and Speed is the median of its speeds for all prompts together, as a
	// multiple of that of "off" in the same turn. Pays is "off" unless Speed is at least PaysFrom, and the drafter is faster
	// than "off" in three of four turns. SpeedMin and SpeedMax are the lowest and the highest of those speeds.
	Pays     string
	Speed    float64
	SpeedMin float64
	SpeedMax float64
	// Skipped says why drafters were not measured.
	Skipped map[string]string
}

// PaysFrom is the least speed that pays: a smaller gain can be one of the machine's moods.
const PaysFrom = 1.03

// Test is the answers to one prompt with one drafter.
type Test struct {
	Prompt    string
	Drafter   string
	TokPerSec bench.Spread // of the answer without its first token
	// Speed is the median of the speeds, each as a multiple of that without guesses in the same turn.
	Speed         float64
	Tokens        int // of all turns, as the fields below
	Passes        int
	TokensPerPass float64
	// BytesPerToken is what a token read from flash.
	BytesPerToken int64
	Guesses       []Guess

	took  []float64 // seconds of each turn
	rate  []float64 // tokens per second of each turn
	bytes int64
}

// Guess counts the guesses of a drafter.
type Guess struct {
	Name     string `json:"name"`
	Proposed int    `json:"proposed"`
	Accepted int    `json:"accepted"`
}

// ErrTexts reports that guesses have changed an answer, which is a defect.
var ErrTexts = errors.New("guesses have changed an answer; please report this")

// ErrShort reports answers that are too short to be measured.
var ErrShort = errors.New("the answer has no tokens behind its first one: nothing is measured")

// Run measures a model.
func Run(ctx context.Context, o Options) (*Report, error) {
	m := &measurement{Options: o, report: &Report{Skipped: map[string]string{}}}
	if m.Prompts == nil {
		m.Prompts = Prompts()
	}
	m.drafters = append([]string{llmrun.DraftOff}, o.Drafters...)
	if o.Drafters == nil {
		m.drafters = append(m.drafters, llmrun.DraftLookup, llmrun.DraftNested, llmrun.DraftAuto)
	}
	m.tests = map[string][]*Test{}
	for turn := range o.Turns {
		m.answers = m.answers[:0]
		for _, drafter := range slices.Backward(slices.Clone(m.drafters)) { // a drafter that is refused is found at once
			if err := m.turn(ctx, turn, drafter); err != nil {
				return nil, err
			}
		}
	}
	m.summarize()
	return m.report, nil
}

// measurement is a running Run.
type measurement struct {
	Options
	drafters []string
	tests    map[string][]*Test // by drafter, in the order of the prompts
	answers  [][]int32          // of the turn, by its first drafter
	report   *Report
	done     int
}

// turn answers all prompts with a drafter. It leaves out a drafter that was not named and that the model
// or the budget excludes.
func (m *measurement) turn(ctx context.Context, turn int, drafter string) (err error) {
	engine, err := m.Open(ctx, llmrun.DraftOptions{Drafter: drafter, Max: m.Max})
	if m.Drafters == nil && drafter != llmrun.DraftOff && (errors.Is(err, llmrun.ErrOptions) || errors.Is(err, llmrun.ErrBudget)) {
		m.report.Skipped[drafter] = err.Error()
		m.drafters = slices.DeleteFunc(m.drafters, func(d string) bool { return d == drafter })
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	for i := range m.Prompts {
		if err := m.answer(ctx, engine, turn, drafter, i); err != nil {
			return fmt.Errorf("%s with --draft %s: %w", m.Prompts[i].Name, drafter, err)
		}
		m.done++
		if m.Running != nil {
			m.Running(int64(m.done), int64(m.Turns*len(m.drafters)*len(m.Prompts)))
		}
	}
	return nil
}

// answer answers one prompt in a session of its own.
func (m *measurement) answer(ctx context.Context, engine *llmrun.Engine, turn int, drafter string, prompt int) error {
	s, err := engine.NewSession()
	if err != nil {
		return err
	}
	ids, err := m.generate(ctx, s, engine.Info().HasChatTemplate, turn, m.Prompts[prompt].Text)
	stats := s.Stats()
	if err = errors.Join(err, s.Close()); err != nil {
		return err
	}
	if prompt == len(m.answers) {
		m.answers = append(m.answers, ids)
	} else if !slices.Equal(ids, m.answers[prompt]) {
		return ErrTexts
	}
	if stats.Passes == 0 {
		return ErrShort
	}
	if prompt == len(m.tests[drafter]) {
		m.tests[drafter] = append(m.tests[drafter], &Test{Prompt: m.Prompts[prompt].Name, Drafter: drafter})
	}
	m.tests[drafter][prompt].add(&stats)
	return nil
}

// generate returns the tokens of an answer.
func (m *measurement) generate(ctx context.Context, s *llmrun.Session, chats bool, turn int, text string) (ids []int32, err error) {
	seed := uint64(turn)
	o := llmrun.GenerateOptions{MaxTokens: m.Tokens, Sampling: llmrun.Sampling{Temperature: m.Temperature, Seed: &seed}}
	var pieces iter.Seq2[llmrun.Piece, error]
	if chats {
		pieces = s.Chat(ctx, text, o)
	} else {
		pieces = s.Generate(ctx, text, o)
	}
	for p, err := range pieces {
		if err != nil {
			return nil, err
		}
		if p.ID >= 0 {
			ids = append(ids, p.ID)
		}
	}
	return ids, nil
}

// add records an answer.
func (t *Test) add(stats *llmrun.Stats) {
	took := max(stats.Decode, time.Nanosecond).Seconds()
	tokens := stats.Passes // the pass of the end-of-text token counts
	for _, d := range stats.Drafters {
		tokens += d.Accepted
		i := slices.IndexFunc(t.Guesses, func(g Guess) bool { return g.Name == d.Name })
		if i < 0 {
			i = len(t.Guesses)
			t.Guesses = append(t.Guesses, Guess{Name: d.Name})
		}
		t.Guesses[i].Proposed += d.Proposed
		t.Guesses[i].Accepted += d.Accepted
	}
	t.took, t.rate = append(t.took, took), append(t.rate, float64(tokens)/took)
	t.Tokens, t.Passes, t.bytes = t.Tokens+tokens, t.Passes+stats.Passes, t.bytes+stats.DecodeFlash.Bytes
}

// summarize computes the results of all turns.
func (m *measurement) summarize() {
	off := m.tests[llmrun.DraftOff]
	whole := total(off)
	r := m.report
	r.Pays, r.Speed, r.SpeedMin, r.SpeedMax = llmrun.DraftOff, 1, 1, 1
	for _, drafter := range m.drafters {
		tests := m.tests[drafter]
		for i, t := range tests {
			t.TokPerSec, t.Speed = bench.SpreadOf(slices.Clone(t.rate)), bench.Median(gains(off[i].took, t.took))
			t.TokensPerPass = float64(t.Tokens) / float64(t.Passes)
			t.BytesPerToken = t.bytes / int64(t.Tokens)
			if t.Guesses == nil {
				t.Guesses = []Guess{} // an empty list rather than null
			}
		}
		speeds := gains(whole, total(tests))
		all := bench.SpreadOf(speeds)
		if all.Median >= PaysFrom && speeds[len(speeds)/4] > 1 && all.Median > r.Speed {
			r.Pays, r.Speed, r.SpeedMin, r.SpeedMax = drafter, all.Median, all.Min, all.Max
		}
	}
	for i := range m.Prompts {
		for _, drafter := range m.drafters {
			m.report.Tests = append(m.report.Tests, m.tests[drafter][i])
		}
	}
}

// total returns the seconds of all prompts together in each turn.
func total(tests []*Test) []float64 {
	sums := make([]float64, len(tests[0].took))
	for _, t := range tests {
		for turn, s := range t.took {
			sums[turn] += s
		}
	}
	return sums
}

// gains returns how many times as fast the turns of b were as those of a.
func gains(a, b []float64) []float64 {
	ratios := make([]float64, len(a))
	for i := range a {
		ratios[i] = a[i] / b[i]
	}
	return ratios
}

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
