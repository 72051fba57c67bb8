package main

import (
	"context"

	"github.com/llmrun/llmrun/internal/cli"
)

func profileCommand() *cli.Command {
	return &cli.Command{
		Name:     "profile",
		Synopsis: "[-m MODEL | --shape NAME] [--devices LIST] [flags]",
		Summary:  "measure devices with a model's matmuls and check plans",
		About: `Measures the matmuls of a model on one or two devices, plans how to split each matmul, runs the planned split and each device alone, and compares predicted with measured times. The plan drops a split that is slower than one of the devices. Without --devices, profile takes the processor and a GPU, or another driver's device that accepts any number of tokens; without such a device it takes the processor's two groups of cores.

profile measures some matmuls: for each number of tokens a few numbers of rows. A regression tree predicts the others. --real measures every candidate, considers fewer candidates, and takes longer.

The measurements are saved with the imported models, for these devices, kernels and threads; llmrun plan --devices uses them. --again repeats all measurements, and models that are split with one of these devices are timed again when they are next opened.

--json prints {"devices":[…],"products":[{"name":…,"tokens":…,"cut":…,"pieces":[…],"predicted_us":…,"alone_us":[…],"checked":{"split_us":…,"alone_us":[…],"kept":…}}],"passes":[…],"predictions":[{"device":…,"mean":…,"largest":…}]} and more.`,
		Examples: []cli.Example{
			{Line: "llmrun profile", Purpose: defaultModel},
			{Line: "llmrun profile --shape qwen2.5-1.5b --devices cpu-a,cpu-b/4", Purpose: "a shape, with one group of cores slowed down"},
			{Line: "llmrun profile -m model.gguf --devices cpu --tokens 1,256 --json", Purpose: "one device, for a script"},
		},
		Prepare: func(f *cli.FlagSet) cli.Action {
			p := &profileFlags{}
			p.model.addModel(f)
			p.devices.addShape(f)
			f.Group("Devices")
			p.devices.add(f)
			f.Group("Measuring")
			f.Toggle(&p.devices.real, "real", "measure every candidate and predict none")
			f.Toggle(&p.again, "again", "repeat all measurements")
			p.cache.addDir(f)
			f.Setting("cache-dir")
			f.Setting("cache-size")
			f.Group("Output")
			f.Toggle(&p.json, "json", "print one JSON object")
			return p.run
		},
	}
}

// profileFlags are the flags of profile.
type profileFlags struct {
	model   modelFlags
	devices deviceFlags
	cache   cacheFlags
	again   bool
	json    bool
}

func (p *profileFlags) run(ctx context.Context, s *cli.Streams, args []string) error {
	if err := cli.NoArguments(args); err != nil {
		return err
	}
	ctx, stop := cli.Interruptible(ctx)
	defer stop()
	p.devices.check = true
	return p.devices.plan(ctx, s, &p.model, &p.cache, p.again, p.json)
}
