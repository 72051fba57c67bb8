package llmrun_test

import (
	"fmt"
	"math"
	"slices"

	"github.com/llmrun/llmrun"
)

// strangerTurn is one thing that a session does.
type strangerTurn struct {
	switches bool // to other adapters
	use      []string
	ids      []int32
	options  llmrun.GenerateOptions
	leave    int // the caller leaves the loop after so many pieces; 0: it does not
	ends     end // of its life
	after    int // pieces after which it ends

	candidates    int // 0: one answer
	width, expand int // of a beam search; 0: none
	choose        int // of the answers; -1: none

	saves, reopens bool // behind the turn
}

// end is how others end the life of a session in the middle of a turn.
type end int

const (
	goesOn end = iota
	contextEnds
	sessionCloses
)

// engineOptions returns random options that both engines have.
func (r *strangerRun) engineOptions() llmrun.Options {
	rng := r.rng
	o := llmrun.Options{Threads: 1 + rng.IntN(2), Context: 300, Cache: llmrun.CacheOptions{KVDir: r.t.TempDir(), NoKV: rng.IntN(3) > 0}}
	o.Memory.RAM, o.Memory.Chunk = llmrun.NoLimit, 16<<rng.IntN(4)
	o.Memory.KV = []string{"f32", "f16", "k8v8", "k8f8", "k4v8"}[rng.IntN(5)]
	if r.model.long {
		o.Context = 2048
		o.Memory.KVSelect = []string{"0.05", "auto", "0.3", ""}[rng.IntN(4)]
	}
	if rng.IntN(2) == 0 {
		o.Memory.KVRAM = 1 + rng.Int64N(64<<10)
	}
	switch rng.IntN(6) {
	case 0: // no adapters
		return o
	case 1:
		o.Adapters = append(o.Adapters, r.model.adapters[3]+":0.5")
	case 2:
		o.Adapters, o.AdaptersBeside = append(o.Adapters, r.model.adapters[3]), true
	}
	for i := range 1 + rng.IntN(3) {
		name := string(rune('a' + i))
		r.names = append(r.names, name)
		o.Adapters = append(o.Adapters, name+"="+r.model.adapters[i]+[]string{"", ":0.5", ":-2"}[rng.IntN(3)])
	}
	if rng.IntN(3) == 0 {
		o.SessionAdapters = r.someAdapters()
	}
	return o
}

// drafts chooses how the engine of all sessions guesses, and returns the path of its model.
func (r *strangerRun) drafts(o *llmrun.Options, base string) string {
	path := r.model.path(r.t, base)
	if o.Drafts.Max = r.rng.IntN(20); r.rng.IntN(2) == 0 {
		llmrun.AllBranches(r.t)
	}
	switch r.rng.IntN(7) {
	case 0:
		o.Drafts.Drafter = llmrun.DraftOff
	case 1, 2:
		o.Drafts.Drafter = llmrun.DraftLookup
	case 3, 4:
		o.Drafts.Drafter = r.model.path(r.t, "q4")
	case 5:
		merged := len(o.Adapters) > 0 && !o.AdaptersBeside && llmrun.AdapterName(o.Adapters[0]) == ""
		if base == "q8" && r.model.planes && !merged && o.Memory.KVSelect == "" {
			o.Drafts.Drafter = llmrun.DraftNested
			return r.model.path(r.t, "planes")
		}
	}
	return path
}

func (r *strangerRun) prompt(n int) []int32 {
	if r.rng.IntN(2) == 0 {
		return repeating(r.rng, r.vocab, n)
	}
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = r.rng.Int32N(int32(r.vocab))
	}
	return ids
}

// someAdapters returns adapters with weights, some of them twice.
func (r *strangerRun) someAdapters() (use []string) {
	if len(r.names) == 0 {
		return nil
	}
	for range r.rng.IntN(3) {
		use = append(use, r.names[r.rng.IntN(len(r.names))]+[]string{"", ":0.5", ":-1", ":0", ":3"}[r.rng.IntN(5)])
	}
	return use
}

// newStranger returns a random life.
func (r *strangerRun) newStranger() *stranger {
	x := &stranger{index: len(r.all)}
	if len(r.all) > 0 && r.rng.IntN(3) > 0 {
		x.from = r.all[r.rng.IntN(len(r.all))]
		x.at = 1 + r.rng.IntN(len(x.from.turns))
		x.from.children = append(x.from.children, x)
	}
	from := -1
	if x.from != nil {
		from = x.from.index
	}
	r.notes.Note("session %d, fork of %d behind turn %d", x.index, from, x.at)
	for i := range 1 + r.rng.IntN(3) {
		turn := r.turn()
		if i == 0 && x.from == nil && r.rng.IntN(2) == 0 {
			turn.ids = slices.Concat(r.document, turn.ids)
		}
		x.turns = append(x.turns, turn)
		r.notes.Note("  %+v", turn)
		if turn.ends != goesOn {
			break
		}
	}
	return x
}

