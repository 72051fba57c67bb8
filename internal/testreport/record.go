package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// timedTest is a test and how long it ran.
type timedTest struct {
	Package string
	Test    string
	Seconds float64
}

// slowest returns the ten slowest tests, the slowest first.
func slowest(tests []timedTest) []timedTest {
	slices.SortStableFunc(tests, func(a, b timedTest) int { return cmp.Compare(b.Seconds, a.Seconds) })
	return tests[:min(10, len(tests))]
}

// unsteady is a test that failed and then passed alone.
type unsteady struct {
	First failure
	Again []string // the output of the second run
}

// record is what one call of go test found.
type record struct {
	Arguments               string
	Passed, Failed, Skipped int // subtests count
	Reasons                 map[string]int
	Slowest                 []timedTest
	Failures                []failure
	Unsteady                []unsteady
}

// mayRunAgain reports whether every failure is that of a test that could be unsteady, and no more than allowed.
func (r *record) mayRunAgain(allowed int) bool {
	return len(r.Failures) <= allowed && !slices.ContainsFunc(r.Failures, func(f failure) bool { return f.Kind != "" || f.Test == "" })
}

// runAgain runs each failed test alone. A test that passes leaves the failures and becomes unsteady.
func (r *record) runAgain(c command, to io.Writer) {
	failures := r.Failures
	r.Failures = nil
	for _, f := range failures {
		fmt.Fprintf(to, "\nagain, alone: %s %s\n", f.Package, f.Test)
		var output bytes.Buffer
		second := newReport(io.MultiWriter(to, &output))
		code, err := c.alone(f.Package, f.Test).start(second)
		passed := second.results[testName{f.Package, f.Test}] == "pass"
		if err != nil || code != 0 || !passed {
			r.Failures = append(r.Failures, f)
			continue
		}
		r.Unsteady = append(r.Unsteady, unsteady{First: f, Again: strings.SplitAfter(output.String(), "\n")})
		r.Failed -= f.Results
		r.Passed += f.Results
	}
}

// onlyReachedTheTimeLimit reports whether fuzzing ended with no message but "context deadline exceeded". The fuzzing
// tool reports such a failure if it sees the time limit before the context that it derives for its workers ends,
// whatever the inputs did. With a real failure it names the input file that it wrote or, if the time ends while it makes
// the input smaller, only says that it does.
func (r *record) onlyReachedTheTimeLimit() bool {
	if len(r.Failures) == 0 {
		return false
	}
	for _, f := range r.Failures {
		text := strings.Join(f.Output, "")
		if f.Kind != "" || !strings.Contains(text, "    context deadline exceeded\n") || failingInput.MatchString(text) || smallerInput.MatchString(text) ||
			slices.ContainsFunc(f.Output, position.MatchString) {
			return false
		}
	}
	return true
}

// printSummary prints the counts, the reasons of skipped tests, the unsteady tests and the failures.
func (r *record) printSummary(to io.Writer) {
	fmt.Fprintln(to)
	printReasons(to, r.Reasons)
	printUnsteady(to, r.Unsteady)
	if len(r.Failures) > 0 {
		fmt.Fprintf(to, "\nfailed:\n")
		printFailures(to, r.Failures, 15*len(r.Failures)+len(r.Failures))
	}
	printCounts(to, r.Passed, r.Failed, r.Skipped)
}

// printReasons prints why tests were skipped, the most frequent reason first.
func printReasons(to io.Writer, reasons map[string]int) {
	sorted := slices.SortedFunc(maps.Keys(reasons), func(a, b string) int {
		return cmp.Or(reasons[b]-reasons[a], cmp.Compare(a, b))
	})
	for _, reason := range sorted {
		fmt.Fprintf(to, "%6d skipped: %s\n", reasons[reason], reason)
	}
}

func printUnsteady(to io.Writer, tests []unsteady) {
	for _, u := range tests {
		fmt.Fprintf(to, "unsteady: %s failed, and passed alone\n", u.First.title())
		for _, line := range u.First.excerpt(15) {
			fmt.Fprintf(to, "  first: %s\n", line)
		}
		for _, line := range u.Again[:min(5, len(u.Again))] {
			if line = strings.TrimRight(line, "\n"); line != "" {
				fmt.Fprintf(to, "  alone: %s\n", line)
			}
		}
	}
}

