package testutil

import (
	"errors"
	"os/exec"
	"strconv"

	"github.com/rogpeppe/go-internal/testscript"
)

// ScriptStatus is "status CODE PROGRAM ARGS...": exec, with exactly that exit code.
func ScriptStatus(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: status CODE PROGRAM ARGS...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	CheckExit(ts, ts.Exec(args[1], args[2:]...), want)
}

// CheckExit fails the script unless err is how a program with that exit code ends.
func CheckExit(ts *testscript.TestScript, err error, want int) {
	code := 0
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		code = exit.ExitCode()
	case err != nil:
		ts.Fatalf("%v", err)
	}
	if code != want {
		ts.Fatalf("exit code %d, want %d", code, want)
	}
}
