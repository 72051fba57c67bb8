package testutil

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

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
