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
		Summary:  "measure the cost of a budget that holds everything, and of an embedding on flash",
		About: `Makes two comparisons, in turns: decoding under a memory budget in which all weights fit, with decoding without a limit; and random tokens, whose embedding rows come from flash, with a token whose row is in memory. The budget changes while the model is open, so that its weights stay at the same address: another address makes a small model several percent faster or slower.

Prints a table in Markdown.`,
		Examples: []cli.Example{
			{Line: "llmlab overhead model.pack", Purpose: "one model"},
			{Line: "llmlab overhead small.pack large.pack --rounds 20", Purpose: "two models, with more pairs"},
			{Line: "llmlab overhead model.pack --flash mmap --disk 1GB/s", Purpose: "embedding rows in mapped windows, at the flash speed of a phone"},
			{Line: "llmlab overhead model.pack --json", Purpose: "for programs"},
		},
		Prepare: func(f *cli.FlagSet) cli.Action {
			b := &overheadFlags{o: measure.OverheadOptions{Rounds: 9, Decode: 8}}
			f.Group("What to time")
			f.Count(&b.o.Rounds, "rounds", "N", "pairs of generations; default: 9", 1, 1<<16)
			f.Count(&b.o.Decode, "tg", "N", "tokens per generation; default: 8", 1, 256)
			f.Count(&b.o.Threads, "threads", "N", "number of threads; default: one for each fast core", 1, 1024)
			addDisk(f, &b.o.Disk)
			addFlash(f, &b.o.Flash)
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
