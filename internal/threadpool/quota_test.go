package threadpool

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func TestQuotaThreads(t *testing.T) {
	const (
		v1  = "sys/fs/cgroup/cpu"
		v2  = "sys/fs/cgroup"
		max = 16
	)
	for name, c := range map[string]struct {
		groups string            // of /proc/self/cgroup
		files  map[string]string // quotas
		want   int
	}{
		"no information": {"", nil, max},
		"no quota":       {"0::/a", map[string]string{v2 + "/a/cpu.max": "max 100000"}, max},
		"one and a half": {"0::/a", map[string]string{v2 + "/a/cpu.max": "150000 100000"}, 2},
		"two exactly":    {"0::/a", map[string]string{v2 + "/a/cpu.max": "200000 100000"}, 2},
		"a little more":  {"0::/a", map[string]string{v2 + "/a/cpu.max": "200001 100000"}, 3},
		"half":           {"0::/a", map[string]string{v2 + "/a/cpu.max": "50000 100000"}, 1},
		"another period": {"0::/a", map[string]string{v2 + "/a/cpu.max": "30000 10000"}, 3},
		"more than the machine": {
			"0::/a", map[string]string{v2 + "/a/cpu.max": "9000000 100000"}, max,
		},
		"of a group above": {
			"0::/a/b/c", map[string]string{v2 + "/a/b/c/cpu.max": "max 100000", v2 + "/a/cpu.max": "350000 100000"}, 4,
		},
		"the tightest": {
			"0::/a/b", map[string]string{v2 + "/a/b/cpu.max": "450000 100000", v2 + "/a/cpu.max": "250000 100000"}, 3,
		},
		"container that sees itself at the root": {"0::/docker/1234", map[string]string{v2 + "/cpu.max": "150000 100000"}, 2},
		"version 1": {
			"5:memory:/m\n4:cpu,cpuacct:/a\n0::/u",
			map[string]string{v1 + "/a/cpu.cfs_quota_us": "150000", v1 + "/a/cpu.cfs_period_us": "100000"},
			2,
		},
		"version 1 without a quota": {
			"4:cpu:/", map[string]string{v1 + "/cpu.cfs_quota_us": "-1", v1 + "/cpu.cfs_period_us": "100000"}, max,
		},
		"other controllers": {
			"6:cpuset,cpuacct:/a", map[string]string{v1 + "/a/cpu.cfs_quota_us": "100000", v1 + "/a/cpu.cfs_period_us": "100000"}, max,
		},
		"invalid":  {"nonsense\n0::/a", map[string]string{v2 + "/a/cpu.max": "a lot"}, max},
		"no limit": {"0::/a", map[string]string{v2 + "/a/cpu.max": "9223372036854775807 1"}, max},
	} {
		t.Run(name, func(t *testing.T) {
			root := fstest.MapFS{"proc/self/cgroup": &fstest.MapFile{Data: []byte(c.groups + "\n")}}
			for path, text := range c.files {
				root[path] = &fstest.MapFile{Data: []byte(text + "\n")}
			}
			require.Equal(t, c.want, quotaThreads(root, max))
		})
	}
}

// TestWorkersBeyondTheQuotaDoNotSpin checks that waiters spin only in pools whose workers
// all have processor time: spinning would use up the quota of the worker they wait for.
func TestWorkersBeyondTheQuotaDoNotSpin(t *testing.T) {
	root := fstest.MapFS{
		"proc/self/cgroup":        &fstest.MapFile{Data: []byte("0::/a\n")},
		"sys/fs/cgroup/a/cpu.max": &fstest.MapFile{Data: []byte("max 100000\n")},
		"sys/fs/cgroup/cpu.max":   &fstest.MapFile{Data: []byte("150000 100000\n")},
	}
	limit := quotaThreads(root, 16)
	require.Equal(t, maxSpin, spinTime(2, limit))
	require.Zero(t, spinTime(3, limit))
}
