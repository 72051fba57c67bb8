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

// event is a line of go test -json; cmd/test2json documents it.
type event struct {
	Action     string
	Package    string
	ImportPath string // of a package that does not build
	Test       string // empty for the package itself
	Output     string
}

type testName struct{ pkg, test string }

// report collects what go test -json prints.
type report struct {
	to      io.Writer
	output  map[testName][]string // of tests that run, and of packages
	results map[testName]string   // pass, fail or skip
	reasons map[string]int        // how many tests were skipped for each
}

func newReport(to io.Writer) *report {
	return &report{to: to, output: map[testName][]string{}, results: map[testName]string{}, reasons: map[string]int{}}
}

// read prints packages and failures as they come. A line that is not an event is
// printed as it is.
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

// endTest records a result. Only the output of a test that failed is printed.
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

// endPackage prints the package's last line, or all of its output if it failed: a
// panic or a time limit leaves tests without a result.
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

// print prints a test's output without the lines that only mark its progress.
func (r *report) print(name testName) {
	for _, line := range r.output[name] {
		if !strings.HasPrefix(line, "=== ") {
			io.WriteString(r.to, line)
		}
	}
}

// position is the file and line before a message of a test.
var position = regexp.MustCompile(`^\s*[\w.]+\.go:\d+: `)

// skipReason returns the message of a skipped test, which is the last that the test printed.
func skipReason(output []string) string {
	for _, line := range slices.Backward(output) {
		if at := position.FindString(line); at != "" {
			return strings.TrimSpace(line[len(at):])
		}
	}
	return "no reason given"
}

// summarize prints the counts, and the reasons of skipped tests, most frequent first.
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
