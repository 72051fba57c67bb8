package main

import (
	"context"

	"github.com/llmrun/llmrun/cmd/llmrun/measure"
)

func benchOverheadCommand() *command {
	return &command{
		name:     "bench overhead",
		synopsis: "PACK… [--rounds N] [flags]",
		summary:  "time what a budget that holds everything costs, and an embedding on flash",
		about: `Compares in turns, in one model: how fast it decodes under a budget of memory in which all of its weights fit, with how fast it does without a limit; and how long a random token takes, whose row of the embedding is read from flash, with one whose row is in memory. The budget is changed while the model is open, so that its weights lie at the same place in memory: another place makes a small model faster or slower by several percent.

Prints a table in Markdown.`,
		examples: []example{
			{"llmrun bench overhead model.pack", "one model"},
			{"llmrun bench overhead small.pack large.pack --rounds 20", "two models, with more pairs"},
			{"llmrun bench overhead model.pack --json", "for programs"},
		},
		prepare: func(f *flagSet) action {
			b := &benchOverheadFlags{o: measure.OverheadOptions{Rounds: 9, Decode: 8}}
			f.group("What to time")
			f.count(&b.o.Rounds, "rounds", "N", "pairs of generations; without it, 9", 1, 1<<16)
			f.count(&b.o.Decode, "tg", "N", "tokens of a generation; without it, 8", 1, 256)
			f.count(&b.o.Threads, "threads", "N", "threads to compute with; without it, one for each fast core", 1, 1024)
			f.group("Output")
			f.toggle(&b.json, "json", "print one JSON object instead of the table")
			return b.run
		},
	}
}

// benchOverheadFlags are the flags of bench overhead.
type benchOverheadFlags struct {
	json bool
	o    measure.OverheadOptions
}

func (b *benchOverheadFlags) run(ctx context.Context, s *streams, args []string) error {
	if len(args) == 0 {
		return usagef("name at least one pack")
	}
	b.o.Paths = args
	report, err := measured(ctx, s, formatRuns, &b.o.Running, func(ctx context.Context) (*measure.OverheadReport, error) {
		return measure.Overheads(ctx, b.o)
	})
	if err != nil {
		return err
	}
	return present(s, b.json, report, report.WriteTable)
}
