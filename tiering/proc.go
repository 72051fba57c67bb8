package tiering

import (
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"
)

// availableFromProc returns the memory that Linux, whose files are in root, can give
// to this process: the machine's available memory or, if less, what the limits of its
// control groups leave. math.MaxInt64 means unknown.
func availableFromProc(root fs.FS) int64 {
	free, _ := machineMemory(root)
	eachGroup(root, func(dir string, files groupFiles) {
		free = min(free, groupAvailable(root, dir, files))
	})
	return free
}

// eachGroup calls visit with the directory of each control group of this process that counts memory, and of its
// ancestors. A container may see its own group at the root of the hierarchy instead of at the path that the kernel
// names; both are visited.
func eachGroup(root fs.FS, visit func(dir string, files groupFiles)) {
	for line := range strings.Lines(readText(root, "proc/self/cgroup")) {
		// "0::/user.slice" in version 2, "9:memory:/docker/…" in version 1.
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		var mount string
		var files groupFiles
		switch {
		case fields[0] == "0" && fields[1] == "":
			mount, files = "sys/fs/cgroup", groupV2
		case hasWord(fields[1], "memory"):
			mount, files = "sys/fs/cgroup/memory", groupV1
		default:
			continue
		}
		for dir := path.Join("/", fields[2]); ; dir = path.Dir(dir) {
			visit(path.Join(mount, dir), files)
			if dir == "/" {
				break
			}
		}
	}
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
