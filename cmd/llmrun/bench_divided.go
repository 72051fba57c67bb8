package main

import (
	"context"
	"fmt"
	"math"

	"github.com/llmrun/llmrun/cmd/llmrun/measure"
)

func benchDividedCommand() *command {
	return &command{
		name:     "bench divided",
		synopsis: "[-m MODEL | --shape NAME] [--with DEVICE] [--pp LIST] [--tg N] [flags]",
		summary:  "time a model divided between the processor and a device, beside each alone",
		about: `Times reading prompts (pp) and generating (tg) in three ways, in turns: on the processor, on the device, and divided between the two as llmrun run --device cpu+DEVICE does it. A GPU alone computes the whole pass where it can, as with --device gpu; another device computes all products, and the processor the rest.

Then it lists of each kind of matrices which part of the rows the device had, and what steps of a pass took that begin with it: predicted, measured, and how much of that was waiting for the device after the processor's rows were done. Queries, keys and values are one step, and so are gate and up.

Divided is what opening such a model ends with: where passes were seen not to gain by the division, when it was tried the first time, all rows are the processor's, and a note says so.

The model is in memory three times. Prints tables in Markdown.`,
		examples: []example{
			{"llmrun bench divided --pp 64 --tg 16 -r 3", "the bundled model, with the second half of the cores, quickly"},
			{"llmrun bench divided --shape qwen2.5-1.5b --with gpu", "a shape of random weights, with the first GPU; needs a program built with -tags gpu"},
			{"llmrun bench divided -m model.gguf --with npu --json", "with an NPU, for a script; needs one built with -tags npu"},
		},
		prepare: func(f *flagSet) action {
			b := &benchDividedFlags{bench: benchFlags{mix: defaultMix}}
			b.o.Prefill, b.o.Decode, b.o.Repeats, b.o.Chunk = []int{512}, 32, 7, dividedChunk
			b.bench.model.addModel(f)
			f.text(&b.bench.shape, "shape", "NAME", "random weights in the shape of this model instead; llmrun synth --list shows them")
			addMix(f, &b.bench.mix)
			f.toggle(&b.bench.keep, "keep", "do not remove the file that --shape writes")
			f.group("Devices")
			f.text(&b.o.Device, "with", "DEVICE", "gpu, npu, or a name of llmrun devices; without it, cpu-b, a half of the cores")
			addPercent(f, &b.o.Limit, "device-share", "how much of a product's time the device may be busy; without it, 100%")
			f.count(&b.o.Threads, "threads", "N", "threads of the processor; without it, one for each fast core", 1, 1024)
			b.cache.addDir(f)
			f.group("Tests")
			f.counts(&b.o.Prefill, "pp", "lengths of prompts to read, separated by commas; 0 for none; without it, 512", 0, math.MaxInt32)
			f.count(&b.o.Decode, "tg", "N", "tokens to generate; 0 for none; without it, 32", 0, 1<<16)
			f.count(&b.o.Repeats, "r repeats", "N", "runs of each test; without it, 7", 1, 1000)
			f.count(&b.o.Chunk, "chunk", "N", "tokens of a prompt that are computed together; without it, 512", 1, 1<<16)
			f.group("Output")
			f.toggle(&b.bench.json, "json", "print one JSON object instead of the tables")
			return b.run
		},
	}
}

// benchDividedFlags are the flags of bench divided.
type benchDividedFlags struct {
	bench benchFlags // of which the model and its shape are used
	cache cacheFlags
	o     measure.DividedOptions
}

func (b *benchDividedFlags) run(ctx context.Context, s *streams, args []string) error {
	if err := noArguments(args); err != nil {
		return err
	}
	b.o.Prefill = positive(b.o.Prefill)
	b.bench.o.Prefill, b.bench.o.Decode = b.o.Prefill, []int{b.o.Decode}
	if err := b.bench.check(); err != nil {
		return err
	}
	if b.o.Device == "" {
		b.o.Device = dividedWith
	}
	if dir, err := b.cache.directory(); err == nil {
		b.o.Dir = dir
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	remove, err := b.bench.findModel(ctx, s)
	if err != nil {
		return err
	}
	defer remove()
	b.o.Path, b.o.FS = b.bench.o.Path, b.bench.o.FS
	loading, running := newMeter(s, "loading", formatBytes), newMeter(s, "measuring", formatTests)
	defer loading.finish()
	defer running.finish()
	b.o.Loading, b.o.Notice = loading.update, s.note
	b.o.Running = func(done, total int64) {
		loading.finish()
		running.update(done, total)
	}
	report, err := measure.Divided(ctx, b.o)
	if err != nil {
		return interruption(ctx, err)
	}
	loading.finish()
	running.finish()
	return present(s, b.bench.json, report, report.WriteTables)
}

// formatTests is the amount of a meter that counts tests.
func formatTests(n int64) string { return fmt.Sprintf("%d tests", n) }

const (
	// dividedChunk is how many tokens of a prompt are computed together, unless asked
	// otherwise, and dividedWith the device.
	dividedChunk = 512
	dividedWith  = "cpu-b"
)
