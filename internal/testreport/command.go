package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

// command is a call of go test.
type command struct {
	environment []string // NAME=VALUE
	flags       []string
	packages    []string
}

var assignment = regexp.MustCompile(`^[A-Za-z_][A-Za-z_0-9]*=`)

func parseCommand(arguments []string) command {
	var c command
	for len(arguments) > 0 && assignment.MatchString(arguments[0]) {
		c.environment, arguments = append(c.environment, arguments[0]), arguments[1:]
	}
	for _, argument := range arguments {
		if argument == "." || strings.HasPrefix(argument, "./") {
			c.packages = append(c.packages, argument)
		} else {
			c.flags = append(c.flags, argument)
		}
	}
	return c
}

// alone returns the call that runs one test of one package, alone and without the cache, with the same tags and flags.
func (c command) alone(pkg, test string) command {
	var flags []string
	for i := 0; i < len(c.flags); i++ {
		name, _, hasValue := strings.Cut(strings.TrimLeft(c.flags[i], "-"), "=")
		switch name {
		case "run", "p", "count", "skip":
			if !hasValue {
				i++
			}
		default:
			flags = append(flags, c.flags[i])
		}
	}
	flags = append(flags, "-p", "1", "-count=1", "-run", "^"+test+"$")
	return command{environment: c.environment, flags: flags, packages: []string{pkg}}
}

func (c command) fuzzes() bool {
	return slices.ContainsFunc(c.flags, func(flag string) bool {
		return strings.TrimLeft(flag, "-") == "fuzz" || strings.HasPrefix(strings.TrimLeft(flag, "-"), "fuzz=")
	})
}

// start runs go test, passes its events to r, and returns its exit status. The
// environment variable GO overrides the go command.
func (c command) start(r *report) (code int, err error) {
	tool := os.Getenv("GO")
	if tool == "" {
		tool = "go"
	}
	test := exec.Command(tool, slices.Concat([]string{"test", "-json"}, c.flags, c.packages)...)
	test.Env = append(os.Environ(), c.environment...)
	test.Stderr = r.to
	events, err := test.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := test.Start(); err != nil {
		return 0, err
	}
	readErr := r.read(events)
	waitErr := test.Wait()
	r.endUnfinished()
	if failed := (*exec.ExitError)(nil); errors.As(waitErr, &failed) {
		return max(failed.ExitCode(), 1), readErr // a signal has the status -1
	}
	return 0, errors.Join(readErr, waitErr)
}

// mostUnsteady is the number of tests of a whole check that may fail once and pass alone.
const mostUnsteady = 2

// run runs the tests, runs failed ones again, reports, and returns the exit status.
func run(arguments []string, records recordDir, to io.Writer) (code int, err error) {
	watchSignals()
	c := parseCommand(arguments)
	r := newReport(to)
	release, err := records.hold(false)
	if err != nil {
		return 0, err
	}
	code, err = c.start(r)
	release()
	if err != nil {
		return 0, err
	}
	earlier, err := records.read()
	if err != nil {
		return 0, err
	}
	allowed := mostUnsteady
	for _, record := range earlier {
		allowed -= len(record.Unsteady)
	}
	record := r.record(strings.Join(slices.Concat(c.environment, c.flags, c.packages), " "))
	if code != 0 && c.fuzzes() && record.onlyReachedTheTimeLimit() {
		record.Failures, record.Failed, code = nil, 0, 0
	}
	if code != 0 && !c.fuzzes() && !interrupted.Load() && record.mayRunAgain(allowed) {
		release, err := records.hold(true)
		if err != nil {
			return 0, err
		}
		record.runAgain(c, to)
		release()
		if len(record.Failures) == 0 {
			code = 0
		}
	}
	tooMany, err := records.add(record)
	if tooMany && code == 0 {
		code = 1
	}
	record.printSummary(to)
	return code, err
}
