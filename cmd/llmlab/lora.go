package main

import (
	"context"
	"errors"
	"os"

	"github.com/llmrun/llmrun/internal/cli"
	"github.com/llmrun/llmrun/internal/modelflag"
	"github.com/llmrun/llmrun/lab/measure"
)

func loraCommand() *cli.Command {
	return &cli.Command{
		Name:     "lora",
		Synopsis: "MODEL.gguf [--rank R] [flags]",
		Summary:  "measure the cost of an adapter that a session chooses",
		About: `Writes a random LoRA adapter of 16-bit floats for all matrices of the layers to a temporary directory, and decodes with and without it, in turns, in two sessions of one engine.

Prints a table in Markdown.`,
		Examples: []cli.Example{
			{Line: "llmlab lora model.gguf", Purpose: "rank 8"},
			{Line: "llmlab lora model.gguf --rank 64 --rounds 20", Purpose: "a larger adapter, with more pairs"},
			{Line: "llmlab lora model.gguf --json", Purpose: "for programs"},
		},
		Prepare: func(f *cli.FlagSet) cli.Action {
			b := &loraFlags{o: measure.LoraOptions{Rank: 8, Rounds: 9, Decode: 16}}
			f.Group("What to time")
			f.Count(&b.o.Rank, "rank", "R", "rank of the adapter; default: 8", 1, 1024)
			f.Count(&b.o.Rounds, "rounds", "N", "pairs of generations; default: 9", 1, 1<<16)
			f.Count(&b.o.Decode, "tg", "N", "tokens per generation; default: 16", 1, 256)
			f.Count(&b.o.Threads, "threads", "N", "number of threads; default: one for each fast core", 1, 1024)
			f.Group("Output")
			f.Toggle(&b.json, "json", "print one JSON object instead of the table")
			return b.run
		},
	}
}

// loraFlags are the flags of lora.
type loraFlags struct {
	json bool
	o    measure.LoraOptions
}

func (b *loraFlags) run(ctx context.Context, s *cli.Streams, args []string) (err error) {
	if len(args) != 1 {
		return cli.Usagef("name one model, a GGUF file")
	}
	b.o.Path = args[0]
	if b.o.Dir, err = os.MkdirTemp("", "llmlab-lora-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.o.Dir)) }()
	report, err := cli.Measure(ctx, s, modelflag.FormatRuns, &b.o.Running, func(ctx context.Context) (*measure.LoraReport, error) {
		return measure.LoraCost(ctx, b.o)
	})
	if err != nil {
		return err
	}
	return cli.Present(s, b.json, report, report.WriteTable)
}
