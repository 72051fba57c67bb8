package devices

import (
	"strings"

	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/hetero/cpu"
	"github.com/llmrun/llmrun/internal/threadpool"
)

// processor returns the provider of the CPU, as the engine uses it, and of two groups
// of its cores: the fast and the slow cores if there are two kinds, otherwise two
// halves, with which a user can measure splits.
func processor() *Provider {
	return &Provider{Name: "cpu", Kind: hetero.CPU, Find: func() ([]Found, error) {
		fast, slow := threadpool.CoreGroups()
		found := []Found{processorAs("cpu", cpu.Options{})}
		threads := threadpool.DefaultThreads()
		switch {
		case len(slow) > 0:
			found = append(found,
				processorAs("cpu-fast", cpu.Options{Cores: fast}),
				processorAs("cpu-slow", cpu.Options{Cores: slow}))
		case threads > 1:
			found = append(found,
				processorAs(firstHalf, cpu.Options{Threads: threads - threads/2}),
				processorAs(secondHalf, cpu.Options{Threads: threads / 2}))
		}
		return found, nil
	}}
}

// The halves of a CPU whose cores are of one kind.
const (
	firstHalf  = "cpu-a"
	secondHalf = "cpu-b"
)

// HostThreads returns the number of threads for the host if device is one half of the
// CPU. It returns 0 for other devices, beside which the host uses all threads.
func HostThreads(device string) int {
	base, _, _ := strings.Cut(device, "/")
	threads := threadpool.DefaultThreads()
	switch base {
	case firstHalf:
		return threads / 2
	case secondHalf:
		return threads - threads/2
	}
	return 0
}

func processorAs(name string, group cpu.Options) Found {
	return Found{Name: name, Capabilities: group.Capabilities(), CanSlow: true, Open: func(o Options) (hetero.Device, error) {
		mine := group
		mine.Budget, mine.Slow = o.Budget, o.Slow
		return cpu.New(mine)
	}}
}
