package main

import (
	"github.com/llmrun/llmrun/internal/cli"
	"github.com/llmrun/llmrun/internal/deviceplan"
)

func devicesCommand() *cli.Command {
	return &cli.Command{
		Name:     "devices",
		Synopsis: "[--json]",
		Summary:  "list the processors, GPUs and NPUs that products can be computed on",
		About: `Lists where matrix products can be computed on this machine: the processor, with the kernels and threads that it would use, its groups of cores, and the devices of drivers. A driver that is missing, that this program was built without, or of which not all devices can be used, is a line with the reason.

The processor appears as a whole (cpu), and as its fast and slow cores (cpu-fast, cpu-slow) or, where all are alike, as two halves (cpu-a, cpu-b): a plan can divide a product between them. An ending such as /4, in cpu-b/4, makes it four times slower, for experiments.

--json prints {"devices":[{"name":…,"kind":"CPU","driver":…,"description":…,"shares_memory":…,"static":…,"memory_bytes":…,"simulated":…}],"missing":[{"driver":…,"kind":…,"reason":…}]}.`,
		Examples: []cli.Example{
			{Line: "llmrun devices", Purpose: "what there is, and what is missing"},
			{Line: "llmrun devices --json", Purpose: "the same for a script"},
			{Line: "llmrun profile", Purpose: "measure them with the matmuls of a model"},
		},
		Prepare: func(f *cli.FlagSet) cli.Action {
			return cli.ShowAction(f, deviceplan.Devices, (*deviceplan.DeviceList).WriteTable)
		},
	}
}