// turn returns a random turn.
func (r *strangerRun) turn() strangerTurn {
	rng := r.rng
	n := strangerTurn{ids: r.prompt(1 + rng.IntN(1<<(1+rng.IntN(6)))), options: r.generation(), choose: -1}
	if n.switches = rng.IntN(2) == 0; n.switches {
		n.use = r.someAdapters()
	}
	if rng.IntN(4) == 0 {
		n.leave = 1 + rng.IntN(8)
	}
	switch o := &n.options; rng.IntN(12) {
	case 0, 1:
		n.candidates, n.leave = 1+rng.IntN(6), 0
		n.choose = rng.IntN(n.candidates+1) - 1
	case 2:
		n.width, n.expand, n.leave = 1+rng.IntN(2), 1+rng.IntN(3), 0
		o.MaxTokens, n.choose = 2+rng.IntN(8), rng.IntN(2)-1
	case 3:
		n.ends, n.after = contextEnds, rng.IntN(5)
	case 4:
		n.ends, n.after = sessionCloses, rng.IntN(5)
	case 5:
		n.saves = true
	case 6:
		n.saves, n.reopens = true, true
	case 7:
		if !isHeld(o) {
			o.Overflow = llmrun.OverflowSlide
			n.ids = append(n.ids, r.prompt(rng.IntN(150))...)
		}
	}
	return n
}

// strangerLanguages hold answers.
var (
	strangerSchemas = []string{
		`{"type":"object","properties":{"a":{"type":"integer"},"b":{"enum":["x","yy","zebra"]}},"required":["a","b"]}`,
		`{"type":"array","items":{"type":"boolean"},"minItems":1,"maxItems":4}`,
		`{"type":"string","maxLength":6}`,
	}
	strangerRegexps  = []string{`(ab|a)+c{2,5}`, `[a-z ]{1,12}\.`, `the (cat|dog|catalogue) .*`}
	strangerGrammars = []string{`root ::= ("yes" | "no" | "maybe") (" " root)?`, `root ::= "[" [0-9]+ ("," [0-9]+)* "]"`}
)

// generation returns random options of an answer.
func (r *strangerRun) generation() llmrun.GenerateOptions {
	rng, seed := r.rng, r.rng.Uint64()
	o := llmrun.GenerateOptions{MaxTokens: 1 + rng.IntN(24), IgnoreEOS: rng.IntN(2) == 0, LogProbs: rng.IntN(3) > 0, TopLogProbs: []int{0, 0, 1, 3, 100}[rng.IntN(5)]}
	o.StopRepeats = rng.IntN(4) == 0
	p := &o.Sampling
	p.Temperature, p.Seed = []float32{0, 0.8, 1.3}[rng.IntN(3)], &seed
	if rng.IntN(3) == 0 {
		p.RepeatPenalty, p.PresencePenalty, p.FrequencyPenalty = 1+rng.Float32(), rng.Float32(), rng.Float32()
		p.RepeatLastN = []int{0, -1, 5}[rng.IntN(3)]
	}
	if rng.IntN(3) == 0 {
		p.TopK, p.TopP, p.MinP, p.TypicalP = rng.IntN(40), 0.5+rng.Float32()/2, 0.1*rng.Float32(), []float32{0, 0.5, 0.9}[rng.IntN(3)]
	}
	switch rng.IntN(4) {
	case 0: // a text of a few tokens repeats itself
		p.LogitBias = map[int32]float32{32: 30, 101: 30, 116: 30, 46: 29}
		o.MaxTokens += 20
	case 1:
		p.LogitBias = map[int32]float32{rng.Int32N(int32(r.vocab)): 3, rng.Int32N(int32(r.vocab)): -3, rng.Int32N(int32(r.vocab)): float32(math.Inf(-1))}
	}
	for range max(0, rng.IntN(6)-3) {
		o.Stop = append(o.Stop, []string{"e", " t", "on", "ing ", ".", "q", "t.", "ee"}[rng.IntN(8)])
	}
	switch rng.IntN(10) {
	case 0:
		o.Schema = strangerSchemas[rng.IntN(len(strangerSchemas))]
	case 1:
		o.Regexp = strangerRegexps[rng.IntN(len(strangerRegexps))]
	case 2:
		o.Grammar = strangerGrammars[rng.IntN(len(strangerGrammars))]
	}
	if isHeld(&o) {
		o.IgnoreEOS = false // it has no meaning there
	}
	return o
}

// isHeld reports whether an answer is held to a language.
func isHeld(o *llmrun.GenerateOptions) bool {
	return o.Schema != "" || o.Regexp != "" || o.Grammar != ""
}

// String describes a turn.
func (n strangerTurn) String() string {
	o := n.options
	seed := *o.Sampling.Seed
	o.Sampling.Seed = nil
	return fmt.Sprintf("%d tokens, adapters %v %q, left after %d, ends %d after %d, %d candidates, beams %dx%d, choose %d, saved %v, opened again %v, at most %d, stops %q, EOS ignored %v, %s, %s%s%s, probabilities %v %d, seed %d, %+v",
		len(n.ids), n.switches, n.use, n.leave, n.ends, n.after, n.candidates, n.width, n.expand, n.choose, n.saves, n.reopens,
		o.MaxTokens, o.Stop, o.IgnoreEOS, o.Overflow, o.Schema, o.Regexp, o.Grammar, o.LogProbs, o.TopLogProbs, seed, o.Sampling)
}
