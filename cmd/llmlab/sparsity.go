package main

import (
	"context"
	"math"

	"github.com/llmrun/llmrun/internal/cli"
	"github.com/llmrun/llmrun/internal/modelflag"
	"github.com/llmrun/llmrun/lab/measure"
)

func sparsityCommand() *cli.Command {
	return &cli.Command{
		Name:     "sparsity",
		Synopsis: "-f FILE [-m MODEL] [flags]",
		Summary:  "measure how many columns of the MLPs a token needs",
		About: `Computes the perplexity of a text while each token uses only the columns of the MLPs whose activations are the largest, for several fractions of the columns. For each it counts which of the columns 8 and 16 tokens in a row use together. At the end it finds the fewest columns with which the perplexity grows by 1 per cent at most.

The activations are those of the whole computation, so the result is a bound for methods that predict them. Prints a table in Markdown.`,
		Examples: []cli.Example{
			{Line: "llmlab sparsity -f book.txt", Purpose: "the bundled model"},
			{Line: "llmlab sparsity -f book.txt --ctx 2048", Purpose: "longer windows"},
			{Line: "llmlab sparsity -m model.gguf -f book.txt --json", Purpose: "another model, for a script"},
		},
		Prepare: func(f *cli.FlagSet) cli.Action {
			b := &sparsityFlags{o: measure.SparsityOptions{Context: 512}}
			f.Group("Model")
			f.Text(&b.model, "m model", "PATH", modelUsage)
			f.Count(&b.o.Threads, "threads", "N", "number of threads; default: one for each fast core", 1, 1024)
			f.Group("Text")
			f.Text(&b.file, "f file", "FILE", "the text; - for standard input")
			f.Count(&b.o.Context, "ctx", "N", "tokens in a window; default: 512", 2, math.MaxInt32)
			f.Group("Output")
			f.Toggle(&b.json, "json", "print one JSON object instead of the table")
			return b.run
		},
	}
}

// sparsityFlags are the flags of sparsity.
type sparsityFlags struct {
	model, file string
	json        bool
	o           measure.SparsityOptions
}

func (b *sparsityFlags) run(ctx context.Context, s *cli.Streams, args []string) (err error) {
	if err := cli.NoArguments(args); err != nil {
		return err
	}
	if b.o.Text, b.o.Path, b.o.FS, err = textInputs(s, b.file, b.model); err != nil {
		return err
	}
	report, err := cli.Measure(ctx, s, modelflag.FormatRuns, &b.o.Running, func(ctx context.Context) (*measure.SparsityReport, error) {
		return measure.FindSparsity(ctx, b.o)
	})
	if err != nil {
		return err
	}
	return cli.Present(s, b.json, report, report.WriteTable)
}
