package measure

import (
	"fmt"
	"math"
	"slices"

	"github.com/llmrun/llmrun/internal/bench"
)

// RecallReport holds the right answers about long contexts.
type RecallReport struct {
	Model     string          `json:"model"`
	Machine   bench.Machine   `json:"machine"`
	Threads   int             `json:"threads"`
	Jobs      int             `json:"jobs"`
	Selection string          `json:"selection"`
	Documents int             `json:"documents"`
	Rows      []RecallRow     `json:"rows"`
	Kinds     []RecallKind    `json:"kinds"`
	Verdicts  []RecallVerdict `json:"verdicts"`
	// Failures names what is not reached. Speed is reported only, because it depends on what else
	// runs on the machine.
	Failures []string `json:"failures"`
}

// RecallRow is the result of one format, context and mode.
type RecallRow struct {
	KV      string        `json:"kv"`
	Context int           `json:"context"`
	Mode    string        `json:"mode"`
	Scores  []RecallScore `json:"scores"` // of each kind
	// Same is the mode whose answers must be the same, and Different the number of answers that
	// have other tokens.
	Same      string  `json:"same_as,omitempty"`
	Different int     `json:"different"`
	TokenMS   float64 `json:"token_ms"` // median of the answers
	// ColdRead is the bytes that were read for tokens of answers, divided by the bytes on flash.
	ColdRead float64 `json:"cold_read_fraction"`
	// FirstRead is the same for the first question about a document, which no answer has read pages
	// for, with the first token of its answer.
	FirstRead float64 `json:"first_read_fraction"`
	// Faster is the median speed relative to exact attention on flash, of answers in turns.
	Faster float64 `json:"times_as_fast,omitempty"`
}

// RecallScore counts the answers to questions of a kind.
type RecallScore struct {
	Kind  string `json:"kind"`
	Asked int    `json:"asked"`
	Right int    `json:"right"`
}

// RecallKind compares page selection with exact attention for one kind of questions about one
// context.
type RecallKind struct {
	KV      string `json:"kv"`
	Kind    string `json:"kind"`
	Context int    `json:"context"`
	RecallPairs
	// Counts says that exact attention is right often enough for the verdict.
	Counts bool `json:"counts"`
}

// RecallPairs compares the answers to the same questions.
type RecallPairs struct {
	Asked  int `json:"asked"`
	Exact  int `json:"exact"`    // right with exact attention
	Select int `json:"selected"` // right with page selection
	Lost   int `json:"lost"`     // right with exact attention only
	Won    int `json:"won"`      // right with page selection only
}

func (p *RecallPairs) add(q *RecallPairs) {
	p.Asked, p.Exact, p.Select = p.Asked+q.Asked, p.Exact+q.Exact, p.Select+q.Select
	p.Lost, p.Won = p.Lost+q.Lost, p.Won+q.Won
}

// Points returns the per cent of the questions that selection lost, and half the width of its 95 %
// confidence interval: that of the difference of paired proportions, with half a question added to
// each of lost and won, so that it is not zero if there are none.
func (p *RecallPairs) Points() (lost, margin float64) {
	if p.Asked == 0 {
		return 0, 0
	}
	n, a, b := float64(p.Asked)+2, float64(p.Lost)+0.5, float64(p.Won)+0.5
	return 100 * float64(p.Lost-p.Won) / float64(p.Asked), 100 * 1.96 * math.Sqrt(a+b-(a-b)*(a-b)/n) / n
}

// RecallVerdict compares selection with exact attention for all questions of a kind that count, or of
// all kinds.
type RecallVerdict struct {
	KV   string `json:"kv"`
	Kind string `json:"kind"`
	RecallPairs
	Points float64 `json:"points"` // per cent that selection lost
	Margin float64 `json:"margin"` // of the 95 % confidence interval
}

// allKinds is the kind of the verdict about all questions.
const allKinds = "all"

// Limits of the verdict.
const (
	recallLeast    = 0.6 // of answers that exact attention gives right; other kinds do not count
	recallPoints   = 2.0 // by which selection may be worse, in per cent of the questions
	recallMostRead = 0.1 // of the bytes on flash
)

// newRecallReport summarizes cells.
func newRecallReport(o *RecallOptions, model string, cells []RecallCell) *RecallReport {
	r := &RecallReport{Model: model, Machine: bench.ThisMachine(), Threads: o.Threads, Jobs: max(1, o.Jobs), Selection: o.Select, Documents: o.Documents}
	for _, format := range o.Formats {
		for _, context := range o.Contexts {
			these := slices.DeleteFunc(slices.Clone(cells), func(c RecallCell) bool {
				return c.KV != format || c.Context != context || c.Document >= o.Documents
			})
			for _, mode := range recallModes {
				r.Rows = append(r.Rows, recallRow(format, context, mode, these))
			}
			for _, kind := range factKinds {
				if k := recallKind(format, context, kind, these); k.Asked > 0 {
					r.Kinds = append(r.Kinds, k)
				}
			}
		}
		r.addVerdicts(format)
	}
	r.compare()
	return r
}

