package llmrun

import (
	"fmt"
	"slices"
)

// What a generation does when its text reaches Session.Limit, as
// GenerateOptions.Overflow says it.
const (
	// OverflowStop ends the generation with StopContext, and refuses a prompt that is
	// longer than the limit with ErrContextFull. It is the default.
	OverflowStop = "stop"
	// OverflowSlide forgets old text and goes on. What stays is the beginning, on
	// which models lean whatever the text is about, and at least the newest half of
	// the limit. It is read again from the start, which takes as long as a prompt of
	// that length: the tokens that follow are those of a session that was given the
	// text that stays and nothing else.
	OverflowSlide = "slide"
)

// slidePrefix is how many tokens of the beginning stay, where the limit is not too
// small for that.
const slidePrefix = 64

// checkOverflow refuses what is not one of the names.
func checkOverflow(name string) error {
	if !slices.Contains([]string{"", OverflowStop, OverflowSlide}, name) {
		return fmt.Errorf("%w: Overflow is %q; it must be %s or %s", ErrOptions, name, OverflowStop, OverflowSlide)
	}
	return nil
}

// slideSizes returns how many tokens of the beginning stay of a text that is longer
// than limit, and how many behind them are forgotten at a time: so many that of
// limit+1 tokens the newest half of the limit stays.
func slideSizes(limit int) (begin, step int) {
	begin = min(slidePrefix, limit/4)
	return begin, limit + 1 - begin - max(1, limit/2)
}

// slideTokens returns what stays of a text, as a text of its own, and how many tokens do
// not. What is forgotten are whole steps: so a conversation that is read again from
// its messages, at each turn as a whole, loses the same tokens for many turns.
func slideTokens(ids []int32, limit int) (kept []int32, forgotten int) {
	over := len(ids) - limit
	if over <= 0 {
		return ids, 0
	}
	begin, step := slideSizes(limit)
	forgotten = (over + step - 1) / step * step
	return slices.Concat(ids[:begin], ids[begin+forgotten:]), forgotten
}

// fitPrompt makes the prompt one that the session can read.
func (g *generation) fitPrompt() error {
	if limit := g.session.seq.Limit(); len(g.ids) > limit && g.options.Overflow != OverflowSlide {
		return fmt.Errorf("%w: the text has %d tokens with the prompt, and at most %d are read", ErrContextFull, len(g.ids), limit)
	}
	g.slide()
	return nil
}

// slide forgets old text if there is too much. It reports whether it did.
func (g *generation) slide() bool {
	kept, forgotten := slideTokens(g.ids, g.session.seq.Limit())
	if forgotten == 0 {
		return false
	}
	g.ids = kept
	g.stats.Slides++
	g.stats.ForgottenTokens += forgotten
	if g.options.OnSlide != nil {
		g.options.OnSlide(len(kept), forgotten)
	}
	return true
}

// tokensToPrefill returns the tokens that have to be read for the next one: the last, or
// after a slide all. Then nothing that was remembered of the longer text is used.
func (g *generation) tokensToPrefill() []int32 {
	if !g.slide() {
		return g.ids[len(g.ids)-1:]
	}
	g.session.seq.Truncate(0)
	g.session.setTokens(g.ids)
	return g.ids
}
