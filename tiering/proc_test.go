package tiering

import (
	"math"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func TestAvailableFromProc(t *testing.T) {
	const meminfo = "MemTotal: 24000 kB\nMemFree: 9 kB\nMemAvailable:   16000 kB\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"nothing known": {nil, math.MaxInt64},
		"machine":       {map[string]string{"proc/meminfo": meminfo}, 16000 * 1024},
		"no limits": {map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n",
		}, 16000 * 1024},
		"version 2": {map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a/b\n",
			"sys/fs/cgroup/a/b/memory.max": "9000000\n", "sys/fs/cgroup/a/b/memory.current": "3000000\n",
			"sys/fs/cgroup/a/b/memory.stat": "anon 1\ninactive_file 500000\nactive_file 400000\nfile 77\n",
		}, 6_900_000},
		"version 2, the group above is tighter": {map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a/b\n",
			"sys/fs/cgroup/a/b/memory.max": "9000000\n", "sys/fs/cgroup/a/b/memory.current": "3000000\n",
			"sys/fs/cgroup/a/memory.max": "4000000\n", "sys/fs/cgroup/a/memory.current": "3100000\n",
		}, 900_000},
		"version 2, soft limit": {map[string]string{
			"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "max",
			"sys/fs/cgroup/a/memory.high": "5000", "sys/fs/cgroup/a/memory.current": "0",
		}, 5000},
		"a container sees its group at the root": {map[string]string{
			"proc/self/cgroup": "0::/docker/123\n", "sys/fs/cgroup/memory.max": "7000", "sys/fs/cgroup/memory.current": "1000",
		}, 6000},
		"more is used than the limit": {map[string]string{
			"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "7000", "sys/fs/cgroup/memory.current": "8000",
		}, 0},
		"version 1": {map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "12:cpu,cpuacct:/x\n9:memory:/x\n",
			"sys/fs/cgroup/memory/x/memory.limit_in_bytes": "8000000", "sys/fs/cgroup/memory/x/memory.usage_in_bytes": "2000000",
			"sys/fs/cgroup/memory/x/memory.stat": "inactive_file 5\ntotal_inactive_file 1000000\n",
		}, 7_000_000},
		"version 1 without a limit": {map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "9:memory:/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712", "sys/fs/cgroup/memory/memory.usage_in_bytes": "1",
		}, 16000 * 1024},
		"nonsense": {map[string]string{
			"proc/meminfo": "MemAvailable: much\n", "proc/self/cgroup": "0:/\n:\n0::../..\n", "sys/fs/cgroup/memory.max": "-5",
		}, math.MaxInt64},
	} {
		t.Run(name, func(t *testing.T) {
			root := fstest.MapFS{}
			for path, text := range c.files {
				root[path] = &fstest.MapFile{Data: []byte(text)}
			}
			require.Equal(t, c.want, availableFromProc(root))
		})
	}
}

func TestAvailableIsUsable(t *testing.T) {
	n := Available()
	require.GreaterOrEqual(t, n, int64(0))
	require.Less(t, n, int64(1)<<50)
}
