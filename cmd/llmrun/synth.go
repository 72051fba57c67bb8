package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/llmrun/llmrun/cmd/llmrun/measure"
)

const (
	defaultMix    = "q4_0"
	maxRouterSkew = 8
)

func synthCommand() *command {
	return &command{
		name:     "synth",
		synopsis: "--shape NAME [--quant MIX] -o FILE.gguf [flags] | --list",
		summary:  "write a model of random weights, to measure with",
		about: `Writes a GGUF file that has the shape, the tensor types and the rotary settings of a published model, and weights that mean nothing. Speed and memory depend on the former alone, so that anyone can measure llmrun and other engines, which read the file too, without a download.

Tensors are quantized in the mixes of llama.cpp's quantizer. The same flags give the same bytes. A file that is there is kept unless --force is given, and a run that fails leaves none.

--json prints {"path":"…","shape":"…","quant":"…","bytes":…}, or with --list {"quant":"…","shapes":[{"name":"…","parameters":…,"bytes":…}]}.`,
		examples: []example{
			{"llmrun synth --list", "the shapes, with their sizes"},
			{"llmrun synth --shape qwen2.5-1.5b -o qwen.gguf", "1.5 billion weights in Q4_0"},
			{"llmrun synth --shape llama-3.2-1b --quant q4_k_m -o llama.gguf", "what most people download"},
			{"llmrun synth --shape qwen3-30b-a3b --router-skew 1 -o moe.gguf", "experts of which some are used far more than others"},
		},
		prepare: func(f *flagSet) action {
			y := &synthFlags{o: measure.SynthOptions{Quant: defaultMix}}
			f.group("What to write")
			f.text(&y.o.Shape, "shape", "NAME", "the model whose shape it has; --list shows them")
			addMix(f, &y.o.Quant)
			f.count(&y.o.Context, "ctx", "N", "tokens that the model says it was made for; without it, as many as the published one", 1, math.MaxInt32)
			f.value("router-skew", "X", "how unevenly experts are used, from 0, which is evenly, to 8; at 1 an eighth of them does about half of the work", y.setSkew)
			f.value("seed", "N", "choose other random weights", y.setSeed)
			f.toggle(&y.list, "list", "list the shapes instead, with their sizes in the --quant mix")
			f.group("Output")
			f.text(&y.o.Path, "o output", "FILE", "where to write it")
			f.toggle(&y.o.Force, "force", "replace a file that is there")
			f.toggle(&y.json, "json", "print one JSON object")
			return y.run
		},
	}
}

// synthFlags are the flags of synth.
type synthFlags struct {
	o    measure.SynthOptions
	list bool
	json bool
}

// addMix declares --quant.
func addMix(f *flagSet, mix *string) {
	mixes := measure.Mixes()
	f.value("quant", "MIX", strings.Join(mixes, ", ")+"; without it, "+defaultMix, func(s string) error {
		if !slices.Contains(mixes, strings.ToLower(s)) {
			return fmt.Errorf("must be one of %s, not %q", strings.Join(mixes, ", "), s)
		}
		*mix = strings.ToLower(s)
		return nil
	})
}

func (y *synthFlags) setSkew(s string) error {
	x, err := strconv.ParseFloat(s, 64)
	if err != nil || !(x >= 0 && x <= maxRouterSkew) {
		return fmt.Errorf("must be a number from 0 to %d, not %q", maxRouterSkew, s)
	}
	y.o.RouterSkew = x
	return nil
}

func (y *synthFlags) setSeed(s string) error {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return fmt.Errorf("must be a whole number of at least 0, not %q", s)
	}
	y.o.Seed = n
	return nil
}

func (y *synthFlags) run(ctx context.Context, s *streams, args []string) error {
	if err := noArguments(args); err != nil {
		return err
	}
	if y.list {
		return y.listShapes(s)
	}
	switch {
	case y.o.Shape == "":
		return usagef("--shape is missing; --list shows what there is")
	case y.o.Path == "":
		return usagef("-o is missing: where to write the file")
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	size, err := writeModel(ctx, s, y.o)
	if err != nil {
		return err
	}
	if y.json {
		return s.out.json(written{y.o.Path, y.o.Shape, y.o.Quant, size})
	}
	fmt.Fprintf(s.out, "%s: %s, %s of random weights in %s\n", y.o.Path, y.o.Shape, formatBytes(size), y.o.Quant)
	return nil
}

// written is what was written, as JSON.
type written struct {
	Path  string `json:"path"`
	Shape string `json:"shape"`
	Quant string `json:"quant"`
	Bytes int64  `json:"bytes"` // of the tensors
}

// writeModel writes a model with a progress bar.
func writeModel(ctx context.Context, s *streams, o measure.SynthOptions) (int64, error) {
	bar := newMeter(s, "writing", formatBytes)
	defer bar.finish()
	o.Progress = bar.update
	size, err := measure.Synth(ctx, o)
	switch {
	case errors.Is(err, measure.ErrShape):
		return 0, unknownShape(o.Shape)
	case errors.Is(err, measure.ErrExists):
		return 0, fmt.Errorf("%w (give --force to replace it)", err)
	case err != nil:
		return 0, interruption(ctx, err)
	}
	return size, nil
}

func unknownShape(name string) error {
	var names []string
	shapes, err := measure.Shapes(defaultMix)
	if err != nil {
		return err
	}
	for _, shape := range shapes {
		names = append(names, shape.Name)
	}
	if near := nearest(strings.ToLower(name), names); near != "" {
		return usagef("--shape: there is no shape %q; did you mean %q?", name, near)
	}
	return usagef("--shape: there is no shape %q; 'llmrun synth --list' shows what there is", name)
}

// shapeList is the shapes, as JSON.
type shapeList struct {
	Quant  string              `json:"quant"`
	Shapes []measure.ShapeInfo `json:"shapes"`
}

// listShapes prints the shapes.
func (y *synthFlags) listShapes(s *streams) error {
	shapes, err := measure.Shapes(y.o.Quant)
	if err != nil {
		return err
	}
	if y.json {
		return s.out.json(shapeList{y.o.Quant, shapes})
	}
	fmt.Fprintf(s.out, "%-16s %10s  %s\n", "shape", "parameters", "size in "+y.o.Quant)
	for _, shape := range shapes {
		fmt.Fprintf(s.out, "%-16s %10s  %s\n", shape.Name, formatCount(shape.Parameters), formatBytes(shape.Bytes))
	}
	return nil
}
