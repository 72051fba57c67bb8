package main

import (
	"context"
	"fmt"

	"github.com/llmrun/llmrun"
)

func planCommand() *command {
	return &command{
		name:     "plan",
		synopsis: "[-m MODEL] [--ram SIZE] [--kv-ram SIZE] [--ctx N] [--kv FORMAT] [--device gpu | --devices LIST] [--json]",
		summary:  "show what of a model stays in memory, and how fast it will be",
		about: `Divides a budget of memory for a model without loading it: what stays, what is read from flash while the model runs, and how fast that will be. A model that does not fit is not refused: its weights pass through memory, and the more of them stays the faster it is. Only a budget below the least that any plan needs is refused, with the items of which that consists.

Speeds are predicted from what this machine reaches, measured once with its own files and kept with the imported models.

--device gpu, or gpu: and part of a device's name, tells instead how many of the model's layers that GPU's memory holds, and how much of the model stays in the machine's memory. It prints, with --json, {"device":…,"layers":…,"of":…,"context":…,"held_bytes":…,"need_bytes":…,"memory_bytes":…,"here_bytes":…}.

--devices plans something else: how each matrix product of the model would be divided between two devices of llmrun devices, for several numbers of tokens, beside each device alone. It uses what llmrun profile measured, and measures what is missing. llmrun run --device cpu+NAME divides a model so, by rows.`,
		examples: []example{
			{"llmrun plan -m model.gguf", "in all the memory that is available"},
			{"llmrun plan -m model.gguf --ram 1.5GiB --ctx 4K", "in so much of it"},
			{"llmrun plan -m model.gguf --ram 50% --json", "in half of the memory that is available, for a script"},
			{"llmrun plan -m model.gguf --measure", "measure the machine again"},
			{"llmrun plan -m model.gguf --device gpu --ctx 8K", "how many layers fit on the GPU beside a context of that length"},
			{"llmrun plan -m model.gguf --devices cpu-a,cpu-b", "how two groups of cores would share its products"},
		},
		prepare: func(f *flagSet) action {
			p := &planFlags{}
			p.model.addModel(f)
			p.model.addThreads(f)
			p.model.addKV(f)
			p.model.addSelect(f)
			p.model.addContext(f)
			f.group("Plan")
			addRAM(f, &p.ram)
			addKVRAM(f, &p.kvRAM)
			p.model.addDisk(f)
			f.toggle(&p.measure, "measure", "measure the machine again")
			p.cache.addDir(f)
			f.group("Devices")
			f.text(&p.model.device, "device", "NAME", "gpu, or gpu: and part of a device's name: where the model's layers would be")
			p.model.addGPULayers(f)
			p.model.addDeviceMemory(f)
			p.devices.add(f)
			f.group("Output")
			f.toggle(&p.json, "json", "print one JSON object")
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

func (p *planFlags) run(ctx context.Context, s *streams, args []string) error {
	if err := noArguments(args); err != nil {
		return err
	}
	if err := p.check(); err != nil {
		return err
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	if p.devices.names != nil {
		return p.devices.plan(ctx, s, &p.model, &p.cache, p.measure, p.json)
	}
	path, options := p.model.source()
	if options.Device != "" {
		return p.placement(s, path, options)
	}
	p.cache.apply(&options)
	options.RAM, options.KVRAM = p.ram.bytes, p.kvRAM
	plan, err := llmrun.PlanMemory(ctx, path, options, p.measure)
	if err != nil {
		return interruption(ctx, err)
	}
	if p.json {
		return s.out.json(plan)
	}
	showPlan(s, plan, p.ram.of())
	return nil
}

// check refuses flags of one plan beside those of another.
func (p *planFlags) check() error {
	onDevice, divided := p.model.device != "", p.devices.names != nil
	switch {
	case onDevice && divided:
		return usagef("--device plans where layers are and --devices how products are divided: give one of them")
	case (onDevice || divided) && (p.ram.bytes != 0 || p.kvRAM != 0):
		return usagef("--ram and --kv-ram plan the machine's memory: leave them out with --device and --devices")
	case !divided && (p.devices.tokens != nil || p.devices.share != 0):
		return usagef("--tokens and --share belong to --devices")
	}
	return nil
}

// placement prints where the layers of a model would be.
func (p *planFlags) placement(s *streams, path string, options llmrun.Options) error {
	on, err := llmrun.PlanPlacement(path, options)
	if err != nil {
		return err
	}
	if p.json {
		return s.out.json(on)
	}
	fmt.Fprintf(s.out, "%-15s %s, %s of memory\n", "gpu", on.Device, formatBytes(on.Memory))
	fmt.Fprintf(s.out, "%-15s the last %d of %d and the output matrix: %s, with keys and values of %d tokens\n", "layers there", on.Layers, on.Of, formatBytes(on.Need), on.Context)
	fmt.Fprintf(s.out, "%-15s %d and the embedding: %s of weights\n", "layers here", on.Of-on.Layers, formatBytes(on.Here))
	return nil
}
