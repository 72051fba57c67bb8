package main

import (
	"context"
	"math"

	"github.com/llmrun/llmrun/cmd/llmrun/measure"
)

func benchGPUCommand() *command {
	return &command{
		name:     "bench gpu",
		synopsis: "[-m MODEL | --shape NAME] [--pp LIST] [--tg N] [flags]",
		summary:  "time a model on a GPU, beside what its memory allows",
		about: `Times reading prompts (pp) and generating (tg) where all of the pass runs on an OpenCL device. It measures first how fast the device reads memory, and what launches and waits cost. Generating cannot take less than reading all weights once: "times bound" is how many times that a token takes, from its row of the embedding to the logits in the host's memory.

Then it runs every test once more and lists what each kernel took by the device's own clock. These runs are slower, and their sum leaves out what lies between two kernels.

With LLMRUN_OPENCL_WEIGHTS=images in the environment kernels read weights through images instead of buffers, which some devices do faster: run it with and without.

It needs a program that was built with -tags gpu, and a driver.`,
		examples: []example{
			{"llmrun bench gpu --pp 64 --tg 16 -r 1", "the bundled model, quickly"},
			{"llmrun bench gpu --shape qwen2.5-1.5b --depth 0,4096", "a shape of random weights, also behind 4096 tokens of context"},
			{"llmrun bench gpu -m model.gguf --device nvidia --json", "a model on the device with that name, for a script"},
		},
		prepare: func(f *flagSet) action {
			b := &benchGPUFlags{bench: benchFlags{mix: defaultMix}}
			b.o.Prefill, b.o.Decode, b.o.Depths, b.o.Repeats = []int{512}, 64, []int{0}, 5
			b.bench.model.addModel(f)
			f.text(&b.bench.shape, "shape", "NAME", "random weights in the shape of this model instead; llmrun synth --list shows them")
			addMix(f, &b.bench.mix)
			f.toggle(&b.bench.keep, "keep", "do not remove the file that --shape writes")
			f.text(&b.o.Device, "device", "NAME", "part of the device's name, or its name in llmrun devices; without it, the first GPU")
			f.group("Tests")
			f.counts(&b.o.Prefill, "pp", "lengths of prompts to read, separated by commas; 0 for none; without it, 512", 0, math.MaxInt32)
			f.count(&b.o.Decode, "tg", "N", "tokens to generate; 0 for none; without it, 64", 0, 1<<16)
			f.counts(&b.o.Depths, "depth", "tokens that are in the context already; without it, 0", 0, math.MaxInt32)
			f.count(&b.o.Repeats, "r repeats", "N", "runs of each test; without it, 5", 1, 1000)
			f.count(&b.o.Chunk, "chunk", "N", "tokens of a prompt that are computed together; without it, 512", 1, 1<<16)
			f.group("Output")
			f.toggle(&b.bench.json, "json", "print one JSON object instead of the tables")
			return b.run
		},
	}
}

// benchGPUFlags are the flags of bench gpu.
type benchGPUFlags struct {
	bench benchFlags // of which the model and its shape are used
	o     measure.GPUOptions
}

func (b *benchGPUFlags) run(ctx context.Context, s *streams, args []string) error {
	if err := noArguments(args); err != nil {
		return err
	}
	b.o.Prefill = positive(b.o.Prefill)
	b.bench.o.Prefill, b.bench.o.Decode = b.o.Prefill, []int{b.o.Decode}
	if err := b.bench.check(); err != nil {
		return err
	}
	if b.o.Chunk == 0 {
		b.o.Chunk = gpuChunk
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	remove, err := b.bench.findModel(ctx, s)
	if err != nil {
		return err
	}
	defer remove()
	b.o.Path, b.o.FS = b.bench.o.Path, b.bench.o.FS
	loading := newMeter(s, "loading", formatBytes)
	defer loading.finish()
	b.o.Loading = loading.update
	report, err := measure.GPU(ctx, b.o)
	if err != nil {
		return interruption(ctx, err)
	}
	loading.finish()
	return present(s, b.bench.json, report, report.WriteTable)
}

// gpuChunk is how many tokens of a prompt a GPU computes together, unless asked
// otherwise.
const gpuChunk = 512
