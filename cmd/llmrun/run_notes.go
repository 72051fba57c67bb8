package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/cli"
	"github.com/llmrun/llmrun/notes"
)

const (
	// answerRoom is how many tokens of the context passages of notes leave to an answer without -n.
	answerRoom = 512
	// leastBytes is how many bytes a token of a passage has at least, before the model's tokenizer can count.
	leastBytes = 2
)

// askNotes puts passages of the notes before a prompt. The index, the encoder and the reranker are closed before the model
// is opened.
func (r *runFlags) askNotes(ctx context.Context, s *cli.Streams, text string) (string, error) {
	if r.notes == "" {
		return text, nil
	}
	if err := cli.CheckExists("--notes", r.notes); err != nil {
		return "", err
	}
	r.vault.threads = r.model.threads
	v, err := r.vault.open(ctx, s, r.notes)
	if err != nil {
		return "", err
	}
	defer v.Close()
	if err := refreshVault(ctx, s, v.Vault); err != nil {
		return "", err
	}
	hits, err := r.vault.search(ctx, s, v, text, notes.AskOptions{}.Search())
	if err != nil {
		return "", err
	}
	r.question = &notes.Question{Text: text, Passages: hits}
	if len(r.question.Passages) == 0 {
		s.Note("no note has a word of the prompt: the model answers without notes")
	}
	if r.model.context > 0 { // before the plan, which refuses a longer prompt
		room := r.model.context - r.answerRoom()
		err = r.question.Fit(room, func(text string) (int, error) { return len(text) / leastBytes, nil })
	}
	return r.question.Prompt(), err
}

// answerRoom returns how many tokens passages leave to the answer.
func (r *runFlags) answerRoom() int { return cmp.Or(max(0, r.generation.maxTokens), answerRoom) }

// fitNotes leaves out passages for which the context has no room.
func (r *runFlags) fitNotes(engine *llmrun.Engine, session *llmrun.Session, text string) (string, error) {
	if r.question == nil {
		return text, nil
	}
	err := r.question.FitSession(engine, session, r.answerRoom())
	return r.question.Prompt(), err
}

// sources returns the files from which an answer comes.
func (r *runFlags) sources(answer string) []string {
	if r.question == nil || answer == "" {
		return nil
	}
	return r.question.Sources(answer)
}

// printSources names the files from which an answer comes.
func (r *runFlags) printSources(s *cli.Streams, answer string) {
	files := r.sources(answer)
	if len(files) == 0 || r.json {
		return
	}
	for i := range files {
		files[i] = cli.VisibleLine(files[i])
	}
	fmt.Fprintf(s.Out, "\nSources: %s\n", strings.Join(files, ", "))
}
