package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// failure is a failed test, or a package that failed without a failed test.
type failure struct {
	Package string
	Test    string   // "" for a package
	Leaves  []string // the failed test, or its failed subtests that have none themselves
	Results int      // number of failed results: the test and its subtests
	Kind    string   // "", or "build", "fatal" (a panic, a data race, a time-out) or "exit"
	Output  []string // the lines of the test and of its failed subtests
}

// fatal matches the first line of a block that says why a whole process failed.
var fatal = regexp.MustCompile(`^\s*(panic:|fatal error:|WARNING: DATA RACE|SIG[A-Z]+: |signal: |\*\*\* Test killed)`)

func isFatal(lines []string) bool { return slices.ContainsFunc(lines, fatal.MatchString) }

// kind returns what the output of a failed test tells.
func (f *failure) kind() string {
	raced := slices.ContainsFunc(f.Output, func(line string) bool { return strings.Contains(line, "race detected during execution of test") })
	if isFatal(f.Output) || raced {
		return "fatal"
	}
	return ""
}

// title returns one line that names the failure.
func (f failure) title() string {
	name := f.Package
	if len(f.Leaves) > 0 {
		name += " " + f.Leaves[0]
	}
	if more := len(f.Leaves) - 1; more > 0 {
		name += fmt.Sprintf(" (and %d more of its subtests)", more)
	}
	if f.Kind == "build" {
		name += " (does not build)"
	}
	return name
}

// excerpt returns the lines of the output that matter most: the block of a panic, a data race or a time-out, or the
// first lines of the message.
func (f failure) excerpt(most int) []string {
	lines := slices.DeleteFunc(slices.Clone(f.Output), func(line string) bool {
		return strings.TrimSpace(line) == "" || isProgress(line) || line == "==================\n"
	})
	if at := slices.IndexFunc(lines, fatal.MatchString); at >= 0 {
		// The line about running tests stands before the block.
		before := slices.IndexFunc(lines[:at], func(line string) bool { return strings.HasPrefix(line, "running when it ended: ") })
		block := slices.Concat(lines[at:at+1], stuckGoroutine(lines[at+1:]))
		if before >= 0 {
			block = slices.Insert(slices.Clone(block), 0, lines[before])
		}
		lines = block
	} else {
		// The line with the result repeats the name.
		lines = slices.DeleteFunc(lines, func(line string) bool { return strings.HasPrefix(strings.TrimSpace(line), "--- FAIL: ") })
	}
	lines = lines[:min(most, len(lines))]
	for i, line := range lines {
		line = strings.TrimRight(line, "\n")
		if runes := []rune(line); len(runes) > 200 {
			line = string(runes[:200]) + "…"
		}
		lines[i] = line
	}
	return append(lines, f.inputs()...)
}

// stuckGoroutine returns the goroutine of a test, if the lines are those that a process prints when a signal ends it: the
// scheduler's goroutine and registers come first and say nothing. It returns other lines unchanged.
func stuckGoroutine(lines []string) []string {
	if len(lines) == 0 || !strings.HasPrefix(lines[0], "PC=") {
		return lines
	}
	begin := 0
	for i, line := range lines {
		switch {
		case strings.HasPrefix(line, "goroutine "):
			begin = i
		case strings.HasPrefix(line, "testing.tRunner("):
			return lines[begin:]
		}
	}
	return lines
}

// failingInput is the line in which go test -fuzz names the file of an input that failed.
var failingInput = regexp.MustCompile(`Failing input written to (\S+)`)

// smallerInput is the line with which go test -fuzz begins to make an input that failed smaller.
var smallerInput = regexp.MustCompile(`minimizing \d+-byte failing input file`)

// inputs returns the files of failing inputs that fuzzing wrote, whole: the machine of a check does not outlive it.
func (f failure) inputs() (lines []string) {
	for _, line := range f.Output {
		at := failingInput.FindStringSubmatch(line)
		if at == nil {
			continue
		}
		// The path is relative to the directory of the package.
		found, _ := filepath.Glob(filepath.Join(packageDir(f.Package), at[1]))
		for _, path := range found {
			data, err := os.ReadFile(path)
			if err != nil {
				lines = append(lines, err.Error())
				continue
			}
			lines = append(lines, "the input "+at[1]+":")
			lines = append(lines, strings.Split(strings.TrimRight(string(data), "\n"), "\n")...)
		}
	}
	return lines
}

// packageDir returns the directory of a package of the module in the working directory.
func packageDir(pkg string) string {
	data, err := os.ReadFile("go.mod")
	if err != nil {
		return "."
	}
	_, rest, _ := strings.Cut(string(data), "module ")
	module, _, _ := strings.Cut(rest, "\n")
	return filepath.FromSlash("." + strings.TrimPrefix(pkg, strings.TrimSpace(module)))
}
