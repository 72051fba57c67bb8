package main

import (
	"fmt"
	"strings"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/cli"
)

// thinkingFlags choose how much a model thinks, and whether that is shown.
type thinkingFlags struct {
	level  string // "": as the chat template has it
	preset bool   // level comes from the settings, which are for all models, also for those without a switch
	show   bool
}

func (t *thinkingFlags) add(f *cli.FlagSet) {
	f.Group("Thinking")
	f.Choice(&t.level, "think", "HOW", "whether the model thinks before it answers: on or off, or how much: low, medium or high; for models whose chat template has a switch; default: as the template has it",
		llmrun.ThinkOn, llmrun.ThinkOff, llmrun.ThinkLow, llmrun.ThinkMedium, llmrun.ThinkHigh)
	f.Setting("think").Unless("raw", "ids").Reports(&t.preset)
	f.Toggle(&t.show, "show-thinking", "print what the model thinks also where it is not a terminal that shows it dimmed; --json always has it")
	f.Setting("show-thinking")
}

// of returns the level for a model. It refuses one that the model does not have, unless it comes from the settings.
func (t *thinkingFlags) of(engine *llmrun.Engine) (string, error) {
	if t.level == "" || engine.HasThinkingLevel(t.level) {
		return t.level, nil
	}
	if t.preset {
		return "", nil
	}
	if levels := engine.ThinkingLevels(); len(levels) > 0 {
		return "", cli.Usagef("--think %s: this model can only be told %s", t.level, cli.Either(levels))
	}
	return "", cli.Usagef("--think %s: the chat template of this model has no switch for thinking", t.level)
}

// answerPrinter prints an answer as it is generated, and what the model thinks before it.
type answerPrinter struct {
	streams  *cli.Streams
	show     bool // thoughts
	thinking bool // the last text was a thought
}

func (t *thinkingFlags) printer(s *cli.Streams) *answerPrinter {
	return &answerPrinter{streams: s, show: t.show || s.Out.Terminal && !s.Quiet}
}

// These sequences of terminals begin and end dimmed text.
const (
	dimmed    = "\x1b[2m"
	notDimmed = "\x1b[0m"
)

// dims reports whether thoughts are dimmed.
func (p *answerPrinter) dims() bool { return p.streams.Out.Terminal && !cli.NoColor() }

// print prints a piece.
func (p *answerPrinter) print(piece *llmrun.Piece) {
	text := piece.Text
	switch {
	case piece.Kind == llmrun.KindAnswer:
		p.endThinking()
	case piece.Kind != llmrun.KindThinking || !p.show:
		return
	case !p.thinking:
		if text = strings.TrimLeft(text, "\n"); text == "" {
			return
		}
		p.thinking = true
		if p.dims() {
			fmt.Fprint(p.streams.Out, dimmed)
		}
	}
	p.streams.Out.ModelText(text)
}

// endThinking sets thoughts apart from what follows them.
func (p *answerPrinter) endThinking() {
	if !p.thinking {
		return
	}
	p.thinking = false
	p.streams.Out.EndLine()
	if p.dims() {
		fmt.Fprint(p.streams.Out, notDimmed)
	}
	fmt.Fprintln(p.streams.Out)
}
