package main

import (
	"context"
	"fmt"
	"math"
	"strconv"

	"github.com/llmrun/llmrun/internal/bench"
	"github.com/llmrun/llmrun/internal/cli"
	"github.com/llmrun/llmrun/internal/modelflag"
)

const maxRouterSkew = 8

func synthCommand() *cli.Command {
	return &cli.Command{
		Name:     "synth",
		Synopsis: "--shape NAME [--quant MIX] -o FILE.gguf [flags] | --list",
		Summary:  "write a model of random weights, for measurements",
		About: `Writes a GGUF file with the shape, the tensor types and the rotary settings of a published model, and random weights. There are shapes of dense models, of experts, of latent attention, and of hybrids with gated delta nets, Mamba-2 or short convolutions. Speed and memory do not depend on the values of weights, so that you can measure llmrun and other engines without a download.

Tensors are quantized in the mixes of llama.cpp's quantizer; mxfp4 has that type in all matrices of the layers, which it gives to experts alone. The same flags write the same bytes. synth replaces an existing file only with --force, and leaves no file when it fails.

--json prints {"path":"…","shape":"…","quant":"…","bytes":…}, or with --list {"quant":"…","shapes":[{"name":"…","parameters":…,"bytes":…}]}.`,
		Examples: []cli.Example{
			{Line: "llmrun synth --list", Purpose: "the shapes, with their sizes"},
			{Line: "llmrun synth --shape qwen2.5-1.5b -o qwen.gguf", Purpose: "1.5 billion weights in Q4_0"},
			{Line: "llmrun synth --shape llama-3.2-1b --quant q4_k_m -o llama.gguf", Purpose: "the mix that most people download"},
			{Line: "llmrun synth --shape qwen3-30b-a3b --router-skew 1 -o moe.gguf", Purpose: "some experts are used far more often than others"},
		},
		Prepare: func(f *cli.FlagSet) cli.Action {
			y := &synthFlags{o: bench.SynthOptions{Quant: modelflag.DefaultMix}}
			f.Group("What to write")
			f.Text(&y.o.Shape, "shape", "NAME", "the model whose shape to write; --list shows the shapes")
			modelflag.AddMix(f, &y.o.Quant)
			f.Count(&y.o.Context, "ctx", "N", "the context length in the file; default: that of the published model", 1, math.MaxInt32)
			f.Value("router-skew", "X", "how unevenly the router chooses experts, from 0 (evenly) to 8; at 1, an eighth of the experts does about half of the work", y.setSkew)
			f.Value("seed", "N", "seed of the random weights", y.setSeed)
			f.Toggle(&y.list, "list", "list the shapes, with their sizes in the --quant mix")
			f.Group("Output")
			f.Text(&y.o.Path, "o output", "FILE", "the file to write")
			f.Toggle(&y.o.Force, "force", "replace an existing file")
			f.Toggle(&y.json, "json", "print one JSON object")
			return y.run
		},
	}
}

// synthFlags are the flags of synth.
type synthFlags struct {
	o    bench.SynthOptions
	list bool
	json bool
}

func (y *synthFlags) setSkew(s string) error {
	x, err := strconv.ParseFloat(s, 64)
	if err != nil || !(x >= 0 && x <= maxRouterSkew) {
		return fmt.Errorf("must be a number from 0 to %d, not %q", maxRouterSkew, s)
	}
	y.o.RouterSkew = x
	return nil
}

func (y *synthFlags) setSeed(s string) (err error) {
	y.o.Seed, err = parseSeed(s)
	return err
}

func (y *synthFlags) run(ctx context.Context, s *cli.Streams, args []string) error {
	if err := cli.NoArguments(args); err != nil {
		return err
	}
	if y.list {
		return y.listShapes(s)
	}
	switch {
	case y.o.Shape == "":
		return cli.Usagef("--shape is missing; --list shows the shapes")
	case y.o.Path == "":
		return cli.Usagef("-o is missing: name the file to write")
	}
	ctx, stop := cli.Interruptible(ctx)
	defer stop()
	size, err := modelflag.Write(ctx, s, y.o)
	if err != nil {
		return err
	}
	if y.json {
		return s.Out.WriteJSON(written{y.o.Path, y.o.Shape, y.o.Quant, size})
	}
	fmt.Fprintf(s.Out, "%s: %s, %s of random weights in %s\n", cli.VisibleLine(y.o.Path), y.o.Shape, cli.FormatBytes(size), y.o.Quant)
	return nil
}

// written is the JSON object of a written file.
type written struct {
	Path  string `json:"path"`
	Shape string `json:"shape"`
	Quant string `json:"quant"`
	Bytes int64  `json:"bytes"` // of the tensors
}

// shapeList is the JSON object of --list.
type shapeList struct {
	Quant  string            `json:"quant"`
	Shapes []bench.ShapeInfo `json:"shapes"`
}

// listShapes prints the shapes.
func (y *synthFlags) listShapes(s *cli.Streams) error {
	shapes, err := bench.Shapes(y.o.Quant)
	if err != nil {
		return err
	}
	if y.json {
		return s.Out.WriteJSON(shapeList{y.o.Quant, shapes})
	}
	fmt.Fprintf(s.Out, "%-24s %10s  %s\n", "shape", "parameters", "size in "+y.o.Quant)
	for _, shape := range shapes {
		fmt.Fprintf(s.Out, "%-24s %10s  %s\n", shape.Name, cli.FormatCount(shape.Parameters), cli.FormatBytes(shape.Bytes))
	}
	return nil
}
