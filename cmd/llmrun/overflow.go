package main

import (
	"errors"
	"fmt"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/cli"
)

// addOverflow declares --overflow, for commands that generate.
func (g *generationFlags) addOverflow(f *cli.FlagSet) {
	f.Value("overflow", "HOW", "when the context is full: stop, or slide, which forgets old text and goes on. The first 64 tokens and at least the newest half of the context stay and are read again, which takes as long as a prompt of that length; without it, stop", func(text string) error {
		if text != llmrun.OverflowStop && text != llmrun.OverflowSlide {
			return fmt.Errorf("must be stop or slide, not %q", text)
		}
		g.overflow = text
		return nil
	})
}

// noteSlides tells the person who watches when old text is forgotten.
func noteSlides(s *cli.Streams, options *llmrun.GenerateOptions) {
	options.OnSlide = func(kept, forgotten int) {
		s.Note(fmt.Sprintf("the context is full: %d tokens of old text are forgotten, the other %d are read again", forgotten, kept))
	}
}

// contextFullMessage says what a context is that is full, and what would help.
func (m *modelFlags) contextFullMessage(engine *llmrun.Engine, session *llmrun.Session) string {
	limit, why := session.Limit(), "for more there is no memory"
	switch {
	case limit == engine.Info().MaxContext:
		why = "the model was made for no more"
	case limit == m.context:
		why = "as --ctx says"
	case m.context == 0 && engine.Placement() == nil:
		why = "which leaves most of the memory to the weights; --ctx asks for more"
		if !m.savesKV() {
			why += ", and with --cache-dir older text goes to flash"
		}
	}
	return fmt.Sprintf("the context holds %d tokens, %s; --overflow slide goes on and forgets the oldest text", limit, why)
}

// isFull reports whether a generation ended, or did not begin, because the context
// is full.
func isFull(err error, session *llmrun.Session) bool {
	return errors.Is(err, llmrun.ErrContextFull) || err == nil && session.Stats().StopReason == llmrun.StopContext
}
