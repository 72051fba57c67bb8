package llmrun

import (
	"fmt"
	"slices"
)

// Values of GenerateOptions.Overflow. They select what happens when the session reaches
// Session.Limit.
const (
	// OverflowStop ends the generation with StopContext, and refuses a prompt that is longer
	// than the limit with ErrContextFull. It is the default.
	OverflowStop = "stop"
	// OverflowSlide drops old tokens and continues. It keeps the first tokens, which models
	// attend to regardless of the topic, and at least the newest half of the limit. The
	// engine re-prefills what it keeps, which takes as long as a prompt of that length. The
	// following tokens are those of a new session with the remaining tokens as its prompt.
	OverflowSlide = "slide"
)

// slidePrefix is the number of first tokens that a slide keeps, or a quarter of the limit if
// that is less.
const slidePrefix = 64

// checkOverflow returns an ErrOptions for an unknown value.
func checkOverflow(name string) error {
	if !slices.Contains([]string{"", OverflowStop, OverflowSlide}, name) {
		return fmt.Errorf("%w: Overflow is %q; it must be %s or %s", ErrOptions, name, OverflowStop, OverflowSlide)
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
	over := len(ids) - limit
	if over <= 0 {
		return ids, 0
	}
	begin, step := slideSizes(limit)
	dropped = (over + step - 1) / step * step
	return slices.Concat(ids[:begin], ids[begin+dropped:]), dropped
}

// fitPrompt returns ErrContextFull if the prompt is too long, or slides it.
func (g *generation) fitPrompt() error {
	if limit := g.session.seq.Limit(); len(g.ids) > limit && g.options.Overflow != OverflowSlide {
		return fmt.Errorf("%w: the sequence has %d tokens with the prompt; the limit is %d", ErrContextFull, len(g.ids), limit)
	}
	g.slide()
	return nil
}

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
