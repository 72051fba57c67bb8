package tiering

import (
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"
	"time"
)

// availableFromProc returns the memory that Linux, whose files are in root, can give
// to this process: the machine's available memory or, if less, what the limits of its
// control groups leave. math.MaxInt64 means unknown.
func availableFromProc(root fs.FS) int64 {
	free, _ := machineMemory(root)
	for line := range strings.Lines(readText(root, "proc/self/cgroup")) {
		// "0::/user.slice" in version 2, "9:memory:/docker/…" in version 1.
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		switch {
		case fields[0] == "0" && fields[1] == "":
			free = min(free, groupsAvailable(root, "sys/fs/cgroup", fields[2], groupV2))
		case hasWord(fields[1], "memory"):
			free = min(free, groupsAvailable(root, "sys/fs/cgroup/memory", fields[2], groupV1))
		}
	}
	return free
}

// machineMemory returns the available and the total memory of the machine,
// math.MaxInt64 and 0 if unknown.
func machineMemory(root fs.FS) (available, total int64) {
	available = math.MaxInt64
	for line := range strings.Lines(readText(root, "proc/meminfo")) {
		name, value, _ := strings.Cut(line, ":")
		kb, ok := parseAmount(strings.TrimSuffix(strings.TrimSpace(value), " kB"))
		switch {
		case !ok || kb > math.MaxInt64/1024:
		case name == "MemAvailable":
			available = kb * 1024
		case name == "MemTotal":
			total = kb * 1024
		}
	}
	return available, total
}

// groupFiles names the files of a control group. reclaimable names the lines of
// memory.stat that count file pages, which the kernel drops on demand.
type groupFiles struct {
	limits, reclaimable []string
	usage               string
}

var (
	groupV2 = groupFiles{[]string{"memory.max", "memory.high"}, []string{"inactive_file", "active_file"}, "memory.current"}
	groupV1 = groupFiles{[]string{"memory.limit_in_bytes"}, []string{"total_inactive_file", "total_active_file"}, "memory.usage_in_bytes"}
)

// groupsAvailable returns the memory that a control group and all its ancestors
// leave. A container may see its own group at the root of the hierarchy instead of at
// the path that the kernel names; the function checks both.
func groupsAvailable(root fs.FS, mount, group string, files groupFiles) int64 {
	free := int64(math.MaxInt64)
	for dir := path.Join("/", group); ; dir = path.Dir(dir) {
		free = min(free, groupAvailable(root, path.Join(mount, dir), files))
		if dir == "/" {
			return free
		}
	}
}

// groupLimit returns the lowest limit of one control group, math.MaxInt64 if it has
// none.
func groupLimit(root fs.FS, dir string, files groupFiles) int64 {
	limit := int64(math.MaxInt64)
	for _, name := range files.limits {
		if n, ok := parseAmount(readText(root, path.Join(dir, name))); ok { // not "max"
			limit = min(limit, n)
		}
	}
	return limit
}

// groupAvailable returns the memory that the limit of one control group leaves.
func groupAvailable(root fs.FS, dir string, files groupFiles) int64 {
	limit := groupLimit(root, dir, files)
	used, ok := parseAmount(readText(root, path.Join(dir, files.usage)))
	if limit == math.MaxInt64 || !ok {
		return limit
	}
	for line := range strings.Lines(readText(root, path.Join(dir, "memory.stat"))) {
		name, value, _ := strings.Cut(line, " ")
		if n, ok := parseAmount(value); ok && hasWord(strings.Join(files.reclaimable, ","), name) {
			used -= n
		}
	}
	return max(0, limit-max(0, used))
}

// hasWord reports whether a comma-separated list contains a word.
func hasWord(list, word string) bool {
	return strings.Contains(","+list+",", ","+word+",")
}

// readText returns the text of a small file, "" if it cannot be read.
func readText(root fs.FS, name string) string {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return ""
	}
	return string(text)
}

// parseAmount parses a number of bytes. Version 1 writes a number near the maximum
// for "no limit", which needs no special case.
func parseAmount(text string) (int64, bool) {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	return n, err == nil && n >= 0
}

// ReadProcessorTime returns for how long the threads of this process have run. The files of Linux are in
// root; it is 0 on systems that do not tell.
func ReadProcessorTime(root fs.FS) (ran time.Duration) {
	names, err := fs.Glob(root, "proc/self/task/*/schedstat")
	if err != nil {
		return 0
	}
	for _, name := range names {
		on, _, _ := strings.Cut(readText(root, name), " ") // no text if the thread has just ended
		if n, err := strconv.ParseInt(on, 10, 64); err == nil {
			ran += time.Duration(n)
		}
	}
	return ran
}
