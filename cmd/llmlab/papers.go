package main

import (
	"context"

	"github.com/llmrun/llmrun/internal/cli"
	"github.com/llmrun/llmrun/lab/measure"
)

func papersCommand() *cli.Command {
	return &cli.Command{
		Name:     "papers",
		Synopsis: "[--svg FILE] [--ratios FILE] [--json]",
		Summary:  "simulate phones with a GPU and an NPU, and compare with papers",
		About: `Runs the solver and the scheduler on simulated phones, and compares the results with the figures of HeteroLLM and mllm-NPU. It lists every constant of the simulation with its source. It measures nothing on this machine and uses no GPU or NPU.

Prints tables in Markdown; --svg and --ratios draw pictures.

--json prints one object: tables (each with a title and figures; a figure has what, source, paper or low and high, ours, unit, and fitted if a constant was fitted on it), predictions (errors of the profiler: gpu and npu, the mean errors, and gpu_max and npu_max; the seconds measured and predicted; and planned, a fraction), chips (tokens per second in prefill and decode: by the GPU alone, layer-level, tensor-level, and shared, with half of the GPU), curves (seconds over lengths, by method) and constants (name, value, unit and source of each constant of a soc).`,
		Examples: []cli.Example{
			{Line: "llmlab papers", Purpose: "paper against simulation"},
			{Line: "llmlab papers --json", Purpose: "the same for a script"},
			{Line: "llmlab papers --svg hetero-lengths.svg --ratios hetero-ratios.svg > hetero.md", Purpose: "the same with pictures"},
		},
		Prepare: func(f *cli.FlagSet) cli.Action {
			b := &papersFlags{}
			f.Group("Output")
			f.Toggle(&b.json, "json", "print one JSON object instead of the tables")
			f.Text(&b.svg, "svg", "FILE", "draw the time of prefill over its length")
			f.Text(&b.ratios, "ratios", "FILE", "draw simulated over published gains")
			return b.run
		},
	}
}

// papersFlags are the flags of papers.
type papersFlags struct {
	json        bool
	svg, ratios string
}

func (b *papersFlags) run(ctx context.Context, s *cli.Streams, args []string) error {
	if err := cli.NoArguments(args); err != nil {
		return err
	}
	ctx, stop := cli.Interruptible(ctx)
	defer stop()
	report, err := measure.ComparePapers(ctx)
	if err != nil {
		return cli.Interruption(ctx, err)
	}
	return cli.Present(s, b.json, report, report.WriteTables, cli.Drawing{File: b.svg, Write: report.WriteLengths}, cli.Drawing{File: b.ratios, Write: report.WriteRatios})
}
