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
		Summary:  "show what of a model stays in memory, and how fast it will be",
		About: `Divides a budget of memory for a model without loading it: what stays, what is read from flash while the model runs, and how fast that will be. A model that does not fit is not refused: its weights pass through memory, and the more of them stays the faster it is. Only a budget below the least that any plan needs is refused, with the items of which that consists.

Speeds are predicted from what this machine reaches, measured once with its own files and kept with the imported models.

--device gpu, or gpu: and part of a device's name, tells instead how many of the model's layers that GPU's memory holds, and how much of the model stays in the machine's memory. It prints, with --json, {"device":…,"layers":…,"of":…,"context":…,"held_bytes":…,"need_bytes":…,"memory_bytes":…,"here_bytes":…}.

--devices plans something else: how each matrix product of the model would be divided between two devices of llmrun devices, for several numbers of tokens, beside each device alone. It uses what llmrun profile measured, and measures what is missing. llmrun run --device cpu+NAME divides a model so, by rows.`,
		Examples: []cli.Example{
			{Line: "llmrun plan -m model.gguf", Purpose: "in all the memory that is available"},
			{Line: "llmrun plan -m model.gguf --ram 1.5GiB --ctx 4K", Purpose: "in so much of it"},
			{Line: "llmrun plan -m model.gguf --ram 50% --json", Purpose: "in half of the memory that is available, for a script"},
			{Line: "llmrun plan -m model.gguf --measure", Purpose: "measure the machine again"},
			{Line: "llmrun plan -m model.gguf --device gpu --ctx 8K", Purpose: "how many layers fit on the GPU beside a context of that length"},
			{Line: "llmrun plan -m model.gguf --devices cpu-a,cpu-b", Purpose: "how two groups of cores would share its products"},
		},
		Prepare: func(f *cli.FlagSet) cli.Action {
			p := &planFlags{}
			p.model.addModel(f)
			p.model.addThreads(f)
			p.model.addKV(f)
			p.model.addSelect(f)
			p.model.addContext(f)
			f.Group("Plan")
			addRAM(f, &p.ram)
			addKVRAM(f, &p.kvRAM)
			p.model.addDisk(f)
			f.Toggle(&p.measure, "measure", "measure the machine again")
			p.cache.addDir(f)
			f.Group("Devices")
			f.Text(&p.model.device, "device", "NAME", "gpu, or gpu: and part of a device's name: where the model's layers would be")
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
	kvRAM   int64 // as llmrun.Options has it
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
	path, options := p.model.source()
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

// check refuses flags of one plan beside those of another.
func (p *planFlags) check() error {
	onDevice, divided := p.model.device != "", p.devices.names != nil
	switch {
	case onDevice && !isGPU(p.model.device):
		return cli.Usagef("--device: must be gpu, or gpu: and part of a device's name, not %q", p.model.device)
	case onDevice && divided:
		return cli.Usagef("--device plans where layers are and --devices how products are divided: give one of them")
	case (onDevice || divided) && (p.ram.bytes != 0 || p.kvRAM != 0):
		return cli.Usagef("--ram and --kv-ram plan the machine's memory: leave them out with --device and --devices")
	case p.model.layers != 0 && !onDevice:
		return cli.Usagef("--gpu-layers needs --device gpu")
	case p.model.deviceMemory != 0 && !onDevice:
		return cli.Usagef("--device-memory needs --device gpu")
	case !divided && (p.devices.tokens != nil || p.devices.quota != 0):
		return cli.Usagef("--tokens and --share belong to --devices")
	}
	return nil
}

// placement prints where the layers of a model would be.
func (p *planFlags) placement(s *cli.Streams, path string, options llmrun.Options) error {
	on, err := llmrun.PlanPlacement(path, options)
	if err != nil {
		return err
	}
	if p.json {
		return s.Out.WriteJSON(on)
	}
	fmt.Fprintf(s.Out, "%-15s %s, %s of memory\n", "gpu", on.Device, cli.FormatBytes(on.Memory))
	fmt.Fprintf(s.Out, "%-15s the last %d of %d and the output matrix: %s, with keys and values of %d tokens\n", "layers there", on.Layers, on.ModelLayers, cli.FormatBytes(on.Need), on.Context)
	fmt.Fprintf(s.Out, "%-15s %d and the embedding: %s of weights\n", "layers here", on.ModelLayers-on.Layers, cli.FormatBytes(on.Host))
	return nil
}
