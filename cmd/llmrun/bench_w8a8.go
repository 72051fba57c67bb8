package main

import (
	"context"
	"errors"
	"math"
	"os"

	"github.com/llmrun/llmrun/cmd/llmrun/bundled"
	"github.com/llmrun/llmrun/cmd/llmrun/measure"
)

func benchW8A8Command() *command {
	return &command{
		name:     "bench w8a8",
		synopsis: "-f FILE [-m DIRECTORY] [flags]",
		summary:  "measure what integers with one scale cost, with and without a shadow",
		about: `Computes the perplexity of the second half of a text in float32 and with --w8a8, after calibrating with the first half: without a shadow, with one for some of the inputs and with all. All of this is done for the model as it is, and for a copy with outliers that do not change its function: some gains of norms are larger by a factor, and the matching columns of the matrices behind them smaller.

The model is a directory with safetensors whose tensors are called as Llama's; without -m, the bundled one. Prints a table in Markdown.`,
		examples: []example{
			{"llmrun bench w8a8 -f book.txt", "the bundled model"},
			{"llmrun bench w8a8 -f book.txt --channels 1 --factor 100", "fewer and larger outliers"},
			{"llmrun bench w8a8 -m ~/models/llama -f book.txt --json", "another model, for a script"},
		},
		prepare: func(f *flagSet) action {
			b := &benchW8A8Flags{}
			b.o.Factor, b.o.Channels, b.o.Every, b.o.Context = 50, 3, 1, 2048
			b.model.addModel(f)
			b.model.addThreads(f)
			f.group("Text")
			f.text(&b.file, "f file", "FILE", "the text; - for standard input")
			f.count(&b.o.Context, "ctx", "N", "tokens in a window; without it, 2048", 2, math.MaxInt32)
			f.group("Outliers")
			f.count(&b.factor, "factor", "N", "how many times larger they are; without it, 50", 2, 10000)
			f.count(&b.o.Channels, "channels", "N", "channels of each norm; without it, 3", 1, 64)
			f.count(&b.o.Every, "every", "N", "one of how many layers has them; without it, every one", 1, math.MaxInt32)
			f.group("Output")
			f.toggle(&b.json, "json", "print one JSON object instead of the table")
			return b.run
		},
	}
}

// benchW8A8Flags are the flags of bench w8a8.
type benchW8A8Flags struct {
	model  modelFlags
	file   string
	factor int // 0: that of o
	json   bool
	o      measure.W8A8Options
}

func (b *benchW8A8Flags) run(ctx context.Context, s *streams, args []string) (err error) {
	if err := noArguments(args); err != nil {
		return err
	}
	if b.file == "" {
		return usagef("give the text in -f")
	}
	if b.o.Text, err = readText(s, "-f", b.file); err != nil {
		return err
	}
	if b.factor > 0 {
		b.o.Factor = float32(b.factor)
	}
	if b.o.Path = b.model.path; b.o.Path == "" {
		b.o.Path, b.o.FS = bundled.Name, bundled.FS
	}
	b.o.Threads = b.model.threads
	if b.o.Dir, err = os.MkdirTemp("", "llmrun-w8a8-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.o.Dir)) }()
	report, err := measured(ctx, s, formatRuns, &b.o.Running, func(ctx context.Context) (*measure.W8A8Report, error) {
		return measure.CompareW8A8(ctx, b.o)
	})
	if err != nil {
		return err
	}
	return present(s, b.json, report, report.WriteTable)
}
