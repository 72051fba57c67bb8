package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/cli"
)

// addOverflow declares --overflow, for commands that generate.
func (g *generationFlags) addOverflow(f *cli.FlagSet) {
	f.Value("overflow", "HOW", "what happens when the context is full: stop ends the answer; slide drops old tokens and continues. Slide keeps the first 64 tokens and at least the newest half of the context and prefills them again, which takes as long as a prompt of that length. Slide drops no tokens of a conversation's first prompt before it is read, unless --allow-truncate is given; default: stop", func(text string) error {
		how := llmrun.Overflow(text)
		if how != llmrun.OverflowStop && how != llmrun.OverflowSlide {
			return fmt.Errorf("must be stop or slide, not %q", text)
		}
		g.overflow = how
		return nil
	})
	f.Toggle(&g.truncate, "allow-truncate", "with --overflow slide: also drop the oldest tokens of a conversation's first prompt if it is longer than the context, instead of refusing it")
}

// checkOverflow refuses --allow-truncate where nothing is dropped.
func (g *generationFlags) checkOverflow() error {
	if g.truncate && g.overflow != llmrun.OverflowSlide {
		return cli.Usagef("--allow-truncate needs --overflow slide")
	}
	return nil
}

// promptOverflow returns what happens to a prompt that is longer than the context: the first one of a conversation is
// not cut unless the user allows it, because the answer would be about half of a document.
func (g *generationFlags) promptOverflow(first bool) llmrun.Overflow {
	if first && !g.truncate {
		return llmrun.OverflowStop
	}
	return g.overflow
}

// isFirst reports whether a prompt begins a conversation.
func isFirst(session *llmrun.Session, said []llmrun.Message) bool {
	answered := slices.ContainsFunc(said, func(m llmrun.Message) bool { return m.Role == "assistant" })
	return session.Len() == 0 && !answered
}

// noteSlides reports each slide on standard error.
func noteSlides(s *cli.Streams, options *llmrun.GenerateOptions) {
	options.OnSlide = func(remaining, forgotten int) {
		s.Note(slidText(remaining, forgotten))
	}
}

// slidText describes a slide, for a generation and for a plan.
func slidText(remaining, forgotten int) string {
	return fmt.Sprintf("the context is full: %d old tokens were dropped, and the other %d are prefilled again", forgotten, remaining)
}

// contextFullMessage says how long the full context is, what limits it, and what to do. err is
// the error of a prompt that is too long, if there is one, and whole tells that it is the first one of a conversation.
func (m *modelFlags) contextFullMessage(engine *llmrun.Engine, session *llmrun.Session, whole bool, err error) string {
	limit, most, why := session.Limit(), engine.Info().MaxContext, "and there is no memory for more"
	var long *llmrun.ContextFullError
	switch {
	case errors.As(err, &long) && limit < most && long.Tokens > most:
		why = fmt.Sprintf("and the model supports at most %d", most)
	case limit == most:
		why = "the most that the model supports"
	case limit == m.context:
		why = "the limit of --ctx"
	case m.context == 0 && engine.Placement() == nil:
		why = "because most of the memory goes to the weights; a larger --ctx changes that"
		if !m.savesKV() {
			why += ", and --cache-dir moves older keys and values to flash"
		}
	}
	drop := "--overflow slide drops the oldest tokens and continues"
	if whole && long != nil {
		drop = "--overflow slide --allow-truncate drops the oldest tokens of the prompt"
	}
	return fmt.Sprintf("the context holds %d tokens, %s; %s, and llmrun summarize reads documents of any length", limit, why, drop)
}

// isFull reports whether a generation ended, or could not start, because the context is full.
func isFull(err error, session *llmrun.Session) bool {
	return errors.Is(err, llmrun.ErrContextFull) || err == nil && session.Stats().StopReason == llmrun.StopContext
}
