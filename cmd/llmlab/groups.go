package main

import (
	"context"

	"github.com/llmrun/llmrun/internal/cli"
	"github.com/llmrun/llmrun/internal/modelflag"
	"github.com/llmrun/llmrun/lab/measure"
)

func groupsCommand() *cli.Command {
	return &cli.Command{
		Name:     "groups",
		Synopsis: "MODEL OUT [--rows N] [flags]",
		Summary:  "round a model to 4 bits with groups along rows or tiles",
		About: `Writes a copy of a safetensors model to the directory OUT, with the matrices of its layers rounded to 4 bits: 32 weights that share a scale are of one row, as in Q4_0, or of several. llmrun perplexity -m OUT tells what that costs.

Prints the relative error of the weights.`,
		Examples: []cli.Example{
			{Line: "llmlab groups model out", Purpose: "groups along rows"},
			{Line: "llmlab groups model out --rows 16", Purpose: "groups of 16 rows and 2 columns, along a tile"},
			{Line: "llmlab groups model out --rows 32 --json", Purpose: "for programs"},
		},
		Prepare: func(f *cli.FlagSet) cli.Action {
			b := &groupsFlags{o: measure.GroupsOptions{Rows: 1}}
			f.Group("Rounding")
			f.Count(&b.o.Rows, "rows", "N", "rows of a group: 1, 2, 4, 8, 16 or 32; default: 1", 1, 32)
			f.Group("Output")
			f.Toggle(&b.json, "json", "print one JSON object instead of the line")
			return b.run
		},
	}
}

// groupsFlags are the flags of groups.
type groupsFlags struct {
	json bool
	o    measure.GroupsOptions
}

func (b *groupsFlags) run(ctx context.Context, s *cli.Streams, args []string) error {
	if len(args) != 2 {
		return cli.Usagef("name the directory of a safetensors model, and one for its copy")
	}
	b.o.Path, b.o.Out = args[0], args[1]
	if 32%b.o.Rows != 0 {
		return cli.Usagef("--rows must divide 32")
	}
	report, err := cli.Measure(ctx, s, modelflag.FormatRuns, &b.o.Running, func(ctx context.Context) (*measure.GroupsReport, error) {
		return measure.WriteGroups(ctx, b.o)
	})
	if err != nil {
		return err
	}
	return cli.Present(s, b.json, report, report.WriteTable)
}
