package main

import (
	"context"
	"math"

	"github.com/llmrun/llmrun/internal/cli"
	"github.com/llmrun/llmrun/internal/modelflag"
	"github.com/llmrun/llmrun/lab/measure"
)

func gpuCommand() *cli.Command {
	return &cli.Command{
		Name:     "gpu",
		Synopsis: "[-m MODEL | --shape NAME] [--pp LIST] [--tg N] [flags]",
		Summary:  "time a model on a GPU, compared with its memory bandwidth",
		About: `Times prefill (pp) and decoding (tg) when the whole pass runs on an OpenCL device. First it measures the memory bandwidth of the device, and the cost of launches and waits. A decoded token takes at least the time for reading all weights once; "times bound" is its time as a multiple of that, from the embedding lookup to the logits in the host's memory.

Then it runs every test once more and lists the time of each kernel by the device's clock. These runs are slower, and their sum does not include the time between kernels.

With LLMRUN_OPENCL_WEIGHTS=images in the environment, kernels read weights through images instead of buffers, which is faster on some devices: compare both.

It needs a program built with -tags gpu, and a driver.`,
		Examples: []cli.Example{
			{Line: "llmlab gpu --pp 64 --tg 16 -r 1", Purpose: "the bundled model, quickly"},
			{Line: "llmlab gpu --shape qwen2.5-1.5b --depth 0,4096", Purpose: "a shape of random weights, with an empty context and after 4096 tokens"},
			{Line: "llmlab gpu -m model.gguf --device nvidia --json", Purpose: "a model on the device with that name, for a script"},
		},
		Prepare: func(f *cli.FlagSet) cli.Action {
			model := bundledModel()
			o := measure.GPUOptions{Prefill: []int{512}, Decode: 64, Depths: []int{0}, Repeats: 5, Chunk: gpuChunk}
			model.Add(f, modelUsage)
			f.Text(&o.Device, "device", "NAME", "part of the device's name, or its name in llmrun devices; default: the first GPU")
			f.Group("Tests")
			f.Counts(&o.Prefill, "pp", "prompt lengths, separated by commas; 0 for none; default: 512", 0, math.MaxInt32)
			f.Count(&o.Decode, "tg", "N", "tokens to generate; 0 for none; default: 64", 0, 1<<16)
			f.Counts(&o.Depths, "depth", "tokens in the context before the test; default: 0", 0, math.MaxInt32)
			f.Count(&o.Repeats, "r repeats", "N", "runs of each test; default: 5", 1, 1000)
			f.Count(&o.Chunk, "chunk", "N", "tokens in a prefill chunk; default: 512", 1, 1<<16)
			return modelflag.Measurement[*measure.GPUReport]{
				Model:  &model,
				Amount: modelflag.FormatRuns,
				Check:  func() error { return modelflag.CheckLengths(&o.Prefill, &[]int{o.Decode}) },
				Run: func(ctx context.Context, t modelflag.Target) (*measure.GPUReport, error) {
					o.Path, o.FS, o.Loading = t.Path, t.FS, t.Loading
					return measure.GPU(ctx, o)
				},
				Write: (*measure.GPUReport).WriteTable,
			}.Action(f)
		},
	}
}

// gpuChunk is the default size of a prefill chunk on a GPU.
const gpuChunk = 512
