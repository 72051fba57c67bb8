package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// A command is one subcommand: how it is explained and what it does.
type command struct {
	name     string
	synopsis string    // the arguments, as the first line of its help shows them
	summary  string    // its line in `llmrun help`
	about    string    // the paragraphs of `llmrun help NAME`
	examples []example // at least three, that work as they stand
	prepare  func(f *flagSet) action
}

// An example is a command line and what it is good for.
type example struct{ line, purpose string }

// An action does a command's work, with the flags parsed. The arguments are
// those that are not flags.
type action func(ctx context.Context, s *streams, args []string) error

// A commandGroup is a heading of `llmrun help`.
type commandGroup struct {
	title    string
	commands []*command
}

// commandGroups returns every command, in the order of the help.
func commandGroups() []commandGroup {
	return []commandGroup{
		{"Generate text", []*command{runCommand(), chatCommand()}},
		{"Look at this machine", []*command{devicesCommand(), profileCommand()}},
		{"Look inside a model", []*command{
			inspectCommand(), planCommand(), tokenizeCommand(), detokenizeCommand(), renderCommand(),
		}},
		{"Keep conversations", []*command{sessionsCommand()}},
		{"Import models", []*command{importCommand(), calibrateCommand(), verifyCommand(), cacheCommand()}},
		{"Measure", []*command{logitsCommand(), perplexityCommand(), benchCommand(), benchBudgetCommand(), benchDevicesCommand(), benchDividedCommand(), benchGPUCommand(), benchHeteroCommand(), benchKVCommand(), benchOverheadCommand(), benchW8A8Command(), synthCommand()}},
		{"About", []*command{versionCommand(), licensesCommand(), helpCommand()}},
	}
}

// findCommand returns the command of that name, or nil.
func findCommand(name string) *command {
	for _, group := range commandGroups() {
		for _, c := range group.commands {
			if c.name == name {
				return c
			}
		}
	}
	return nil
}

// commandNames returns the names of all commands, in the order of the help.
func commandNames() []string {
	var names []string
	for _, group := range commandGroups() {
		for _, c := range group.commands {
			names = append(names, c.name)
		}
	}
	return names
}

// dispatch finds the command that args name and runs it.
func dispatch(ctx context.Context, s *streams, args []string) error {
	if len(args) == 0 {
		writeOverview(s.err)
		return &usageError{message: "no command was given"}
	}
	switch args[0] {
	case "-h", "-help", "--help":
		writeOverview(s.out)
		return nil
	case "-version", "--version":
		fmt.Fprintln(s.out, thisVersion())
		return nil
	}
	if len(args) > 1 { // a few names are of two words
		if c := findCommand(args[0] + " " + args[1]); c != nil {
			return c.run(ctx, s, args[2:])
		}
	}
	c := findCommand(args[0])
	if c == nil {
		return unknownCommand(args[0])
	}
	return c.run(ctx, s, args[1:])
}

// run parses the command's arguments and does its work, or prints its help.
func (c *command) run(ctx context.Context, s *streams, args []string) error {
	flags := newFlagSet()
	act := c.prepare(flags)
	positional, err := flags.parse(args)
	if err == nil && flags.help {
		c.writeHelp(s.out, flags)
		return nil
	}
	if err == nil {
		err = act(ctx, s, positional)
	}
	// An action does not know its own command: the hint below the message does.
	var usage *usageError
	if errors.As(err, &usage) && usage.command == "" {
		usage.command = c.name
		if usage.stray {
			usage.message += placeHabit(flags.registry)
		}
	}
	return err
}

// A usageError is a command line that makes no sense as it stands, as opposed
// to one that failed.
type usageError struct {
	command string // whose help explains it; "" for the general help
	message string // names the flag or argument
	stray   bool   // it is about an argument of a command that has none
}

func (e *usageError) Error() string { return e.message }

func (e *usageError) hint() string {
	if e.command == "" {
		return "Run 'llmrun help' for the commands."
	}
	return fmt.Sprintf("Run 'llmrun help %s' for its flags and examples.", e.command)
}

// usagef returns a usageError; the message names the flag it is about.
func usagef(format string, args ...any) error {
	return &usageError{message: fmt.Sprintf(format, args...)}
}

func unknownCommand(name string) error {
	message := fmt.Sprintf("there is no command %q", name)
	if habit := commandHabits[name]; habit != "" {
		return &usageError{message: message + ": " + habit}
	}
	if near := nearest(name, commandNames()); near != "" {
		message += fmt.Sprintf("; did you mean %q?", near)
	}
	return &usageError{message: message}
}

// noArguments refuses arguments that are not flags.
func noArguments(args []string) error {
	if len(args) == 0 {
		return nil
	}
	return &usageError{message: fmt.Sprintf("unexpected argument %q", args[0]), stray: true}
}

// nearest returns the candidate that was most likely meant by a mistyped name,
// or "" when none is close. At least half of it has to be the same.
func nearest(name string, candidates []string) string {
	best, bestDistance := "", len(name)/3+2
	for _, candidate := range candidates {
		if d := editDistance(name, candidate); d < bestDistance && 2*d <= max(len(name), len(candidate)) {
			best, bestDistance = candidate, d
		}
	}
	return best
}

// editDistance counts the insertions, deletions and replacements of bytes that
// turn a into b.
func editDistance(a, b string) int {
	previous := make([]int, len(b)+1) // previous[j]: distance of a's prefix to b[:j]
	for j := range previous {
		previous[j] = j
	}
	for i := range len(a) {
		current := make([]int, len(b)+1)
		current[0] = i + 1
		for j := range len(b) {
			replace := previous[j]
			if a[i] != b[j] {
				replace++
			}
			current[j+1] = slices.Min([]int{replace, previous[j+1] + 1, current[j] + 1})
		}
		previous = current
	}
	return previous[len(b)]
}
