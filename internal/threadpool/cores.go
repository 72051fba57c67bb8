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

// DefaultThreads returns the default number of workers: one per fast physical core
// that the process may use, and at least one.
//
//   - Decoding is bound by memory, and the second thread of a core adds little
//     bandwidth and takes cache from the first.
//   - On big.LITTLE processors the little cores are excluded: they are several
//     times slower and share power and bandwidth with the big ones.
//   - On Intel's hybrid processors the efficiency cores are excluded only beside many
//     performance cores. Laptops have two of those and eight of the others, and
//     [Pool.RunRange] gives each core work by its measured rate.
//   - GOMAXPROCS is never exceeded, nor is the CPU quota of a control group, rounded
//     up.
//
// Where the system gives no information, the result is GOMAXPROCS.
func DefaultThreads() int {
	limit := processors
	return max(1, min(limit, fastCores(os.DirFS("/"), limit)))
}

// CoreGroups returns the CPUs that this process may use in two groups, the fast and
// the slow ones of big.LITTLE and hybrid processors. slow is empty where all are
// alike; both are empty where the system gives no information.
func CoreGroups() (fast, slow []int) { return coreGroups(os.DirFS("/")) }

// coreGroups implements CoreGroups for a file system with /proc and /sys.
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

// processors is how many threads can run at a time: GOMAXPROCS at program start, before
// ReserveForReaders raises it, or less with a CPU quota.
var processors = quotaThreads(os.DirFS("/"), runtime.GOMAXPROCS(0))

// ReserveForReaders permanently raises GOMAXPROCS, so that goroutines that read files
// run beside the workers. Go runs at most GOMAXPROCS goroutines at a time, and a
// worker releases its slot only when it sleeps. Without spare slots, a reader whose
// read has completed would wait for a slot until the end of the layer before it submits
// the next read, and the flash would be idle. With spare slots the system's scheduler
// runs the reader at once, for the few microseconds that it needs.
func ReserveForReaders(readers int) {
	if want := processors + readers; runtime.GOMAXPROCS(0) < want {
		runtime.GOMAXPROCS(want)
	}
}

// smtThreshold is the number of CPUs above which the SMT siblings of one core count as
// one. A machine with fewer CPUs is most likely a small virtual machine, whose sibling
// lists often do not describe the hardware.
const smtThreshold = 4

// coresFromSysfs counts the physical cores to use, from Linux's /proc and /sys below root.
// It returns fallback when they are missing or unreadable (Android hides parts of
// them from apps).
func coresFromSysfs(root fs.FS, fallback int) int {
	cpus := allowedCPUs(root)
	if len(cpus) == 0 {
		return fallback
	}
	fast := fastest(root, cpus)
	n := physicalCores(root, fast)
	if isHybrid(root) && n < enoughCores {
		slow := slices.DeleteFunc(slices.Clone(cpus), func(cpu int) bool { return slices.Contains(fast, cpu) })
		n += physicalCores(root, slow)
	}
	return n
}

// physicalCores counts the physical cores of some CPUs.
func physicalCores(root fs.FS, cpus []int) int {
	if len(cpus) <= smtThreshold && !isHybrid(root) {
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

// enoughCores is the number of performance cores beside which efficiency cores are left
// out. It is chosen, not measured: no hybrid processor was available.
const enoughCores = 6

// performanceCPUs returns the CPUs of the performance cores of Intel's hybrid processors,
// nil for other processors.
func performanceCPUs(root fs.FS) []int {
	return parseCPUList(readLine(root, "sys/devices/cpu_core", "cpus"))
}

func isHybrid(root fs.FS) bool { return len(performanceCPUs(root)) > 0 }

// cpuDir returns the sysfs directory of a CPU.
func cpuDir(cpu int) string { return "sys/devices/system/cpu/cpu" + strconv.Itoa(cpu) }

// allowedCPUs returns the CPUs that this process may run on.
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

// fastest drops the CPUs with less than half of the highest capacity. On Intel's
// hybrid processors it drops all but the performance cores.
func fastest(root fs.FS, cpus []int) []int {
	selected := make([]int, 0, len(cpus))
	if performance := performanceCPUs(root); len(performance) > 0 {
		for _, cpu := range cpus {
			if slices.Contains(performance, cpu) {
				selected = append(selected, cpu)
			}
		}
	} else {
		capacity := make([]int, len(cpus)) // [cpus]; 0: unknown
		greatest := 0
		for i, cpu := range cpus {
			capacity[i], _ = strconv.Atoi(readLine(root, cpuDir(cpu), "cpu_capacity"))
			greatest = max(greatest, capacity[i])
		}
		for i, cpu := range cpus {
			if capacity[i]*2 >= greatest {
				selected = append(selected, cpu)
			}
		}
	}
	if len(selected) == 0 { // the process may use efficiency cores only
		return cpus
	}
	return selected
}

// readLine returns the text of a small file without surrounding white space, ""
// when the file cannot be read.
func readLine(root fs.FS, dir, name string) string {
	text, err := fs.ReadFile(root, path.Join(dir, name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// maxCPU bounds the list that parseCPUList expands; Linux itself stops at 8192.
const maxCPU = 1 << 16

// parseCPUList expands the kernel's notation, such as "0-3,8,10-11". It returns nil
// for invalid text.
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
