package main

import (
	"context"

	"github.com/llmrun/llmrun/cmd/llmrun/measure"
)

func benchHeteroCommand() *command {
	return &command{
		name:     "bench hetero",
		synopsis: "[--svg FILE] [--ratios FILE] [--json]",
		summary:  "simulate phones with a GPU and an NPU, beside what papers measured",
		about: `Runs the solver and the scheduler for several processors on simulated phones and prints what HeteroLLM and mllm-NPU published beside it, with every number that the simulation is made of and its source. Nothing is measured on this machine, and no GPU or NPU is used.

Prints tables in Markdown; --svg and --ratios draw.

--json prints one object: tables (each with title and figures, which have what, source, paper or low and high, ours, unit, and fitted where a constant was fitted on it), predictions (how well the profiler predicts: gpu and npu, mean errors, beside gpu_max and npu_max; seconds measured and predicted; planned, as a share), chips (tokens a second in prefill and decode by the GPU alone, layer-level and tensor-level, and shared, with half of the GPU), curves (seconds against lengths by method) and constants (name, value, unit and source of each number of a soc).`,
		examples: []example{
			{"llmrun bench hetero", "paper against simulation"},
			{"llmrun bench hetero --json", "the same for a script"},
			{"llmrun bench hetero --svg hetero-lengths.svg --ratios hetero-ratios.svg > hetero.md", "the same with pictures"},
		},
		prepare: func(f *flagSet) action {
			b := &benchHeteroFlags{}
			f.group("Output")
			f.toggle(&b.json, "json", "print one JSON object instead of the tables")
			f.text(&b.svg, "svg", "FILE", "draw the time of prefill against its length")
			f.text(&b.ratios, "ratios", "FILE", "draw published gains against simulated ones")
			return b.run
		},
	}
}

// benchHeteroFlags are the flags of bench hetero.
type benchHeteroFlags struct {
	json        bool
	svg, ratios string
}

func (b *benchHeteroFlags) run(ctx context.Context, s *streams, args []string) error {
	if err := noArguments(args); err != nil {
		return err
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	report, err := measure.Hetero(ctx)
	if err != nil {
		return interruption(ctx, err)
	}
	return present(s, b.json, report, report.WriteTables, drawing{b.svg, report.WriteLengths}, drawing{b.ratios, report.WriteRatios})
}
