package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/llmrun/llmrun/internal/cli"
	"github.com/llmrun/llmrun/lab/measure"
)

func votesCommand() *cli.Command {
	return &cli.Command{
		Name:     "votes",
		Synopsis: "--notes DIR [-m MODEL] [flags]",
		Summary:  "compare the majority of several answers with one answer",
		About: `Asks questions about notes several times at one temperature, and counts how often one sample, the likeliest sample and the majority of the samples are right, word for word. The directory holds expected.json and the notes that it names, as the demo set in testdata/demo/notes.tar.bz2. Copies of the notes with further action items add more questions.

Prints a table in Markdown, with the gain of the majority and its 95 per cent interval over pairs.`,
		Examples: []cli.Example{
			{Line: "llmlab votes --notes notes", Purpose: "the bundled model, 8 samples at temperature 0.8"},
			{Line: "llmlab votes --notes notes --samples 16 --temp 1", Purpose: "other samples"},
			{Line: "llmlab votes --notes notes --json", Purpose: "for programs"},
		},
		Prepare: func(f *cli.FlagSet) cli.Action {
			b := &votesFlags{o: measure.VotesOptions{Samples: 8, Temperature: 0.8, Seed: 1, Actions: 4, Copies: 1}}
			f.Group("Model")
			f.Text(&b.model, "m model", "PATH", modelUsage)
			f.Count(&b.o.Threads, "threads", "N", "number of threads; default: one for each fast core", 1, 1024)
			f.Group("Questions")
			f.Text(&b.dir, "notes", "DIR", "the notes and their questions")
			f.Count(&b.o.Actions, "actions", "N", "action items that are added to a copy of each note, with two questions about each; default: 4", 0, 64)
			f.Count(&b.o.Copies, "copies", "N", "copies of each note, with other action items; default: 1", 1, 64)
			f.Count(&b.o.Samples, "samples", "N", "answers to each question; default: 8", 1, 256)
			f.OptionalNumber(&b.temperature, "temp", "temperature; default: 0.8", 0, 100)
			f.Group("Output")
			f.Toggle(&b.json, "json", "print one JSON object instead of the table")
			return b.run
		},
	}
}

// votesFlags are the flags of votes.
type votesFlags struct {
	model, dir  string
	temperature *float32 // nil: the default
	json        bool
	o           measure.VotesOptions
}

func (b *votesFlags) run(ctx context.Context, s *cli.Streams, args []string) (err error) {
	if err := cli.NoArguments(args); err != nil {
		return err
	}
	if b.dir == "" {
		return cli.Usagef("give --notes DIR")
	}
	if b.temperature != nil {
		b.o.Temperature = float64(*b.temperature)
	}
	if b.o.Notes, err = readVoteNotes(b.dir); err != nil {
		return err
	}
	if b.o.Path, b.o.FS, err = findModel(b.model); err != nil {
		return err
	}
	report, err := cli.Measure(ctx, s, func(n int64) string { return fmt.Sprintf("%d questions", n) }, &b.o.Running, func(ctx context.Context) (*measure.VotesReport, error) {
		return measure.AskVotes(ctx, b.o)
	})
	if err != nil {
		return err
	}
	return cli.Present(s, b.json, report, report.WriteTable)
}

// readVoteNotes reads expected.json and the notes that it names.
func readVoteNotes(dir string) (notes []measure.VoteNote, err error) {
	name := filepath.Join(dir, "expected.json")
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var expected struct {
		Notes []struct {
			File      string
			Summary   string `json:"expected_summary"`
			Questions []struct{ Question, Expected string }
		}
	}
	if err := json.Unmarshal(data, &expected); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for _, n := range expected.Notes {
		text, err := os.ReadFile(filepath.Join(dir, n.File))
		if err != nil {
			return nil, err
		}
		note := measure.VoteNote{Text: strings.TrimSuffix(string(text), "\n")}
		note.Questions = append(note.Questions, measure.VoteQuestion{Question: "Summarize the note.", Want: n.Summary})
		for _, q := range n.Questions {
			note.Questions = append(note.Questions, measure.VoteQuestion{Question: q.Question, Want: q.Expected})
		}
		notes = append(notes, note)
	}
	if len(notes) == 0 {
		return nil, errors.New(name + " names no notes")
	}
	return notes, nil
}
