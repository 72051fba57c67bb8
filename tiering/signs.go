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
	// Left is what the limit of a control group leaves to those in it, which is
	// Limit; math.MaxInt64 and 0 where there is none.
	Left, Limit int64
}

// tightDivisor is how little of its limit a control group has left, one part in so
// many, for reaching the limit to count: groups are made just as large as what is
// to run in them, and page cache fills them as a matter of course.
const tightDivisor = 32

// SystemRoot returns the system's own files for ReadSigns.
func SystemRoot() fs.FS { return os.DirFS("/") }

// ReadSigns reads the signs of Linux, given as root.
func ReadSigns(root fs.FS) Signs {
	var s Signs
	s.Available, s.Total = machineMemory(root)
	pressure := readText(root, "proc/pressure/memory")
	s.Left = math.MaxInt64
	for line := range strings.Lines(readText(root, "proc/self/cgroup")) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		if hasWord(fields[1], "memory") { // version 1, which has no more signs
			s.within(root, "sys/fs/cgroup/memory", fields[2], groupV1)
		}
		if fields[0] != "0" || fields[1] != "" {
			continue
		}
		dir := path.Join("sys/fs/cgroup", path.Join("/", fields[2]))
		s.within(root, "sys/fs/cgroup", fields[2], groupV2)
		if own := readText(root, path.Join(dir, "memory.pressure")); own != "" {
			pressure = own
		}
		s.Limited = groupLimited(root, dir)
	}
	s.Stalled = stalledFor(pressure)
	return s
}

// noLimit is less than what version 1 writes where a group has no limit.
const noLimit = math.MaxInt64 / 2

// within notes what the limit of a group leaves, or that of one above it where that
// is less. See groupsAvailable for where they are.
func (s *Signs) within(root fs.FS, mount, group string, files groupFiles) {
	for dir := path.Join("/", group); ; dir = path.Dir(dir) {
		at := path.Join(mount, dir)
		if left := groupAvailable(root, at, files); left < min(s.Left, noLimit) {
			s.Left, s.Limit = left, groupLimit(root, at, files)
		}
		if dir == "/" {
			return
		}
	}
}

// groupLimited returns how often a group came to one of its limits, 0 while there
// is room below them.
func groupLimited(root fs.FS, dir string) (times int64) {
	for _, name := range groupV2.limits {
		limit, ok := parseAmount(readText(root, path.Join(dir, name)))
		if !ok || groupAvailable(root, dir, groupV2) > limit/tightDivisor {
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
