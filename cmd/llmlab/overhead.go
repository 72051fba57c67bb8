package main

import (
	"context"

	"github.com/llmrun/llmrun/internal/cli"
	"github.com/llmrun/llmrun/internal/modelflag"
	"github.com/llmrun/llmrun/lab/measure"
)

func overheadCommand() *cli.Command {
	return &cli.Command{
		Name:     "overhead",
		Synopsis: "PACK… [--rounds N] [flags]",
		Summary:  "time what a budget that holds everything costs, and an embedding on flash",
		About: `Compares in turns, in one model: how fast it decodes under a budget of memory in which all of its weights fit, with how fast it does without a limit; and how long a random token takes, whose row of the embedding is read from flash, with one whose row is in memory. The budget is changed while the model is open, so that its weights lie at the same place in memory: another place makes a small model faster or slower by several percent.

Prints a table in Markdown.`,
		Examples: []cli.Example{
			{Line: "llmlab overhead model.pack", Purpose: "one model"},
			{Line: "llmlab overhead small.pack large.pack --rounds 20", Purpose: "two models, with more pairs"},
			{Line: "llmlab overhead model.pack --json", Purpose: "for programs"},
		},
		Prepare: func(f *cli.FlagSet) cli.Action {
			b := &overheadFlags{o: measure.OverheadOptions{Rounds: 9, Decode: 8}}
			f.Group("What to time")
			f.Count(&b.o.Rounds, "rounds", "N", "pairs of generations; without it, 9", 1, 1<<16)
			f.Count(&b.o.Decode, "tg", "N", "tokens of a generation; without it, 8", 1, 256)
			f.Count(&b.o.Threads, "threads", "N", "threads to compute with; without it, one for each fast core", 1, 1024)
			f.Group("Output")
			f.Toggle(&b.json, "json", "print one JSON object instead of the table")
			return b.run
		},
	}
}

// overheadFlags are the flags of overhead.
type overheadFlags struct {
	json bool
	o    measure.OverheadOptions
}

func (b *overheadFlags) run(ctx context.Context, s *cli.Streams, args []string) error {
	if len(args) == 0 {
		return cli.Usagef("name at least one pack")
	}
	b.o.Paths = args
	report, err := cli.Measure(ctx, s, modelflag.FormatRuns, &b.o.Running, func(ctx context.Context) (*measure.OverheadReport, error) {
		return measure.Overheads(ctx, b.o)
	})
	if err != nil {
		return err
	}
	return cli.Present(s, b.json, report, report.WriteTable)
}
