package testutil

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

// OpenFiles returns the number of open files of this process.
func OpenFiles() int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(entries)
}

// Mapping is a range of addresses of this process, to which a file is mapped.
type Mapping struct{ From, To uintptr }

// Mappings returns where this process has mapped a file, whose pages a test can then take out of memory.
func Mappings(tb testing.TB, path string) (all []Mapping) {
	tb.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		tb.Fatal(err)
	}
	for line := range strings.Lines(string(maps)) {
		if !strings.HasSuffix(line, path+"\n") {
			continue
		}
		var m Mapping
		if _, err := fmt.Sscanf(line, "%x-%x", &m.From, &m.To); err != nil {
			tb.Fatalf("%q: %v", line, err)
		}
		all = append(all, m)
	}
	return all
}

// Resident returns the resident memory of this process, for tests that are [Measured]: what ran before in the process
// is part of it.
func Resident(tb testing.TB) (bytes int64) {
	tb.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		tb.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		switch name, value, _ := strings.Cut(line, ":"); name {
		case "RssAnon", "RssFile", "RssShmem":
			kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			if err != nil {
				tb.Fatal(err)
			}
			bytes += kb << 10
		}
	}
	return bytes
}

// ControlGroups returns the lines in which the kernel tells of the control groups of this process. A test makes groups
// below them, in which it starts other processes.
func ControlGroups(tb testing.TB) string {
	tb.Helper()
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		tb.Fatal(err)
	}
	return string(text)
}