// printFailures prints the failures in at most the given number of lines (failing inputs of fuzzing are printed whole): up
// to 15 lines of each, fewer if there are many, and only names where there are too many.
func printFailures(to io.Writer, failures []failure, lines int) {
	if len(failures) == 0 {
		return
	}
	each := min(15, max(0, lines/len(failures)-1))
	for i, f := range failures {
		if lines == 1 && i < len(failures)-1 {
			fmt.Fprintf(to, "and %d more\n", len(failures)-i)
			return
		}
		fmt.Fprintf(to, "%s\n", f.title())
		lines--
		for _, line := range f.excerpt(each) {
			fmt.Fprintf(to, "  %s\n", line)
			lines--
		}
	}
}

// recordDir is the directory of the records of a whole check, or "".
type recordDir string

// add writes a record. Calls that run side by side do not see the unsteady tests of each other before they decide
// about their own, so add looks again when the record can be seen: if there are too many of all, those of the
// record have failed.
func (d recordDir) add(r *record) (tooMany bool, err error) {
	if d == "" {
		return false, nil
	}
	path, err := d.write(r)
	if err != nil || len(r.Unsteady) == 0 {
		return false, err
	}
	all, err := d.read()
	if err != nil {
		return false, err
	}
	found := 0
	for _, other := range all {
		found += len(other.Unsteady)
	}
	if found <= mostUnsteady {
		return false, nil
	}
	for _, u := range r.Unsteady {
		r.Failures = append(r.Failures, u.First)
		r.Passed -= u.First.Results
		r.Failed += u.First.Results
	}
	return true, d.replace(path, r)
}

// write writes a record under the next free name, which it returns. The file is complete when it has its name.
func (d recordDir) write(r *record) (path string, err error) {
	earlier, err := filepath.Glob(filepath.Join(string(d), "*.json"))
	if err != nil {
		return "", err
	}
	file, err := os.CreateTemp(string(d), "unnamed-*")
	if err != nil {
		return "", err
	}
	unnamed := file.Name()
	if err := errors.Join(file.Close(), d.replace(unnamed, r)); err != nil {
		return "", err
	}
	for n := len(earlier); ; n++ {
		path = filepath.Join(string(d), fmt.Sprintf("%04d.json", n))
		if err = os.Link(unnamed, path); !errors.Is(err, fs.ErrExist) {
			return path, errors.Join(err, os.Remove(unnamed))
		}
	}
}

// replace writes a record under a name.
func (d recordDir) replace(path string, r *record) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".part", data, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".part", path)
}

// read returns the records in the order in which they were written.
func (d recordDir) read() (records []record, err error) {
	if d == "" {
		return nil, nil
	}
	paths, err := filepath.Glob(filepath.Join(string(d), "*.json"))
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		var r record
		if err := json.Unmarshal(data, &r); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		records = append(records, r)
	}
	return records, nil
}

// printEnd prints the end of a whole check.
func (d recordDir) printEnd(to io.Writer) error {
	records, err := d.read()
	if err != nil {
		return err
	}
	var all record
	all.Reasons = map[string]int{}
	for _, r := range records {
		all.Passed, all.Failed, all.Skipped = all.Passed+r.Passed, all.Failed+r.Failed, all.Skipped+r.Skipped
		for reason, n := range r.Reasons {
			all.Reasons[reason] += n
		}
		all.Slowest = append(all.Slowest, r.Slowest...)
		all.Unsteady = append(all.Unsteady, r.Unsteady...)
	}
	for _, t := range slowest(all.Slowest) {
		fmt.Fprintf(to, "%6.1f s %s %s\n", t.Seconds, t.Package, t.Test)
	}
	printReasons(to, all.Reasons)
	printUnsteady(to, all.Unsteady)
	printCounts(to, all.Passed, all.Failed, all.Skipped)
	return nil
}

// printFailures prints the failures of all records, and the counts, in at most the given number of lines.
func (d recordDir) printFailures(to io.Writer, lines int) error {
	records, err := d.read()
	if err != nil {
		return err
	}
	var failures []failure
	for _, r := range records {
		failures = append(failures, r.Failures...)
	}
	printFailures(to, failures, lines)
	return nil
}
