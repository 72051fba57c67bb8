package main

import "context"

func profileCommand() *command {
	return &command{
		name:     "profile",
		synopsis: "[-m MODEL | --shape NAME] [--devices LIST] [flags]",
		summary:  "measure devices with a model's products, and how well a plan predicts them",
		about: `Measures how long the matrix products of a model take on one or two devices, decides how to divide each, runs what it decided beside each device alone, and prints predicted against measured times. A split that turns out slower than one of the devices is given up. Without --devices these are a GPU, or what else a driver offers for any number of tokens, and the processor; or, where there is none, the processor's two groups of cores.

Few products are measured, and others predicted: for each number of tokens some numbers of rows, from which a regression tree learns. --real measures every piece that is considered instead, which are fewer, and takes longer.

What was measured is kept with the imported models, for these devices, kernels and threads, and llmrun plan --devices uses it. --again measures all of it once more, and has models that are divided with one of these devices tried again.

--json prints {"devices":[…],"products":[{"name":…,"tokens":…,"cut":…,"pieces":[…],"predicted_us":…,"alone_us":[…],"checked":{"split_us":…,"alone_us":[…],"kept":…}}],"passes":[…],"predictions":[{"device":…,"mean":…,"largest":…}]} and more.`,
		examples: []example{
			{"llmrun profile", "the bundled model"},
			{"llmrun profile --shape qwen2.5-1.5b --devices cpu-a,cpu-b/4", "a shape, with one group made slower"},
			{"llmrun profile -m model.gguf --devices cpu --tokens 1,256 --json", "one device, for a script"},
		},
		prepare: func(f *flagSet) action {
			p := &profileFlags{}
			p.model.addModel(f)
			p.devices.addShape(f)
			f.group("Devices")
			p.devices.add(f)
			f.group("Measuring")
			f.toggle(&p.devices.real, "real", "measure every piece that is considered, and predict none")
			f.toggle(&p.again, "again", "measure again what is known")
			p.cache.addDir(f)
			f.group("Output")
			f.toggle(&p.json, "json", "print one JSON object")
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

func (p *profileFlags) run(ctx context.Context, s *streams, args []string) error {
	if err := noArguments(args); err != nil {
		return err
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	p.devices.check = true
	return p.devices.plan(ctx, s, &p.model, &p.cache, p.again, p.json)
}
