package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// event is a line of the output of go test -json. See go doc test2json.
type event struct {
	Action      string
	Package     string
	ImportPath  string // set for a package that does not build
	FailedBuild string // the ImportPath whose build ended the package
	Test        string // "" for events of the package
	Output      string
	Elapsed     float64 // seconds
}

type testName struct{ pkg, test string }

// top returns the name of the test that name is a subtest of, or name.
func (name testName) top() testName {
	name.test, _, _ = strings.Cut(name.test, "/")
	return name
}

// report collects the events of go test -json.
type report struct {
	to      io.Writer
	output  map[testName][]string // buffered output of running tests and packages
	results map[testName]string   // "pass", "fail" or "skip"
	builds  map[string][]string   // output of the compiler by import path
	reasons map[string]int        // number of skipped tests per reason
	slowest []timedTest           // tests without their subtests
	failed  []*failure            // in the order in which they ended
}

func newReport(to io.Writer) *report {
	return &report{to: to, output: map[testName][]string{}, results: map[testName]string{}, builds: map[string][]string{}, reasons: map[string]int{}}
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
		if errors.Is(err, io.EOF) {
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
		r.builds[e.ImportPath] = append(r.builds[e.ImportPath], e.Output)
	case "run":
		r.output[name] = append(r.output[name], "") // a test that ends without a result is known by its output
	case "output":
		r.output[name] = append(r.output[name], e.Output)
	case "pass", "fail", "skip":
		if e.Test == "" {
			r.endPackage(e)
		} else {
			r.endTest(name, e.Action, e.Elapsed)
		}
	}
}

// endTest records the result of a test. It prints the output of a failed test and
// discards the output of other tests.
func (r *report) endTest(name testName, result string, seconds float64) {
	r.results[name] = result
	if result != "fail" && slices.ContainsFunc(r.output[name], fatal.MatchString) {
		// The detector reports a race in the output of one test, and another one can fail for it.
		pkg := testName{pkg: name.pkg}
		r.output[pkg] = append(r.output[pkg], r.output[name]...)
	}
	switch result {
	case "fail":
		r.print(r.output[name])
		r.addFailure(name, r.output[name])
	case "skip":
		r.reasons[skipReason(r.output[name])]++
	}
	if name == name.top() {
		r.slowest = append(r.slowest, timedTest{Package: name.pkg, Test: name.test, Seconds: seconds})
	}
	delete(r.output, name)
}

// addFailure appends the output of a failed test, or of a failed subtest, to the failure of the test. Subtests end first.
func (r *report) addFailure(name testName, output []string) {
	at := slices.IndexFunc(r.failed, func(f *failure) bool { return f.Package == name.pkg && f.Test == name.top().test })
	if at < 0 {
		at = len(r.failed)
		r.failed = append(r.failed, &failure{Package: name.pkg, Test: name.top().test})
	}
	f := r.failed[at]
	isParent := slices.ContainsFunc(f.Leaves, func(leaf string) bool { return strings.HasPrefix(leaf, name.test+"/") })
	if !isParent {
		f.Leaves = append(f.Leaves, name.test)
	}
	f.Output = append(f.Output, output...)
	f.Results++
}

// endPackage prints the last output line of a package, or all lines of a failed
// package. A test without a result counts as failed: a panic or a timeout ended it.
func (r *report) endPackage(e event) {
	name := testName{pkg: e.Package}
	lines := r.output[name]
	if e.Action == "fail" {
		running := r.endRunning(e.Package)
		r.endFailedPackage(e, lines, running)
	} else {
		lines = lines[max(len(lines)-1, 0):]
	}
	r.print(lines)
	delete(r.output, name)
}

// endRunning ends the tests of a package that have no result.
func (r *report) endRunning(pkg string) []string {
	var running []string
	for name := range r.output {
		if name.pkg == pkg && name.test != "" {
			running = append(running, name.test)
		}
	}
	slices.Sort(running)
	slices.Reverse(running) // subtests first
	for _, test := range running {
		r.endTest(testName{pkg, test}, "fail", 0)
	}
	return running
}

// endFailedPackage completes the failures of a package with what its own output says. A package can fail without
// a failed test: it does not build, a fixture fails, or a signal ends it.
func (r *report) endFailedPackage(e event, lines, running []string) {
	var ofPackage []*failure
	for _, f := range r.failed {
		if f.Package == e.Package {
			ofPackage = append(ofPackage, f)
		}
	}
	kind := ""
	switch {
	case e.FailedBuild != "":
		kind, lines = "build", r.builds[e.FailedBuild]
	case isFatal(lines) || len(running) > 0:
		kind = "fatal"
	case len(ofPackage) == 0:
		kind = "exit"
	}
	for _, f := range ofPackage {
		f.Kind = cmp.Or(f.kind(), kind)
	}
	if kind == "build" || kind == "exit" || isFatal(lines) {
		output := slices.Clone(lines)
		if len(running) > 0 {
			output = append([]string{"running when it ended: " + strings.Join(running, ", ") + "\n"}, output...)
		}
		r.failed = append(r.failed, &failure{Package: e.Package, Kind: kind, Output: output})
	}
}

// endUnfinished ends packages whose end go test did not report: a signal ended it.
func (r *report) endUnfinished() {
	packages := map[string]bool{}
	for name := range r.output {
		packages[name.pkg] = true
	}
	for _, pkg := range slices.Sorted(maps.Keys(packages)) {
		r.endPackage(event{Action: "fail", Package: pkg})
	}
}

// print prints output without progress lines.
func (r *report) print(lines []string) {
	for _, line := range lines {
		if !isProgress(line) {
			io.WriteString(r.to, line)
		}
	}
}

func isProgress(line string) bool {
	return strings.HasPrefix(line, "=== ") || line == "PASS\n" || line == "FAIL\n"
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

// record returns what the report found, for the call that arguments names.
func (r *report) record(arguments string) *record {
	counts := map[string]int{}
	for _, result := range r.results {
		counts[result]++
	}
	found := &record{Arguments: arguments, Passed: counts["pass"], Failed: counts["fail"], Skipped: counts["skip"], Reasons: r.reasons}
	found.Slowest = slowest(r.slowest)
	for _, f := range r.failed {
		f.Kind = cmp.Or(f.Kind, f.kind())
		if f.Test == "" {
			found.Failed++ // a package without a failed test
		}
		found.Failures = append(found.Failures, *f)
	}
	return found
}

// printCounts prints the numbers of tests.
func printCounts(to io.Writer, passed, failed, skipped int) {
	fmt.Fprintf(to, "%d passed, %d failed, %d skipped\n", passed, failed, skipped)
}
