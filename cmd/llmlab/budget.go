package main

import (
	"context"
	"math"
	"strconv"
	"strings"

	"github.com/llmrun/llmrun/internal/cli"
	"github.com/llmrun/llmrun/internal/modelflag"
	"github.com/llmrun/llmrun/lab/measure"
)

func budgetCommand() *cli.Command {
	return &cli.Command{
		Name:     "budget",
		Synopsis: "PACK… [--fractions LIST] [--ctx LIST] [flags]",
		Summary:  "time models under memory budgets, and check the predictions",
		About: `Runs each pack without a limit, and then under budgets that are fractions of its tensors' bytes. It compares the decoding speed with the prediction of the plan and with the upper bound that flash sets. The speed of flash is measured with the same reads before and after each run; if it changed, the run is repeated, up to twice. --disk fixes the speed of flash. All runs must generate the same tokens.

Prints a table in Markdown; --svg also draws it.`,
		Examples: []cli.Example{
			{Line: "llmlab budget model.pack", Purpose: "one model under five budgets"},
			{Line: "llmlab budget small.pack large.pack --fractions 15,25,50,75,120 --ctx 512,4096", Purpose: "two models, at two contexts"},
			{Line: "llmlab budget model.pack --svg budget.svg > budget.md", Purpose: "a table and a picture"},
		},
		Prepare: func(f *cli.FlagSet) cli.Action {
			b := &budgetFlags{percents: "15,25,50,75,120"}
			b.o.Contexts, b.o.Prompt, b.o.Decode = []int{2048}, 64, 8
			f.Group("Configurations")
			f.Text(&b.percents, "fractions", "LIST", "budgets, in percent of the bytes of each model's tensors (not of the available memory, as --ram of run and plan); default: 15,25,50,75,120")
			f.Counts(&b.o.Contexts, "ctx", "tokens of context; default: 2048", 1, math.MaxInt32)
			f.Count(&b.o.Prompt, "prompt", "N", "tokens of the prompt; default: 64", 1, 1<<20)
			f.Count(&b.o.Decode, "tg", "N", "tokens to generate after the first one; default: 8", 1, 1<<20)
			f.Count(&b.o.Threads, "threads", "N", "number of threads; default: one for each fast core", 1, 1024)
			addDisk(f, &b.o.Disk)
			f.Group("Output")
			f.Toggle(&b.json, "json", "print one JSON object instead of the table")
			f.Text(&b.svg, "svg", "FILE", "draw the speeds into this file")
			return b.run
		},
	}
}

// budgetFlags are the flags of budget.
type budgetFlags struct {
	percents string
	json     bool
	svg      string
	o        measure.BudgetOptions
}

func (b *budgetFlags) run(ctx context.Context, s *cli.Streams, args []string) error {
	if len(args) == 0 {
		return cli.Usagef("name at least one pack")
	}
	b.o.Paths = args
	for field := range strings.SplitSeq(b.percents, ",") {
		percent, err := strconv.ParseFloat(strings.TrimSpace(field), 64)
		if err != nil || !(percent > 0 && percent <= 1000) {
			return cli.Usagef("--fractions: must be percentages such as 15,25,50, not %q", field)
		}
		b.o.Fractions = append(b.o.Fractions, percent/100)
	}
	report, err := cli.Measure(ctx, s, modelflag.FormatRuns, &b.o.Running, func(ctx context.Context) (*measure.BudgetReport, error) {
		return measure.Budgets(ctx, b.o)
	})
	if err != nil {
		return err
	}
	return cli.Present(s, b.json, report, report.WriteTable, cli.Drawing{File: b.svg, Write: report.WritePlot})
}
