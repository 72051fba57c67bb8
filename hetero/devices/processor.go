package devices

import (
	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/hetero/cpu"
)

// processor offers the processor as the engine uses it, and in two groups of
// cores: the fast and the slow ones, where there are two kinds, or else halves,
// on which one can see what dividing is worth.
func processor() *Provider {
	return &Provider{Name: "cpu", Kind: hetero.CPU, Find: func() ([]Found, error) {
		fast, slow := hetero.CoreGroups()
		found := []Found{processorAs("cpu", cpu.Options{})}
		threads := hetero.DefaultThreads()
		switch {
		case len(slow) > 0:
			found = append(found,
				processorAs("cpu-fast", cpu.Options{Cores: fast}),
				processorAs("cpu-slow", cpu.Options{Cores: slow}))
		case threads > 1:
			found = append(found,
				processorAs("cpu-a", cpu.Options{Threads: threads - threads/2}),
				processorAs("cpu-b", cpu.Options{Threads: threads / 2}))
		}
		return found, nil
	}}
}

func processorAs(name string, group cpu.Options) Found {
	return Found{Name: name, Capabilities: group.Capabilities(), Slows: true, Open: func(o Options) (hetero.Device, error) {
		mine := group
		mine.Budget, mine.Slow = o.Budget, o.Slow
		return cpu.New(mine)
	}}
}
