package threadpool

import (
	"io/fs"
	"os"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// DefaultThreads returns how many workers suit this machine: one for every fast
// physical core that the process may use, and at least one.
//
//   - Decoding waits for memory, and two threads of one core wait for the same
//     loads: the second adds little and takes the first one's cache.
//   - On big.LITTLE processors the little cores are left out: they are slower by
//     a factor and share power and bandwidth with the big ones.
//   - GOMAXPROCS is never exceeded. Go's runtime derives it from the affinity
//     mask and the container's CPU quota.
//
// Where the system does not tell, GOMAXPROCS is the answer.
func DefaultThreads() int {
	limit := processors
	return max(1, min(limit, fastCores(os.DirFS("/"), limit)))
}

// CoreGroups returns the processors that this process may use in two groups, the
// fast and the slow ones of big.LITTLE and hybrid processors. There are no slow
// ones where all are alike, and none at all where the system does not tell.
func CoreGroups() (fast, slow []int) { return coreGroups(os.DirFS("/")) }

func coreGroups(root fs.FS) (fast, slow []int) {
	all := allowedCPUs(root)
	if len(all) == 0 {
		return nil, nil
	}
	fast = fastest(root, all)
	for _, cpu := range all {
		if !slices.Contains(fast, cpu) {
			slow = append(slow, cpu)
		}
	}
	return fast, slow
}

// processors is what Go's runtime found at the start, before ReserveForReaders.
var processors = runtime.GOMAXPROCS(0)

// ReserveForReaders lets so many goroutines that read files run beside the workers. Go
// runs no more goroutines at a time than GOMAXPROCS says, and a worker gives its
// place up only when it waits: a reader whose read has ended would stand in line
// behind a whole layer before it asked for the next piece, and the flash would be
// idle as long. With places to spare the system's own scheduler lets it in at once,
// for the few microseconds that it needs. GOMAXPROCS is raised and stays so.
func ReserveForReaders(readers int) {
	if want := processors + readers; runtime.GOMAXPROCS(0) < want {
		runtime.GOMAXPROCS(want)
	}
}

// smtThreshold is the number of processors above which siblings of one core count
// once. Up to it they are most likely a small virtual machine's whole share,
// whose sibling lists often do not describe the hardware.
const smtThreshold = 4

// coresFromSysfs counts fast physical cores from Linux's /proc and /sys, given as
// root. It returns fallback when they are not there or cannot be read (Android
// hides parts of them from apps).
func coresFromSysfs(root fs.FS, fallback int) int {
	cpus := allowedCPUs(root)
	if len(cpus) == 0 {
		return fallback
	}
	cpus = fastest(root, cpus)
	if len(cpus) <= smtThreshold {
		return len(cpus)
	}
	cores := make(map[string]bool)
	for _, cpu := range cpus {
		siblings := readLine(root, cpuDir(cpu), "topology/thread_siblings_list")
		if siblings == "" {
			return len(cpus)
		}
		cores[siblings] = true
	}
	return len(cores)
}

func cpuDir(cpu int) string { return "sys/devices/system/cpu/cpu" + strconv.Itoa(cpu) }

// allowedCPUs returns the processors that this process may run on.
func allowedCPUs(root fs.FS) []int {
	status, err := fs.ReadFile(root, "proc/self/status")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(status)) {
		if list, ok := strings.CutPrefix(line, "Cpus_allowed_list:"); ok {
			return parseCPUList(list)
		}
	}
	return nil
}

// fastest leaves out the processors with less than half of the greatest
// capacity, and on Intel's hybrid processors all but the performance cores.
func fastest(root fs.FS, cpus []int) []int {
	keep := make([]int, 0, len(cpus))
	if performance := parseCPUList(readLine(root, "sys/devices/cpu_core", "cpus")); len(performance) > 0 {
		isPerformance := make(map[int]bool)
		for _, cpu := range performance {
			isPerformance[cpu] = true
		}
		for _, cpu := range cpus {
			if isPerformance[cpu] {
				keep = append(keep, cpu)
			}
		}
	} else {
		capacity := make([]int, len(cpus)) // [cpus], 0 where unknown
		greatest := 0
		for i, cpu := range cpus {
			capacity[i], _ = strconv.Atoi(readLine(root, cpuDir(cpu), "cpu_capacity"))
			greatest = max(greatest, capacity[i])
		}
		for i, cpu := range cpus {
			if capacity[i]*2 >= greatest {
				keep = append(keep, cpu)
			}
		}
	}
	if len(keep) == 0 { // bound to efficiency cores: then those are ours
		return cpus
	}
	return keep
}

// readLine returns a small file's text without white space around it, "" when
// it cannot be read.
func readLine(root fs.FS, dir, name string) string {
	text, err := fs.ReadFile(root, path.Join(dir, name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// maxCPU bounds what parseCPUList expands; Linux itself stops at 8192.
const maxCPU = 1 << 16

// parseCPUList expands the kernel's notation, such as "0-3,8,10-11". It returns
// nil for anything else.
func parseCPUList(list string) []int {
	var cpus []int
	for part := range strings.SplitSeq(strings.TrimSpace(list), ",") {
		first, last, isRange := strings.Cut(part, "-")
		lo, err := strconv.Atoi(first)
		hi := lo
		if err == nil && isRange {
			hi, err = strconv.Atoi(last)
		}
		if err != nil || lo < 0 || hi < lo || hi >= maxCPU || len(cpus)+hi-lo >= maxCPU {
			return nil
		}
		for cpu := lo; cpu <= hi; cpu++ {
			cpus = append(cpus, cpu)
		}
	}
	return cpus
}
