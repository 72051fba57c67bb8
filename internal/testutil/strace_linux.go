package testutil

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// Strace returns the path of strace. It skips the test if there is none, or if the system does not let it trace.
func Strace(tb testing.TB) string {
	tb.Helper()
	path, err := exec.LookPath("strace")
	if err != nil {
		tb.Skip("strace is not installed")
	}
	if out, err := exec.Command(path, "-f", "-qq", "-o", os.DevNull, "-e", "inject=pwrite64:signal=KILL:when=1000", "true").CombinedOutput(); err != nil {
		tb.Skipf("strace cannot trace here: %v: %s", err, out)
	}
	return path
}

// KillAt returns the beginning of a command line that kills the rest of it with SIGKILL at call k of a system call.
// strace counts the calls of each thread, so that a process may survive by chance.
func KillAt(strace, call string, k int) []string {
	return []string{strace, "-f", "-qq", "-o", os.DevNull, "-e", "trace=" + call, "-e", fmt.Sprintf("inject=%s:signal=KILL:when=%d", call, k)}
}

// Killed reports whether a process was killed, which strace passes on.
func Killed(err error) bool {
	var exit *exec.ExitError
	return errors.As(err, &exit) && (exit.ExitCode() == -1 || exit.ExitCode() == 137)
}
