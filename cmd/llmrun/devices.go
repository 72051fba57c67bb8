package main

import "github.com/llmrun/llmrun/cmd/llmrun/measure"

func devicesCommand() *command {
	return &command{
		name:     "devices",
		synopsis: "[--json]",
		summary:  "list the processors, GPUs and NPUs that products can be computed on",
		about: `Lists where matrix products can be computed on this machine: the processor, with the kernels and threads that it would use, its groups of cores, and the devices of drivers. A driver that is missing, that this program was built without, or of which not all devices can be used, is a line with the reason.

The processor appears as a whole (cpu), and as its fast and slow cores (cpu-fast, cpu-slow) or, where all are alike, as two halves (cpu-a, cpu-b): a plan can divide a product between them. An ending such as /4, in cpu-b/4, makes it four times slower, for experiments.

--json prints {"devices":[{"name":…,"kind":"CPU","driver":…,"description":…,"shares_memory":…,"static":…,"memory_bytes":…,"simulated":…}],"missing":[{"driver":…,"kind":…,"reason":…}]}.`,
		examples: []example{
			{"llmrun devices", "what there is, and what is missing"},
			{"llmrun devices --json", "the same for a script"},
			{"llmrun bench devices", "what dividing a product among cores gains"},
		},
		prepare: func(f *flagSet) action {
			return showing(f, measure.Devices, (*measure.DeviceList).WriteTable)
		},
	}
}
