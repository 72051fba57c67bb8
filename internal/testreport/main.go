// Command testreport runs go test with the arguments it is given, prints a line for
// each package and the output of the tests that fail, and ends with the numbers of
// tests that passed, failed and were skipped, and why. It exits as go test does.
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

// run starts go test and returns its exit status. GO names the go command to use.
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
