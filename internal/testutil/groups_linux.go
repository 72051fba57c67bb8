package testutil

import (
	"os"
	"testing"
)

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
