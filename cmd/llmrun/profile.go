package main

import (
	"context"

	"github.com/llmrun/llmrun/internal/cli"
)

func profileCommand() *cli.Command {
	return &cli.Command{
		Name:     "profile",
		Synopsis: "[-m MODEL | --shape NAME] [--devices LIST] [flags]",
		Summary:  "measure devices with a model's products, and how well a plan predicts them",
		About: `Measures how long the matrix products of a model take on one or two devices, decides how to divide each, runs what it decided beside each device alone, and prints predicted against measured times. A split that turns out slower than one of the devices is given up. Without --devices these are a GPU, or what else a driver offers for any number of tokens, and the processor; or, where there is none, the processor's two groups of cores.

Few products are measured, and others predicted: for each number of tokens some numbers of rows, from which a regression tree learns. --real measures every piece that is considered instead, which are fewer, and takes longer.

What was measured is kept with the imported models, for these devices, kernels and threads, and llmrun plan --devices uses it. --again measures all of it once more, and has models that are divided with one of these devices tried again.

--json prints {"devices":[…],"products":[{"name":…,"tokens":…,"cut":…,"pieces":[…],"predicted_us":…,"alone_us":[…],"checked":{"split_us":…,"alone_us":[…],"kept":…}}],"passes":[…],"predictions":[{"device":…,"mean":…,"largest":…}]} and more.`,
		Examples: []cli.Example{
			{Line: "llmrun profile", Purpose: "the bundled model"},
			{Line: "llmrun profile --shape qwen2.5-1.5b --devices cpu-a,cpu-b/4", Purpose: "a shape, with one group made slower"},
			{Line: "llmrun profile -m model.gguf --devices cpu --tokens 1,256 --json", Purpose: "one device, for a script"},
		},
		Prepare: func(f *cli.FlagSet) cli.Action {
			p := &profileFlags{}
			p.model.addModel(f)
			p.devices.addShape(f)
			f.Group("Devices")
			p.devices.add(f)
			f.Group("Measuring")
			f.Toggle(&p.devices.real, "real", "measure every piece that is considered, and predict none")
			f.Toggle(&p.again, "again", "measure again what is known")
			p.cache.addDir(f)
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
