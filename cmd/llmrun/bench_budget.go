package main

import (
	"context"
	"math"
	"strconv"
	"strings"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/cmd/llmrun/measure"
)

func benchBudgetCommand() *command {
	return &command{
		name:     "bench budget",
		synopsis: "PACK… [--shares LIST] [--ctx LIST] [flags]",
		summary:  "time models under budgets of memory, against what was predicted",
		about: `Runs each pack without a limit and then under budgets that are shares of its tensors' bytes: how fast it decodes, how fast the plan said that it would, and how near that is to the bound that flash sets, which is measured with the same reads just before each run. It is measured after the run as well: if it has changed, the run counts for little and is repeated, up to twice. --disk sets a speed at which flash stays. The tokens have to be the same everywhere.

Prints a table in Markdown; --svg draws it as well.`,
		examples: []example{
			{"llmrun bench budget model.pack", "one model under five budgets"},
			{"llmrun bench budget small.pack large.pack --shares 15,25,50,75,120 --ctx 512,4096", "two models, at two contexts"},
			{"llmrun bench budget model.pack --svg budget.svg > budget.md", "a table and a picture"},
		},
		prepare: func(f *flagSet) action {
			b := &benchBudgetFlags{shares: "15,25,50,75,120"}
			b.o.Contexts, b.o.Prompt, b.o.Decode = []int{2048}, 64, 8
			f.group("Configurations")
			f.text(&b.shares, "shares", "LIST", "budgets, in percent of the bytes of each model's tensors (not of the memory that is available, as --ram of run and plan); without it, 15,25,50,75,120")
			f.counts(&b.o.Contexts, "ctx", "tokens that there is room for; without it, 2048", 1, math.MaxInt32)
			f.count(&b.o.Prompt, "prompt", "N", "tokens of the prompt; without it, 64", 1, 1<<20)
			f.count(&b.o.Decode, "tg", "N", "tokens to generate after the first; without it, 8", 1, 1<<20)
			f.count(&b.o.Threads, "threads", "N", "threads to compute with; without it, one for each fast core", 1, 1024)
			f.value("disk", "SPEED", "read packs as slowly as from another disk, such as 1GB/s, or 800MB/s,100us with a wait for each read", func(text string) (err error) {
				b.o.Disk, err = llmrun.ParseDiskSpeed(text)
				return err
			})
			f.group("Output")
			f.toggle(&b.json, "json", "print one JSON object instead of the table")
			f.text(&b.svg, "svg", "FILE", "draw the speeds as well")
			return b.run
		},
	}
}

// benchBudgetFlags are the flags of bench budget.
type benchBudgetFlags struct {
	shares string
	json   bool
	svg    string
	o      measure.BudgetOptions
}

func (b *benchBudgetFlags) run(ctx context.Context, s *streams, args []string) error {
	if len(args) == 0 {
		return usagef("name at least one pack")
	}
	b.o.Paths = args
	for field := range strings.SplitSeq(b.shares, ",") {
		share, err := strconv.ParseFloat(strings.TrimSpace(field), 64)
		if err != nil || !(share > 0 && share <= 1000) {
			return usagef("--shares: %q is no percentage", field)
		}
		b.o.Shares = append(b.o.Shares, share/100)
	}
	report, err := measured(ctx, s, formatRuns, &b.o.Running, func(ctx context.Context) (*measure.BudgetReport, error) {
		return measure.Budgets(ctx, b.o)
	})
	if err != nil {
		return err
	}
	return present(s, b.json, report, report.WriteTable, drawing{b.svg, report.WritePlot})
}
