package tiering

import (
	"io/fs"
	"math"
	"os"
	"path"
	"strings"
	"time"
)

// Signs are what tells whether the machine, or the container that the process runs
// in, is short of memory. The zero value, with Available unknown, is what systems
// show that do not tell.
type Signs struct {
	// Stalled is how long some task waited for memory, since the system started:
	// the pressure stall information (PSI) of the process's control group or,
	// where that has none, of the machine.
	Stalled time.Duration
	// Limited counts how often a control group of version 2 came to its limit
	// while little of it was file pages, which cost nothing to drop.
	Limited int64
	// Available is the memory that the machine has left, math.MaxInt64 where it
	// does not say; Total is all of it, 0 where it does not say.
	Available, Total int64
}

// tightShare is how little of its limit a control group has left, one part in so
// many, for reaching the limit to count: groups are made just as large as what is
// to run in them, and page cache fills them as a matter of course.
const tightShare = 32

// SystemRoot returns the system's own files for ReadSigns.
func SystemRoot() fs.FS { return os.DirFS("/") }

// ReadSigns reads the signs of Linux, given as root.
func ReadSigns(root fs.FS) Signs {
	var s Signs
	s.Available, s.Total = machineMemory(root)
	pressure := readText(root, "proc/pressure/memory")
	for line := range strings.Lines(readText(root, "proc/self/cgroup")) {
		group, ok := strings.CutPrefix(strings.TrimSpace(line), "0::")
		if !ok {
			continue
		}
		dir := path.Join("sys/fs/cgroup", path.Join("/", group))
		if own := readText(root, path.Join(dir, "memory.pressure")); own != "" {
			pressure = own
		}
		s.Limited = groupLimited(root, dir)
	}
	s.Stalled = stalledFor(pressure)
	return s
}

// groupLimited returns how often a group came to one of its limits, 0 while there
// is room below them.
func groupLimited(root fs.FS, dir string) (times int64) {
	for _, name := range groupV2.limits {
		limit, ok := parseAmount(readText(root, path.Join(dir, name)))
		if !ok || groupLeaves(root, dir, groupV2) > limit/tightShare {
			continue
		}
		for line := range strings.Lines(readText(root, path.Join(dir, "memory.events"))) {
			if event, value, _ := strings.Cut(line, " "); "memory."+event == name {
				n, _ := parseAmount(value)
				times += n
			}
		}
	}
	return times
}

// stalledFor reads the total of pressure stall information, which is in
// microseconds.
func stalledFor(text string) time.Duration {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] != "some" {
			continue
		}
		for _, field := range fields[1:] {
			if value, ok := strings.CutPrefix(field, "total="); ok {
				us, _ := parseAmount(value)
				return time.Duration(min(us, math.MaxInt64/int64(time.Microsecond))) * time.Microsecond
			}
		}
	}
	return 0
}
