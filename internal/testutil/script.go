package testutil

import (
	"errors"
	"os/exec"
	"strconv"

	"github.com/rogpeppe/go-internal/testscript"
)

// ScriptStatus implements the testscript command "status CODE PROGRAM ARGS...". It runs
// the program and requires the exit code CODE.
func ScriptStatus(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: status CODE PROGRAM ARGS...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	CheckExit(ts, ts.Exec(args[1], args[2:]...), want)
}

// CheckExit fails the script unless the exit code in err equals want. A nil error is
// exit code 0.
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