// recallRow summarizes one mode.
func recallRow(format string, context int, mode string, cells []RecallCell) RecallRow {
	row := RecallRow{KV: format, Context: context, Mode: mode, Same: recallSameAs[mode]}
	var took, first, faster []float64
	var read, cold int64
	for i := range cells {
		c := &cells[i]
		for j, a := range c.Answers[mode] {
			row.score(c.Kinds[a.Question], a.Right)
			if a.Different {
				row.Different++
			}
			took = append(took, a.TokenMS)
			read, cold = read+a.Read, cold+a.Cold
			if j == 0 {
				first = append(first, a.First)
			}
		}
		if mode == recallSelected {
			faster = append(faster, c.faster()...)
		}
	}
	if len(took) > 0 {
		row.TokenMS, row.FirstRead = bench.Median(took), bench.Median(first)
	}
	if len(faster) > 0 {
		row.Faster = bench.Median(faster)
	}
	if cold > 0 {
		row.ColdRead = float64(read) / float64(cold)
	}
	return row
}

// score counts an answer.
func (x *RecallRow) score(kind string, right bool) {
	i := slices.IndexFunc(x.Scores, func(s RecallScore) bool { return s.Kind == kind })
	if i < 0 {
		i, x.Scores = len(x.Scores), append(x.Scores, RecallScore{Kind: kind})
	}
	if x.Scores[i].Asked++; right {
		x.Scores[i].Right++
	}
}

// faster compares the times of tokens of the questions that both ways answered.
func (c *RecallCell) faster() (out []float64) {
	for _, exact := range c.Answers[recallSpilled] {
		for _, a := range c.Answers[recallSelected] {
			if a.Question == exact.Question && a.TokenMS > 0 && exact.TokenMS > 0 {
				out = append(out, exact.TokenMS/a.TokenMS)
			}
		}
	}
	return out
}

// recallKind compares the answers to questions of a kind.
func recallKind(format string, context int, kind string, cells []RecallCell) RecallKind {
	k := RecallKind{KV: format, Kind: kind, Context: context}
	for i := range cells {
		exact, selected := cells[i].Answers[recallMemory], cells[i].Answers[recallSelected]
		for q := range min(len(exact), len(selected)) {
			if cells[i].Kinds[q] == kind {
				k.count(exact[q].Right, selected[q].Right)
			}
		}
	}
	k.Counts = float64(k.Exact) >= recallLeast*float64(k.Asked)
	return k
}

// count adds a question.
func (p *RecallPairs) count(exact, selected bool) {
	p.Asked++
	if exact {
		p.Exact++
	}
	if selected {
		p.Select++
	}
	if exact && !selected {
		p.Lost++
	}
	if selected && !exact {
		p.Won++
	}
}

// addVerdicts appends the verdicts about a format.
func (r *RecallReport) addVerdicts(format string) {
	all := RecallVerdict{KV: format, Kind: allKinds}
	for _, kind := range factKinds {
		v := RecallVerdict{KV: format, Kind: kind}
		for i := range r.Kinds {
			if k := &r.Kinds[i]; k.KV == format && k.Kind == kind && k.Counts {
				v.add(&k.RecallPairs)
			}
		}
		v.Points, v.Margin = v.RecallPairs.Points()
		all.add(&v.RecallPairs)
		r.Verdicts = append(r.Verdicts, v)
	}
	all.Points, all.Margin = all.RecallPairs.Points()
	r.Verdicts = append(r.Verdicts, all)
}

// lostTooMuch reports whether selection is worse than it may be. Of one kind there are fewer
// questions, so its whole interval must be beyond the limit.
func (v *RecallVerdict) lostTooMuch() bool {
	if v.Kind == allKinds {
		return v.Points > recallPoints
	}
	return v.Points-v.Margin > recallPoints
}

// compare fills the failures.
func (r *RecallReport) compare() {
	fail := func(failed bool, text string, args ...any) {
		if failed {
			r.Failures = append(r.Failures, fmt.Sprintf(text, args...))
		}
	}
	for i := range r.Verdicts {
		v := &r.Verdicts[i]
		fail(v.lostTooMuch(), "%s, %s: selection lost %.1f ± %.1f points, more than %.0f", v.KV, v.Kind, v.Points, v.Margin, recallPoints)
	}
	fail(!slices.ContainsFunc(r.Verdicts, func(v RecallVerdict) bool { return v.Asked > 0 }), "exact attention is right in less than %.0f %% everywhere", 100*recallLeast)
	for i := range r.Rows {
		row := &r.Rows[i]
		selects := row.Mode == recallSelected || row.Mode == recallBoth
		fail(selects && row.ColdRead > recallMostRead, "%s, %d tokens, %s: %.1f %% of the bytes on flash are read, more than %.0f %%", row.KV, row.Context, row.Mode, 100*row.ColdRead, 100*recallMostRead)
		fail(row.Different > 0, "%s, %d tokens, %s: %d answers differ from those that are %s", row.KV, row.Context, row.Mode, row.Different, row.Same)
	}
}
