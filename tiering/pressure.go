package tiering

import (
	"io/fs"
	"math"
	"os"
	"path"
	"strings"
	"time"
)

// Thresholds and steps of a Governor.
const (
	// Tasks that wait for memory for more than stallFraction of the time, measured
	// over at least stallWindow, indicate pressure. Shorter waits pass quickly.
	stallFraction = 0.1
	stallWindow   = time.Second
	// Less than one part in lowDivisor of the machine's memory, or less than
	// leastMargin, indicates pressure. Growing requires twice as much.
	lowDivisor = 32
	// Less than one part in groupLowDivisor of the control group's limit indicates
	// pressure: the kernel kills processes at the limit. The fraction is small because
	// a group is often just large enough for its program.
	groupLowDivisor = 32
	// The Governor releases or adds one part in stepDivisor of the memory in use at a
	// time.
	stepDivisor = 8
	// calmTime is the time without pressure before the limit grows.
	calmTime = 10 * time.Second
)

// Governor adjusts a memory limit to the pressure on the machine: it lowers the limit
// while there is pressure and raises it slowly afterwards. The caller supplies the
// time.
type Governor struct {
	limited int64         // Signs.Limited at the last step
	stalled time.Duration // Signs.Stalled at time at
	at      time.Time     // start of the stall window
	calm    time.Time     // time of the last pressure or growth
}

// Step evaluates new signs and returns the new limit. limit is the current limit,
// held is the memory in use under it, and most is the limit without pressure.
func (g *Governor) Step(now time.Time, s Signs, held, limit, most int64) int64 {
	if g.at.IsZero() {
		g.limited, g.stalled, g.at, g.calm = s.Limited, s.Stalled, now, now
		return limit
	}
	limited, waited := s.Limited > g.limited, false
	g.limited = s.Limited
	if since := now.Sub(g.at); since >= stallWindow {
		waited = float64(s.Stalled-g.stalled) > stallFraction*float64(since)
		g.stalled, g.at = s.Stalled, now
	}
	low := max(s.Total/lowDivisor, leastMargin)
	missing := max(low-s.Available, s.Limit/groupLowDivisor-s.Left)
	if missing > 0 || waited || limited {
		g.calm = now
		return min(limit, held) - min(max(held/stepDivisor, missing), held/2)
	}
	if limit >= most || now.Sub(g.calm) < calmTime {
		return limit
	}
	more := most/stepDivisor + 1
	if s.Available < math.MaxInt64 {
		more = min(more, (s.Available-2*low)/2)
	}
	if s.Limit > 0 {
		more = min(more, (s.Left-2*s.Limit/groupLowDivisor)/2)
	}
	if more <= 0 {
		return limit
	}
	g.calm = now
	return min(most, limit+more)
}

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
// eachGroup for their paths.
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
