package main

import (
	"context"
	"fmt"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/cli"
)

func planCommand() *cli.Command {
	return &cli.Command{
		Name:     "plan",
		Synopsis: "[-m MODEL] [--ram SIZE] [--kv-ram SIZE] [--ctx N] [--kv FORMAT] [--device gpu | --devices LIST] [--json]",
		Summary:  "plan the memory of a model and predict its speed",
		About: `Plans the memory of a model without loading it: which weights stay in memory, which are read from flash during each pass, and the predicted speed. A model that does not fit still runs: each pass streams the other weights from flash, and a larger budget makes it faster. plan refuses a budget below the minimum and lists the parts of that minimum.

The prediction uses the speed of this machine, which is measured once and saved with the imported models.

--device gpu, or gpu: and part of a device's name, shows instead how many layers fit in that GPU's memory, and how much of the model stays in the machine's memory. It prints, with --json, {"device":…,"layers":…,"of":…,"context":…,"held_bytes":…,"need_bytes":…,"memory_bytes":…,"here_bytes":…}.

--devices plans how to split each matmul of the model between two devices, for several numbers of tokens, and compares the split with each device alone. It uses the measurements of llmrun profile, and takes those that are missing. llmrun run --device cpu+NAME runs such a split, by rows.`,
		Examples: []cli.Example{
			{Line: "llmrun plan -m model.gguf", Purpose: "with the available memory"},
			{Line: "llmrun plan -m model.gguf --ram 1.5GiB --ctx 4K", Purpose: "with a budget and a context"},
			{Line: "llmrun plan -m model.gguf --ram 50% --json", Purpose: "with half of the available memory, for a script"},
			{Line: "llmrun plan -m model.gguf --measure", Purpose: "measure the machine again"},
			{Line: "llmrun plan -m model.gguf --device gpu --ctx 8K", Purpose: "how many layers fit on the GPU with 8192 tokens of context"},
			{Line: "llmrun plan -m model.gguf --devices cpu-a,cpu-b", Purpose: "how to split matmuls between two groups of cores"},
		},
		Prepare: func(f *cli.FlagSet) cli.Action {
			p := &planFlags{}
			p.model.addModel(f)
			p.model.addThreads(f)
			p.model.addKV(f)
			p.model.addSelect(f)
			p.model.addContext(f)
			f.Group("Plan")
			addRAM(f, &p.ram, "the available memory")
			addKVRAM(f, &p.kvRAM)
			p.model.addDisk(f)
			f.Toggle(&p.measure, "measure", "measure the machine again")
			p.cache.addDir(f)
			f.Group("Devices")
			f.Text(&p.model.device, "device", "NAME", "gpu, or gpu: and part of a device's name: plan which layers that GPU computes")
			p.model.addGPULayers(f)
			p.model.addDeviceMemory(f)
			p.devices.add(f)
			f.Group("Output")
			f.Toggle(&p.json, "json", "print one JSON object")
			return p.run
		},
	}
}

// planFlags are the flags of plan.
type planFlags struct {
	model   modelFlags
	cache   cacheFlags
	ram     ramFlag
	kvRAM   int64 // as in llmrun.MemoryOptions
	devices deviceFlags
	measure bool
	json    bool
}

func (p *planFlags) run(ctx context.Context, s *cli.Streams, args []string) error {
	if err := cli.NoArguments(args); err != nil {
		return err
	}
	if err := p.check(); err != nil {
		return err
	}
	ctx, stop := cli.Interruptible(ctx)
	defer stop()
	if p.devices.names != nil {
		return p.devices.plan(ctx, s, &p.model, &p.cache, p.measure, p.json)
	}
	path, options, err := p.model.source()
	if err != nil {
		return err
	}
	if options.Device.Name != "" {
		return p.placement(s, path, options)
	}
	p.cache.apply(&options)
	options.Memory.RAM, options.Memory.KVRAM = p.ram.bytes, p.kvRAM
	plan, err := llmrun.PlanMemory(ctx, path, options, p.measure)
	if err != nil {
		return cli.Interruption(ctx, err)
	}
	if p.json {
		return s.Out.WriteJSON(plan)
	}
	showPlan(s, plan, p.ram.percentOf())
	return nil
}

// check refuses flags of different kinds of plans.
func (p *planFlags) check() error {
	onDevice, split := p.model.device != "", p.devices.names != nil
	switch {
	case onDevice && !isGPU(p.model.device):
		return cli.Usagef("--device: must be gpu, or gpu: and part of a device's name, not %q", p.model.device)
	case onDevice && split:
		return cli.Usagef("--device plans the placement of layers and --devices the split of matmuls: give one of them")
	case (onDevice || split) && (p.ram.bytes != 0 || p.kvRAM != 0):
		return cli.Usagef("--ram and --kv-ram plan the machine's memory: leave them out with --device and --devices")
	case p.model.layers != 0 && !onDevice:
		return cli.Usagef("--gpu-layers needs --device gpu")
	case p.model.deviceMemory != 0 && !onDevice:
		return cli.Usagef("--device-memory needs --device gpu")
	case !split && (p.devices.tokens != nil || p.devices.quota != 0):
		return cli.Usagef("--tokens and --share need --devices")
	}
	return nil
}

// placement prints which layers the GPU computes.
func (p *planFlags) placement(s *cli.Streams, path string, options llmrun.Options) error {
	on, err := llmrun.PlanPlacement(path, options)
	if err != nil {
		return err
	}
	if p.json {
		return s.Out.WriteJSON(on)
	}
	fmt.Fprintf(s.Out, "%-15s %s, %s of memory\n", "gpu", on.Device, cli.FormatBytes(on.Memory))
	fmt.Fprintf(s.Out, "%-15s the last %d of %d and the output matrix: %s, with keys and values of %d tokens\n", "layers on GPU", on.Layers, on.ModelLayers, cli.FormatBytes(on.Need), on.Context)
	fmt.Fprintf(s.Out, "%-15s %d and the embedding: %s of weights\n", "layers on CPU", on.ModelLayers-on.Layers, cli.FormatBytes(on.Host))
	return nil
}
