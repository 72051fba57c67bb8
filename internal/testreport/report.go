package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// event is a line of the output of go test -json. See go doc test2json.
type event struct {
	Action     string
	Package    string
	ImportPath string // set for a package that does not build
	Test       string // "" for events of the package
	Output     string
}

type testName struct{ pkg, test string }

// report collects the events of go test -json.
type report struct {
	to      io.Writer
	output  map[testName][]string // buffered output of running tests and packages
	results map[testName]string   // "pass", "fail" or "skip"
	reasons map[string]int        // number of skipped tests per reason
}

func newReport(to io.Writer) *report {
	return &report{to: to, output: map[testName][]string{}, results: map[testName]string{}, reasons: map[string]int{}}
}

// read processes the events and prints the results of packages and the output of failed
// tests. It prints a line that is not an event unchanged.
func (r *report) read(events io.Reader) error {
	lines := bufio.NewReader(events)
	for {
		line, err := lines.ReadString('\n')
		var e event
		if json.Unmarshal([]byte(line), &e) == nil && e.Action != "" {
			r.add(e)
		} else {
			io.WriteString(r.to, line)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (r *report) add(e event) {
	name := testName{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		io.WriteString(r.to, e.Output)
	case "output":
		r.output[name] = append(r.output[name], e.Output)
	case "pass", "fail", "skip":
		if e.Test == "" {
			r.endPackage(e)
		} else {
			r.endTest(name, e.Action)
		}
	}
}

// endTest records the result of a test. It prints the output of a failed test and
// discards the output of other tests.
func (r *report) endTest(name testName, result string) {
	r.results[name] = result
	switch result {
	case "fail":
		r.print(name)
	case "skip":
		r.reasons[skipReason(r.output[name])]++
	}
	delete(r.output, name)
}

// endPackage prints the last output line of a package, or all lines of a failed
// package. A test without a result counts as failed: a panic or a timeout ended it.
func (r *report) endPackage(e event) {
	if e.Action == "fail" {
		var unfinished []testName
		for name := range r.output {
			if name.pkg == e.Package && name.test != "" {
				unfinished = append(unfinished, name)
			}
		}
		slices.SortFunc(unfinished, func(a, b testName) int { return cmp.Compare(a.test, b.test) })
		for _, name := range unfinished {
			r.endTest(name, "fail")
		}
	}
	name := testName{pkg: e.Package}
	lines := r.output[name]
	if e.Action != "fail" {
		lines = lines[max(len(lines)-1, 0):]
	}
	for _, line := range lines {
		if line != "PASS\n" && line != "FAIL\n" {
			io.WriteString(r.to, line)
		}
	}
	delete(r.output, name)
}

// print prints the output of a test without its progress lines.
func (r *report) print(name testName) {
	for _, line := range r.output[name] {
		if !strings.HasPrefix(line, "=== ") {
			io.WriteString(r.to, line)
		}
	}
}

// position matches the file and line before a test message.
var position = regexp.MustCompile(`^\s*[\w.]+\.go:\d+: `)

// skipReason returns the message of a skipped test, which is its last message.
func skipReason(output []string) string {
	for _, line := range slices.Backward(output) {
		if at := position.FindString(line); at != "" {
			return strings.TrimSpace(line[len(at):])
		}
	}
	return "no reason given"
}

// summarize prints the counts and the reasons of skipped tests, the most frequent
// reason first.
func (r *report) summarize() {
	count := map[string]int{}
	for _, result := range r.results {
		count[result]++
	}
	fmt.Fprintf(r.to, "\n%d passed, %d failed, %d skipped (subtests count)\n", count["pass"], count["fail"], count["skip"])
	reasons := slices.SortedFunc(maps.Keys(r.reasons), func(a, b string) int {
		return cmp.Or(r.reasons[b]-r.reasons[a], cmp.Compare(a, b))
	})
	for _, reason := range reasons {
		fmt.Fprintf(r.to, "%6d skipped: %s\n", r.reasons[reason], reason)
	}
}
