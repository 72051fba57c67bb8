package main

import (
	"github.com/llmrun/llmrun/internal/cli"
	"github.com/llmrun/llmrun/internal/deviceplan"
)

func devicesCommand() *cli.Command {
	return &cli.Command{
		Name:     "devices",
		Synopsis: "[--json]",
		Summary:  "list the processors, GPUs and NPUs that can compute matmuls",
		About: `Lists the devices of this machine that can compute matmuls: the processor with its kernels and threads, its groups of cores, and the devices of drivers. If a driver is missing, is not in this build, or has devices that cannot be used, a line states the reason.

The processor appears as a whole (cpu), and as its fast and slow cores (cpu-fast, cpu-slow) or, if all cores are equal, as two halves (cpu-a, cpu-b), so that a plan can split a matmul between them. A suffix such as /4, in cpu-b/4, makes a device four times slower, for experiments.

--json prints {"devices":[{"name":…,"kind":"CPU","driver":…,"description":…,"shares_memory":…,"static":…,"memory_bytes":…,"simulated":…}],"missing":[{"driver":…,"kind":…,"reason":…}]}.`,
		Examples: []cli.Example{
			{Line: "llmrun devices", Purpose: "list devices and missing drivers"},
			{Line: "llmrun devices --json", Purpose: "the same for a script"},
			{Line: "llmrun profile", Purpose: "measure them with the matmuls of a model"},
		},
		Prepare: func(f *cli.FlagSet) cli.Action {
			return cli.ShowAction(f, deviceplan.Devices, (*deviceplan.DeviceList).WriteTable)
		},
	}
}
