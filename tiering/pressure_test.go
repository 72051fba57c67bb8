package tiering

import (
	"math"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
)

func files(texts map[string]string) fstest.MapFS {
	root := fstest.MapFS{}
	for path, text := range texts {
		root[path] = &fstest.MapFile{Data: []byte(text)}
	}
	return root
}

func TestReadSigns(t *testing.T) {
	const psi = "some avg10=0.00 avg60=0.00 avg300=0.11 total=25348059\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=9358520\n"
	const meminfo = "MemTotal: 24000 kB\nMemAvailable:   16000 kB\n"
	group := map[string]string{
		"proc/pressure/memory": psi, "proc/self/cgroup": "9:memory:/x\n0::/a\n", "proc/meminfo": meminfo,
		"sys/fs/cgroup/a/memory.max": "64000", "sys/fs/cgroup/a/memory.high": "max",
		"sys/fs/cgroup/a/memory.current": "63000", "sys/fs/cgroup/a/memory.events": "low 1\nhigh 20\nmax 300\noom 4000\n",
		"sys/fs/cgroup/a/memory.pressure": "some avg10=0.00 avg60=0.00 avg300=0.11 total=7\n",
	}
	require.Equal(t, Signs{7 * time.Microsecond, 300, 16000 << 10, 24000 << 10, 1000, 64000}, ReadSigns(files(group)))
	group["sys/fs/cgroup/a/memory.high"] = "63500"
	require.EqualValues(t, 320, ReadSigns(files(group)).Limited)
	group["sys/fs/cgroup/a/memory.stat"] = "inactive_file 9000\n"
	require.Zero(t, ReadSigns(files(group)).Limited, "page cache is not pressure")

	delete(group, "sys/fs/cgroup/a/memory.pressure")
	require.Equal(t, 25348059*time.Microsecond, ReadSigns(files(group)).Stalled)
	require.Equal(t, Signs{Available: math.MaxInt64, Left: math.MaxInt64}, ReadSigns(files(nil)))
	require.Equal(t, Signs{Available: math.MaxInt64, Left: math.MaxInt64}, ReadSigns(files(map[string]string{
		"proc/pressure/memory": "some total=x\nsome\n\n", "proc/meminfo": "MemAvailable: 99999999999999999 kB\nMemTotal\n",
	})))
}

// TestSignsOfGroups checks the limits of control groups of both versions and of their
// ancestors.
func TestSignsOfGroups(t *testing.T) {
	for name, c := range map[string]struct {
		files       map[string]string
		left, limit int64
	}{
		"version 1": {map[string]string{
			"proc/self/cgroup": "12:cpu,cpuacct:/x\n9:memory:/x\n", "sys/fs/cgroup/memory/x/memory.limit_in_bytes": "8000000",
			"sys/fs/cgroup/memory/x/memory.usage_in_bytes": "7900000", "sys/fs/cgroup/memory/x/memory.stat": "total_inactive_file 50000\n",
		}, 150000, 8000000},
		"version 1 without a limit": {map[string]string{
			"proc/self/cgroup": "9:memory:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
			"sys/fs/cgroup/memory/memory.usage_in_bytes": "1",
		}, math.MaxInt64, 0},
		"version 2, high is lower": {map[string]string{
			"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "9000", "sys/fs/cgroup/a/b/memory.high": "8000",
			"sys/fs/cgroup/a/b/memory.current": "7000",
		}, 1000, 8000},
		"the group above is tighter": {map[string]string{
			"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "9000", "sys/fs/cgroup/a/b/memory.current": "7000",
			"sys/fs/cgroup/a/memory.max": "9500", "sys/fs/cgroup/a/memory.current": "9400",
		}, 100, 9500},
		"a container sees its group at the root": {map[string]string{
			"proc/self/cgroup": "0::/docker/1\n", "sys/fs/cgroup/memory.max": "9000", "sys/fs/cgroup/memory.current": "8500",
		}, 500, 9000},
		"no limit": {map[string]string{
			"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "max", "sys/fs/cgroup/a/memory.current": "7000",
		}, math.MaxInt64, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := ReadSigns(files(c.files))
			require.Equal(t, []int64{c.left, c.limit}, []int64{s.Left, s.Limit})
		})
	}
}

func TestGovernor(t *testing.T) {
	const held, most = 800 * mib, 1000 * mib
	easy := Signs{Available: 8 << 30, Total: 16 << 30}
	now := time.Unix(1000, 0)
	start := func() *Governor {
		g := &Governor{}
		require.EqualValues(t, most, g.Step(now, easy, held, most, most), "the first signs are the reference")
		return g
	}
	for name, signs := range map[string]Signs{
		"tasks waited":      {Available: 8 << 30, Total: 16 << 30, Stalled: 200 * time.Millisecond},
		"limit reached":     {Available: 8 << 30, Total: 16 << 30, Limited: 1},
		"little is left":    {Available: 500 * mib, Total: 16 << 30},
		"its group is full": {Available: 8 << 30, Total: 16 << 30, Left: 20 * mib, Limit: 1 << 30},
	} {
		t.Run(name, func(t *testing.T) {
			g := start()
			require.EqualValues(t, 700*mib, g.Step(now.Add(time.Second), signs, held, most, most))
		})
	}
	g := start()
	waited := easy
	waited.Stalled = 50 * time.Millisecond
	require.EqualValues(t, most, g.Step(now.Add(time.Second), waited, held, most, most), "short stalls are normal")

	g = start()
	low := Signs{Available: 300 * mib, Total: 16 << 30}
	require.EqualValues(t, (800-212)*mib, g.Step(now.Add(time.Second), low, held, most, most), "releases the missing amount")
	low.Available = 0
	require.EqualValues(t, 400*mib, g.Step(now.Add(2*time.Second), low, held, most, most), "at most half at a time")

	// The limit grows slowly, without pressure and with enough available memory.
	limit, at := int64(400*mib), now.Add(2*time.Second)
	grown := []int64{}
	for limit < most {
		at = at.Add(time.Second)
		require.Less(t, at.Sub(now), 5*time.Minute)
		if next := g.Step(at, easy, limit, limit, most); next != limit {
			grown = append(grown, next/mib)
			limit = next
		}
	}
	require.Equal(t, []int64{525, 650, 775, 900, 1000}, grown)
	require.GreaterOrEqual(t, at.Sub(now), 5*calmTime)
	require.EqualValues(t, most, g.Step(at.Add(time.Hour), easy, most, most, most))

	g = start()
	full := easy
	full.Left, full.Limit = 0, 4<<30
	require.EqualValues(t, (800-128)*mib, g.Step(now.Add(time.Second), full, held, most, most), "releases the amount missing in the group")
	full.Left = 250 * mib
	require.EqualValues(t, 400*mib, g.Step(now.Add(time.Minute), full, 400*mib, 400*mib, most), "too little memory to grow")
	full.Left = 276 * mib
	require.EqualValues(t, 410*mib, g.Step(now.Add(2*time.Minute), full, 400*mib, 400*mib, most), "half of the spare memory")

	g = start()
	scarce := Signs{Available: 800 * mib, Total: 16 << 30}
	require.EqualValues(t, 400*mib, g.Step(now.Add(time.Minute), scarce, 400*mib, 400*mib, most), "too little memory to grow")
}
