package llmrun

import (
	"fmt"
	"slices"

	"github.com/llmrun/llmrun/exec/modelfile"
)

// Overflow selects what happens when a session reaches [Session.Limit]. "" means OverflowStop.
type Overflow string

// Values of GenerateOptions.Overflow and PlanOptions.Overflow.
const (
	// OverflowStop ends the generation with StopContext, and refuses a prompt that is longer
	// than the limit with ErrContextFull. It is the default.
	OverflowStop Overflow = "stop"
	// OverflowSlide drops old tokens and continues. It keeps the first tokens, which models
	// attend to regardless of the topic, and at least the newest half of the limit. The
	// engine re-prefills what it keeps, which takes as long as a prompt of that length. The
	// following tokens are those of a new session with the remaining tokens as its prompt.
	OverflowSlide Overflow = "slide"
)

// checkContext refuses a context that is longer than the model's, if the options are strict.
func (o *Options) checkContext(f *modelfile.Files) error {
	if !o.StrictContext || o.Context == 0 {
		return nil
	}
	spec, err := f.Spec()
	if err != nil || o.Context <= spec.Context {
		return err
	}
	return fmt.Errorf("%w: Context is %d tokens, and %s supports at most %d (%s)", ErrOptions, o.Context, f.Path, spec.Context, spec.ContextFrom)
}

// slidePrefix is the number of first tokens that a slide keeps, or a quarter of the limit if
// that is less.
const slidePrefix = 64

// validate returns an ErrOptions for an unknown value.
func (o Overflow) validate() error {
	if !slices.Contains([]Overflow{"", OverflowStop, OverflowSlide}, o) {
		return fmt.Errorf("%w: Overflow is %q; it must be %s or %s", ErrOptions, o, OverflowStop, OverflowSlide)
	}
	return nil
}

// slideSizes returns how many first tokens a slide keeps, and the number of tokens behind
// them that one step drops. A step is so large that limit+1 tokens shrink to the first ones
// and the newest half of the limit.
func slideSizes(limit int) (begin, step int) {
	begin = min(slidePrefix, limit/4)
	return begin, limit + 1 - begin - max(1, limit/2)
}

// slideTokens returns the tokens that a slide keeps, and the number of tokens that it drops.
// It drops whole steps. A conversation that is rendered anew for each turn thus loses the
// same tokens for many turns, and its prefix stays cached.
func slideTokens(ids []int32, limit int) (rest []int32, dropped int) {
	if dropped = slideLength(len(ids), limit); dropped == 0 {
		return ids, 0
	}
	begin, _ := slideSizes(limit)
	return slices.Concat(ids[:begin], ids[begin+dropped:]), dropped
}

// slideLength returns the number of tokens that a slide of so many tokens drops.
func slideLength(tokens, limit int) int {
	over := tokens - limit
	if over <= 0 {
		return 0
	}
	_, step := slideSizes(limit)
	return (over + step - 1) / step * step
}

// fitPrompt returns ErrContextFull if the prompt is too long, or slides it.
func (g *generation) fitPrompt() error {
	overflow := g.options.Overflow
	if g.options.WholePrompt {
		overflow = OverflowStop
	}
	if _, err := fitTokens(len(g.ids), g.session.seq.Limit(), overflow); err != nil {
		return err
	}
	g.slide()
	return nil
}

// fitTokens decides about a sequence with its prompt that has so many tokens, for a generation and for
// a plan: it returns how many of them a slide drops, or a *ContextFullError if they are more than limit
// and do not slide.
func fitTokens(tokens, limit int, overflow Overflow) (dropped int, err error) {
	if tokens > limit && overflow != OverflowSlide {
		return 0, &ContextFullError{Tokens: tokens, Limit: limit, Prompt: true}
	}
	return slideLength(tokens, limit), nil
}

// ContextFullError reports how many tokens a sequence would have, and its limit. It wraps
// [ErrContextFull].
type ContextFullError struct {
	Tokens int // of the whole sequence, with those that were to be added
	Limit  int // of the session
	// Prompt: tokens were to be added. Otherwise a saved session was to be opened.
	Prompt bool
	// AtLeast: not all tokens were counted; the sequence would have Tokens or more.
	AtLeast bool
}

// Error states both numbers.
func (e *ContextFullError) Error() string {
	least, prompt := "", ""
	if e.AtLeast {
		least = "at least "
	}
	if e.Prompt {
		prompt = " with the prompt"
	}
	return fmt.Sprintf("%v: the sequence has %s%d tokens%s; the limit is %d", ErrContextFull, least, e.Tokens, prompt, e.Limit)
}

// Unwrap makes errors.Is(err, ErrContextFull) true.
func (e *ContextFullError) Unwrap() error { return ErrContextFull }

// slide drops old tokens if the sequence is too long, and reports whether it did.
func (g *generation) slide() bool {
	rest, dropped := slideTokens(g.ids, g.session.seq.Limit())
	if dropped == 0 {
		return false
	}
	g.ids = rest
	g.stats.Slides++
	g.stats.ForgottenTokens += dropped
	if g.options.OnSlide != nil {
		g.options.OnSlide(len(rest), dropped)
	}
	return true
}

// tokensToPrefill returns the tokens to process for the next logits: the last one, or after a
// slide all of them, because the keys and values of the longer sequence do not apply.
func (g *generation) tokensToPrefill() []int32 {
	if !g.slide() {
		return g.ids[len(g.ids)-1:]
	}
	g.session.seq.Truncate(0)
	g.session.setTokens(g.ids)
	return g.ids
}
