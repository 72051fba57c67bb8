package tiering

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func TestMachineFromProc(t *testing.T) {
	const meminfo = "MemTotal: 24000 kB\nMemAvailable:   16000 kB\n"
	for name, test := range map[string]struct {
		files map[string]string
		want  Machine
	}{
		"nothing known": {nil, Machine{}},
		"no limits": {
			map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n", "sys/fs/cgroup/cpu.max": "max 100000\n"},
			Machine{Total: 24000 * 1024},
		},
		"limits of an ancestor": {
			map[string]string{
				"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a/b\n",
				"sys/fs/cgroup/a/memory.max": "4096000\n", "sys/fs/cgroup/a/b/memory.max": "8192000\n",
				"sys/fs/cgroup/a/cpu.max": "150000 100000\n", "sys/fs/cgroup/a/b/cpu.max": "400000 100000\n",
			},
			Machine{Total: 24000 * 1024, Limit: 4096000, Processors: 1.5},
		},
		"version 1": {
			map[string]string{
				"proc/meminfo": meminfo, "proc/self/cgroup": "9:memory:/docker/x\n4:cpu:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
				"sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes": "1024000\n",
			},
			Machine{Total: 24000 * 1024, Limit: 1024000},
		},
		"version 1 without a limit": {
			map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "9:memory:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"},
			Machine{Total: 24000 * 1024},
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := fstest.MapFS{}
			for path, text := range test.files {
				root[path] = &fstest.MapFile{Data: []byte(text)}
			}
			require.Equal(t, test.want, machineFromProc(root))
		})
	}
}
