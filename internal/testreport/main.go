// Command testreport runs go test and says what went wrong.
//
//	testreport [NAME=VALUE ...] [flags of go test] PACKAGE ...
//
// It sets the variables for go test alone, prints a line per package, the output of
// failed tests, the numbers of passed, failed and skipped tests, the reasons of the
// skipped ones, and last what failed: each test with its package, its name and the
// first lines of its message. A package is "." or begins with "./".
//
// A test that fails runs once more, alone. If it passes then, it is unsteady:
// testreport prints both outputs and still succeeds, for at most two such tests. A
// build failure, a panic, a data race, a time-out, a fuzzed input and a test that
// fails twice always fail.
//
// If LLMRUN_TEST_RECORDS names a directory, each run leaves a record there, and the
// two unsteady tests are those of all records together. Two forms read the records:
//
//	testreport -end             prints the slowest tests, the unsteady ones, the reasons
//	                            of the skipped ones, and the counts
//	testreport -failures LINES  prints what failed in at most LINES lines
package main

import (
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"sync/atomic"
	"syscall"
)

func main() {
	arguments := os.Args[1:]
	records := recordDir(os.Getenv("LLMRUN_TEST_RECORDS"))
	if len(arguments) == 1 && arguments[0] == "-end" {
		exit(0, records.printEnd(os.Stdout))
	}
	if len(arguments) == 2 && arguments[0] == "-failures" {
		lines, err := strconv.Atoi(arguments[1])
		if err == nil {
			err = records.printFailures(os.Stdout, lines)
		}
		exit(0, err)
	}
	exit(run(arguments, records, os.Stdout))
}

func exit(code int, err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
		code = 2
	}
	os.Exit(code)
}

// interrupted is set by a signal. The terminal, or the program that limits the time, sends it to go test and
// to the tests as well: they end, and testreport lives on to say which tests were running.
var interrupted atomic.Bool

func watchSignals() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGQUIT, syscall.SIGTERM)
	go func() {
		for range signals {
			interrupted.Store(true)
		}
	}()
}
