package threadpool

import (
	"fmt"
	"runtime"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// machine describes the processors of a Linux machine as in /proc and /sys.
type machine struct {
	allowed  string
	capacity []int    // per processor; nil: no file
	siblings []string // per processor; nil: no file
	hybrid   string   // Intel's list of performance cores
}

func (m machine) fs() fstest.MapFS {
	files := fstest.MapFS{}
	add := func(name, text string) { files[name] = &fstest.MapFile{Data: []byte(text + "\n")} }
	if m.allowed != "" {
		add("proc/self/status", "Name:\tllmrun\nCpus_allowed:\tff\nCpus_allowed_list:\t"+m.allowed)
	}
	for cpu, c := range m.capacity {
		add(fmt.Sprintf("sys/devices/system/cpu/cpu%d/cpu_capacity", cpu), fmt.Sprint(c))
	}
	for cpu, s := range m.siblings {
		add(fmt.Sprintf("sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu), s)
	}
	if m.hybrid != "" {
		add("sys/devices/cpu_core/cpus", m.hybrid)
	}
	return files
}

// hybrid returns the siblings of performance cores with two threads and efficiency cores with one.
func hybrid(performance, efficiency int) (siblings []string) {
	for core := range performance {
		list := fmt.Sprintf("%d-%d", 2*core, 2*core+1)
		siblings = append(siblings, list, list)
	}
	for core := range efficiency {
		siblings = append(siblings, fmt.Sprint(2*performance+core))
	}
	return siblings
}

func TestCoresFromSysfs(t *testing.T) {
	smt := []string{"0,4", "1,5", "2,6", "3,7", "0,4", "1,5", "2,6", "3,7"}
	for name, c := range map[string]struct {
		machine
		want int
	}{
		"no information":          {machine{}, 99},
		"invalid affinity":        {machine{allowed: "0-x"}, 99},
		"plain":                   {machine{allowed: "0-7"}, 8},
		"desktop with SMT":        {machine{allowed: "0-7", siblings: smt}, 4},
		"bound to five threads":   {machine{allowed: "0-4", siblings: smt}, 4},
		"small VM keeps siblings": {machine{allowed: "0-1", siblings: []string{"0-1", "0-1"}}, 2},
		"phone 1+3+4":             {machine{allowed: "0-7", capacity: []int{250, 250, 250, 250, 800, 800, 800, 1024}}, 4},
		"phone, little cores only": {
			machine{allowed: "0-3", capacity: []int{250, 250, 250, 250, 800, 800, 800, 1024}}, 4,
		},
		"hybrid laptop 2P+8E": {
			machine{allowed: "0-11", hybrid: "0-3", siblings: hybrid(2, 8)}, 10,
		},
		"hybrid laptop, performance cores only": {
			machine{allowed: "0-3", hybrid: "0-3", siblings: hybrid(2, 8)}, 2,
		},
		"hybrid desktop 8P+4E":    {machine{allowed: "0-19", hybrid: "0-15", siblings: hybrid(8, 4)}, 8},
		"hybrid, efficiency only": {machine{allowed: "4-11", hybrid: "0-3"}, 8},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, coresFromSysfs(c.fs(), 99))
		})
	}
}

func TestCoreGroups(t *testing.T) {
	capacity := []int{250, 250, 250, 250, 800, 800, 800, 1024}
	for name, c := range map[string]struct {
		machine
		fast, slow []int
	}{
		"no information":       {machine{}, nil, nil},
		"all alike":            {machine{allowed: "0-2"}, []int{0, 1, 2}, nil},
		"phone":                {machine{allowed: "0-7", capacity: capacity}, []int{4, 5, 6, 7}, []int{0, 1, 2, 3}},
		"bound to little ones": {machine{allowed: "0-1", capacity: capacity}, []int{0, 1}, nil},
		"hybrid laptop":        {machine{allowed: "0-5", hybrid: "0-3"}, []int{0, 1, 2, 3}, []int{4, 5}},
	} {
		fast, slow := coreGroups(c.fs())
		require.Equal(t, c.fast, fast, name)
		require.Equal(t, c.slow, slow, name)
	}
}

func TestParseCPUList(t *testing.T) {
	for list, want := range map[string][]int{
		"0":            {0},
		" 0-2,5,7-8\n": {0, 1, 2, 5, 7, 8},
		"":             nil, "a": nil, "3-1": nil, "-1": nil, "1,,2": nil, "0-999999999": nil, "0-65535,0": nil,
	} {
		require.Equal(t, want, parseCPUList(list), "%q", list)
	}
}

func TestDefaultThreads(t *testing.T) {
	n := DefaultThreads()
	require.GreaterOrEqual(t, n, 1)
	require.LessOrEqual(t, n, runtime.GOMAXPROCS(0))
}
