package main

import (
	"context"
	"math"

	"github.com/llmrun/llmrun/cmd/llmrun/measure"
)

func benchDevicesCommand() *command {
	return &command{
		name:     "bench devices",
		synopsis: "[--slow LIST] [--rows N] [--cols N] [--tokens LIST] [flags]",
		summary:  "time products divided between groups of cores, and ways to wait for devices",
		about: `Divides one matrix product between two groups of this machine's cores, the second made slower as the small cores of a phone are: into halves, and as the solver divides it from what it measured. Equal groups of which one is s times slower should gain (s+1)/2.

Then times, on every device that there is, what it costs to wait for the end of a product: by the driver's means, and by sleeping until shortly before the predicted end and looking from then on.

Everything that is compared is measured in turns. Prints tables in Markdown.`,
		examples: []example{
			{"llmrun bench devices", "both, with one token and with 128"},
			{"llmrun bench devices --slow 4 --tokens 1 -r 5", "quickly"},
			{"llmrun bench devices --json", "for programs"},
		},
		prepare: func(f *flagSet) action {
			b := &benchDevicesFlags{o: measure.DevicesOptions{Slow: []int{1, 2, 4}, Rows: 8960, Cols: 1536, Tokens: []int{1, 128}, Repeats: 15}}
			f.group("What to time")
			f.counts(&b.o.Slow, "slow", "how many times slower the second group is made; without it, 1,2,4", 1, 64)
			f.count(&b.o.Rows, "rows", "N", "rows of the weights; without it, 8960", 512, 1<<18)
			f.count(&b.o.Cols, "cols", "N", "columns of the weights, a multiple of 32; without it, 1536", 32, 1<<16)
			f.counts(&b.o.Tokens, "tokens", "tokens that are multiplied together; without it, 1,128", 1, 4096)
			f.count(&b.o.Repeats, "r repeats", "N", "chains of products of each kind; without it, 15", 1, math.MaxInt16)
			f.group("Output")
			f.toggle(&b.json, "json", "print one JSON object instead of the tables")
			return b.run
		},
	}
}

// benchDevicesFlags are the flags of bench devices.
type benchDevicesFlags struct {
	json bool
	o    measure.DevicesOptions
}

func (b *benchDevicesFlags) run(ctx context.Context, s *streams, args []string) error {
	if err := noArguments(args); err != nil {
		return err
	}
	if b.o.Cols%32 != 0 {
		return usagef("--cols: must be a multiple of 32, not %d", b.o.Cols)
	}
	report, err := measured(ctx, s, formatRuns, &b.o.Running, func(ctx context.Context) (*measure.DevicesReport, error) {
		return measure.BenchDevices(ctx, b.o)
	})
	if err != nil {
		return err
	}
	return present(s, b.json, report, report.WriteTables)
}
