package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/llmrun/llmrun/internal/bench"
	"github.com/llmrun/llmrun/internal/cli"
	"github.com/llmrun/llmrun/internal/modelflag"
)

// batchWord is the argument of llmrun bench that measures several sequences.
const batchWord = "batch"

// batchMeasurement is the measurement of llmrun bench batch, with the flags of bench.
func batchMeasurement(model *modelflag.Source, ram *ramFlag, o *bench.Options) modelflag.Measurement[[]bench.BatchTest] {
	return modelflag.Measurement[[]bench.BatchTest]{
		Model:  model,
		Amount: modelflag.FormatRuns,
		Check: func() error {
			if o.Prefill = nil; o.Sustain > 0 {
				return cli.Usagef("--minutes: bench batch has no such test")
			}
			if err := modelflag.CheckLengths(&o.Prefill, &o.Decode); err != nil {
				return cli.Usagef("--tg is 0: bench batch generates tokens")
			}
			return checkChunk(ram, o)
		},
		Run: func(ctx context.Context, t modelflag.Target) ([]bench.BatchTest, error) {
			setTarget(o, t, ram)
			tests, err := bench.RunBatch(ctx, *o)
			if errors.Is(err, bench.ErrBench) {
				return nil, cli.Usagef("--tg, --depth: %v", err)
			}
			return tests, err
		},
		Write: showBatch,
	}
}

// showBatch prints a table for a person.
func showBatch(tests []bench.BatchTest, w io.Writer) {
	one := &tests[0]
	fmt.Fprintf(w, "memory read %.1f GB/s, int8 %.0f Gop/s\n\n%-9s %9s %9s %9s %9s\n", one.ReadGBs, one.PeakGops, "sequences", "tok/s", "each", "of one", "of bound")
	for _, t := range tests {
		fmt.Fprintf(w, "%9d %9.1f %9.1f %8.2fx %7.0f %%\n", t.N, t.TokPerSec, t.TokPerSec/float64(t.N), t.TokPerSec/one.TokPerSec, 100*t.TokPerSec/t.Bound)
	}
}
