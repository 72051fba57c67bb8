package main

import (
	"context"
	"math"

	"github.com/llmrun/llmrun/internal/cli"
	"github.com/llmrun/llmrun/internal/modelflag"
	"github.com/llmrun/llmrun/lab/measure"
)

func devicesCommand() *cli.Command {
	return &cli.Command{
		Name:     "devices",
		Synopsis: "[--slow LIST] [--rows N] [--cols N] [--tokens LIST] [flags]",
		Summary:  "time matmuls split between groups of cores, and ways to wait for devices",
		About: `Splits one matmul between two groups of this machine's cores, where the second group is slowed down like the small cores of a phone: into halves, and as the solver splits it from measurements. For equal groups, of which one is slowed down by s, the solver's split should be (s+1)/2 times faster.

Then it times two ways to wait for the end of a matmul on every device: the driver's wait, and a sleep until shortly before the predicted end, followed by polling.

Measurements that are compared take turns. Prints tables in Markdown.`,
		Examples: []cli.Example{
			{Line: "llmlab devices", Purpose: "both, with 1 and with 128 tokens"},
			{Line: "llmlab devices --slow 4 --tokens 1 -r 5", Purpose: "quickly"},
			{Line: "llmlab devices --json", Purpose: "for programs"},
		},
		Prepare: func(f *cli.FlagSet) cli.Action {
			b := &devicesFlags{o: measure.DevicesOptions{Slow: []int{1, 2, 4}, Rows: 8960, Cols: 1536, Tokens: []int{1, 128}, Repeats: 15}}
			f.Group("What to time")
			f.Counts(&b.o.Slow, "slow", "factors by which the second group is slowed down; default: 1,2,4", 1, 64)
			f.Count(&b.o.Rows, "rows", "N", "rows of the weights; default: 8960", 512, 1<<18)
			f.Count(&b.o.Cols, "cols", "N", "columns of the weights, a multiple of 32; default: 1536", 32, 1<<16)
			f.Counts(&b.o.Tokens, "tokens", "numbers of tokens in a matmul; default: 1,128", 1, 4096)
			f.Count(&b.o.Repeats, "r repeats", "N", "chains of matmuls of each kind; default: 15", 1, math.MaxInt16)
			f.Group("Output")
			f.Toggle(&b.json, "json", "print one JSON object instead of the tables")
			return b.run
		},
	}
}

// devicesFlags are the flags of devices.
type devicesFlags struct {
	json bool
	o    measure.DevicesOptions
}

func (b *devicesFlags) run(ctx context.Context, s *cli.Streams, args []string) error {
	if err := cli.NoArguments(args); err != nil {
		return err
	}
	if b.o.Cols%32 != 0 {
		return cli.Usagef("--cols: must be a multiple of 32, not %d", b.o.Cols)
	}
	report, err := cli.Measure(ctx, s, modelflag.FormatRuns, &b.o.Running, func(ctx context.Context) (*measure.DevicesReport, error) {
		return measure.BenchDevices(ctx, b.o)
	})
	if err != nil {
		return err
	}
	return cli.Present(s, b.json, report, report.WriteTables)
}
