// Command testreport runs go test with the given arguments. It prints a line per
// package, the output of failed tests, the numbers of passed, failed and skipped tests,
// and the reasons of the skipped tests. Its exit status is that of go test.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
)

func main() {
	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
		code = 2
	}
	os.Exit(code)
}

// run runs go test and returns its exit status. The environment variable GO overrides
// the go command.
func run(arguments []string) (code int, err error) {
	command := os.Getenv("GO")
	if command == "" {
		command = "go"
	}
	test := exec.Command(command, append([]string{"test", "-json"}, arguments...)...)
	test.Stderr = os.Stderr
	events, err := test.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := test.Start(); err != nil {
		return 0, err
	}
	r := newReport(os.Stdout)
	readErr := r.read(events)
	waitErr := test.Wait()
	r.summarize()
	if failed := (*exec.ExitError)(nil); errors.As(waitErr, &failed) {
		return failed.ExitCode(), readErr
	}
	return 0, errors.Join(readErr, waitErr)
}
