package main

import (
	"fmt"
	"strings"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/cli"
)

// promptProgress shows how much of the prompt is computed, and remembers it.
type promptProgress struct {
	bar         *cli.Meter
	done, total int
}

func newPromptProgress(s *cli.Streams, options *llmrun.GenerateOptions) *promptProgress {
	p := &promptProgress{bar: cli.NewMeter(s, "reading the prompt", cli.FormatTokens)}
	options.OnPrefill = func(done, total int) {
		p.done, p.total = done, total
		p.bar.Update(int64(done), int64(total))
	}
	return p
}

// finish removes the bar.
func (p *promptProgress) finish() { p.bar.Finish() }

// keptText returns what a session keeps of the message of an interrupted prompt: what is before the question of -p,
// which are a file and earlier messages without an answer, so that another question can take its place. "" is the
// whole message.
func (r *runFlags) keptText(messages []llmrun.Message, text string) string {
	joined := llmrun.AddUserMessage(messages, text)
	whole := joined[len(joined)-1].Content
	if r.prompt.document > 0 {
		return strings.TrimSuffix(whole, text[r.prompt.document:])
	}
	return strings.TrimSuffix(strings.TrimSuffix(whole, text), "\n\n")
}

// noteInterrupted says how far an interrupted prompt got, and how to go on.
func (r *runFlags) noteInterrupted(s *cli.Streams, p *promptProgress, stats llmrun.Stats, unsaved error) {
	if stats.PromptTokens == 0 { // interrupted before its tokens were known
		return
	}
	text := fmt.Sprintf("%d of %d tokens of the prompt are computed", max(p.done, stats.ReusedTokens), stats.PromptTokens)
	switch name := r.model.session; {
	case unsaved != nil:
	case name != "":
		text += fmt.Sprintf("; session %[1]s keeps the prompt: llmrun run --session %[1]s -p TEXT adds TEXT to it and goes on, llmrun sessions rm %[1]s deletes it", name)
	case stats.SavedBytes > 0:
		text += "; the same command goes on from there"
	}
	s.Note(text)
}
