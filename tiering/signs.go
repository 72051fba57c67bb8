package tiering

import (
	"io/fs"
	"math"
	"os"
	"path"
	"strings"
	"time"
)

// Signs are measurements of memory pressure on the machine and in the process's
// container. The zero value with Available set to math.MaxInt64 means that the system
// reports nothing.
type Signs struct {
	// Stalled is the time since system start during which some task waited for
	// memory: the pressure stall information (PSI) of the process's control group or,
	// if it has none, of the machine.
	Stalled time.Duration
	// Limited counts how often a version 2 control group reached its limit while
	// little of its memory was page cache, which the kernel can drop at no cost.
	Limited int64
	// Available is the machine's available memory, math.MaxInt64 if unknown. Total is
	// all its memory, 0 if unknown.
	Available, Total int64
	// Left is the memory that the tightest control group limit leaves; Limit is that
	// limit. They are math.MaxInt64 and 0 without a limit.
	Left, Limit int64
}

// Reaching the limit counts as pressure only if less than one part in tightDivisor of
// the limit is left. Groups are often just as large as their program, and page cache
// fills them regularly.
const tightDivisor = 32

// SystemRoot returns the root of the system's files for ReadSigns.
func SystemRoot() fs.FS { return os.DirFS("/") }

// ReadSigns reads the signs of Linux, whose files are in root.
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
		if hasWord(fields[1], "memory") { // version 1 has no other signs
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

// Version 1 writes a value above noLimit for a group without a limit.
const noLimit = math.MaxInt64 / 2

// within records the tightest limit of a control group and its ancestors. See
// groupsAvailable for their paths.
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

// groupLimited returns how often a group has reached one of its limits, 0 while there
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

// stalledFor returns the total of pressure stall information, which is in
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
