package main

import (
	"context"
	"errors"
	"math"
	"os"

	"github.com/llmrun/llmrun/internal/cli"
	"github.com/llmrun/llmrun/internal/modelflag"
	"github.com/llmrun/llmrun/lab/measure"
)

func w8A8Command() *cli.Command {
	return &cli.Command{
		Name:     "w8a8",
		Synopsis: "-f FILE [-m DIRECTORY] [flags]",
		Summary:  "measure the perplexity of W8A8, with and without the outlier path",
		About: `Calibrates on the first half of a text, and computes the perplexity of the second half in float32 and with --w8a8: without the outlier path, with the path for some inputs, and for all. It does this for the model and for a copy with injected outliers, which compute the same function: some gains of norms are larger by a factor, and the matching columns of the matrices behind them smaller.

The model is a directory with safetensors and the tensor names of Llama; without -m, the bundled model. Prints a table in Markdown.`,
		Examples: []cli.Example{
			{Line: "llmlab w8a8 -f book.txt", Purpose: "the bundled model"},
			{Line: "llmlab w8a8 -f book.txt --channels 1 --factor 100", Purpose: "fewer and larger outliers"},
			{Line: "llmlab w8a8 -m ~/models/llama -f book.txt --json", Purpose: "another model, for a script"},
		},
		Prepare: func(f *cli.FlagSet) cli.Action {
			b := &w8A8Flags{}
			b.o.Factor, b.o.Channels, b.o.Every, b.o.Context = 50, 3, 1, 2048
			f.Group("Model")
			f.Text(&b.model, "m model", "PATH", modelUsage)
			f.Count(&b.o.Threads, "threads", "N", "number of threads; default: one for each fast core", 1, 1024)
			f.Group("Text")
			f.Text(&b.file, "f file", "FILE", "the text; - for standard input")
			f.Count(&b.o.Context, "ctx", "N", "tokens in a window; default: 2048", 2, math.MaxInt32)
			f.Group("Outliers")
			f.Count(&b.factor, "factor", "N", "factor of the outliers; default: 50", 2, 10000)
			f.Count(&b.o.Channels, "channels", "N", "channels per norm; default: 3", 1, 64)
			f.Count(&b.o.Every, "every", "N", "inject into every N-th layer; default: into every layer", 1, math.MaxInt32)
			f.Group("Output")
			f.Toggle(&b.json, "json", "print one JSON object instead of the table")
			return b.run
		},
	}
}

// w8A8Flags are the flags of w8a8.
type w8A8Flags struct {
	model  string // path
	file   string
	factor int // 0: the default in o
	json   bool
	o      measure.W8A8Options
}

func (b *w8A8Flags) run(ctx context.Context, s *cli.Streams, args []string) (err error) {
	if err := cli.NoArguments(args); err != nil {
		return err
	}
	if b.o.Text, b.o.Path, b.o.FS, err = textInputs(s, b.file, b.model); err != nil {
		return err
	}
	if b.factor > 0 {
		b.o.Factor = float32(b.factor)
	}
	if b.o.Dir, err = os.MkdirTemp("", "llmrun-w8a8-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.o.Dir)) }()
	report, err := cli.Measure(ctx, s, modelflag.FormatRuns, &b.o.Running, func(ctx context.Context) (*measure.W8A8Report, error) {
		return measure.CompareW8A8(ctx, b.o)
	})
	if err != nil {
		return err
	}
	return cli.Present(s, b.json, report, report.WriteTable)
}
