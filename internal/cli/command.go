package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
)

// A Command is one subcommand: how it is explained and what it does.
type Command struct {
	Name     string
	Synopsis string    // the arguments, as the first line of its help shows them
	Summary  string    // its line in `llmrun help`
	About    string    // the paragraphs of `llmrun help NAME`
	Brief    string    // about, for the short help; empty: about
	Examples []Example // at least three, that work as they stand
	Prepare  func(f *FlagSet) Action
}

// An Example is a command line and what it is good for.
type Example struct{ Line, Purpose string }

// An Action does a command's work, with the flags parsed. The arguments are
// those that are not flags.
type Action func(ctx context.Context, s *Streams, args []string) error

// A CommandGroup is a heading of `llmrun help`.
type CommandGroup struct {
	Title    string
	Commands []*Command
}

// A Program is its commands and what its help says around them.
type Program struct {
	Name    string // as the user types it
	Intro   string // of `NAME help`
	End     string // of `NAME help`
	Version string // what `NAME --version` prints
	Groups  []CommandGroup
	// hints explain names that are no commands here: those of other programs, and those
	// that are elsewhere now.
	Hints map[string]string
	// Explain rewords the error of a command for the person who typed it; nil: errors stay
	// as they are.
	Explain func(error) error
	// ExitCode returns the exit code for an error that is no usage error; nil: ExitFailure.
	ExitCode func(error) int
}

// Find returns the command of that name, or nil.
func (p *Program) Find(name string) *Command {
	for _, group := range p.Groups {
		for _, c := range group.Commands {
			if c.Name == name {
				return c
			}
		}
	}
	return nil
}

// Names returns the names of all commands, in the order of the help.
func (p *Program) Names() []string {
	var names []string
	for _, group := range p.Groups {
		for _, c := range group.Commands {
			names = append(names, c.Name)
		}
	}
	return names
}

// Dispatch finds the command that args name and runs it.
func (p *Program) Dispatch(ctx context.Context, s *Streams, args []string) error {
	if len(args) == 0 {
		p.writeOverview(s.Err)
		return p.usage(&UsageError{Message: "no command was given"})
	}
	switch args[0] {
	case "-h", "-help", "--help", "help":
		return p.help(s, args[1:])
	case "-version", "--version":
		fmt.Fprintln(s.Out, p.Version)
		return nil
	}
	c := p.Find(args[0])
	if c == nil {
		return p.usage(p.unknownCommand(args))
	}
	return p.usage(p.run(ctx, s, c, args[1:]))
}

// usage makes a usage error name the program.
func (p *Program) usage(err error) error {
	var usage *UsageError
	if errors.As(err, &usage) {
		usage.program = p.Name
	}
	return err
}

// run parses a command's arguments and does its work, or prints its help.
func (p *Program) run(ctx context.Context, s *Streams, c *Command, args []string) error {
	flags := NewFlagSet()
	act := c.Prepare(flags)
	positional, err := flags.Parse(args)
	if err == nil && (flags.help || flags.helpAll) {
		p.writeHelp(s.Out, c, flags)
		return nil
	}
	if err == nil {
		err = act(ctx, s, positional)
	}
	if err != nil && p.Explain != nil {
		err = p.Explain(err)
	}
	// An action does not know its own command: the hint below the message does.
	var usage *UsageError
	if errors.As(err, &usage) && usage.command == "" {
		usage.command = c.Name
		if usage.stray {
			usage.Message += p.strayArgumentHint(usage.argument, flags)
		}
	}
	return err
}

// A UsageError is a command line that makes no sense as it stands, as opposed
// to one that failed.
type UsageError struct {
	program  string // set by the program
	command  string // whose help explains it; "" for the general help
	Message  string // names the flag or argument
	argument string // the argument, if it is stray
	stray    bool   // it is about an argument of a command that has none
}

func (e *UsageError) Error() string { return e.Message }

func (e *UsageError) hint() string {
	if e.command == "" {
		return fmt.Sprintf("Run '%s help' for the commands.", e.program)
	}
	return fmt.Sprintf("Run '%s help %s' for its flags and examples.", e.program, e.command)
}

// Usagef returns a usageError; the message names the flag it is about.
func Usagef(format string, args ...any) error {
	return &UsageError{Message: fmt.Sprintf(format, args...)}
}

// unknownCommand returns the error for a command line that begins with no command.
func (p *Program) unknownCommand(args []string) error {
	name := args[0]
	if strings.HasPrefix(name, "-") {
		return p.misplacedFlag(name)
	}
	message := fmt.Sprintf("there is no command %q", name)
	if hint := p.Hints[name]; hint != "" {
		return &UsageError{Message: message + ": " + hint}
	}
	if near := Nearest(name, p.Names()); near != "" {
		message += fmt.Sprintf("; did you mean %q?", near)
	}
	return &UsageError{Message: message}
}

// misplacedFlag returns the error for a flag before the command, which it corrects too.
func (p *Program) misplacedFlag(arg string) error {
	spelled, _, _ := strings.Cut(arg, "=")
	name := strings.TrimLeft(spelled, "-")
	message := fmt.Sprintf("%s comes before the command: the command is first, as in %s %s %s", spelled, p.Name, p.Groups[0].Commands[0].Name, spelled)
	known := NewFlagSet()
	for _, group := range p.Groups {
		for _, c := range group.Commands {
			flags := NewFlagSet()
			c.Prepare(flags)
			flags.Registry.VisitAll(func(f *flag.Flag) {
				if known.Registry.Lookup(f.Name) == nil {
					known.Registry.Var(f.Value, f.Name, f.Usage)
				}
			})
		}
	}
	if known.Registry.Lookup(name) == nil {
		var usage *UsageError
		if errors.As(known.unknownFlag(arg, name), &usage) {
			message = usage.Message
		}
	}
	return &UsageError{Message: message}
}

// strayArgumentHint says what an argument was perhaps meant for: a verb that is elsewhere, or a
// prompt or model without its flag.
func (p *Program) strayArgumentHint(argument string, flags *FlagSet) string {
	if hint := p.Hints[argument]; hint != "" && flags.Registry.Lookup("p") == nil {
		return ": " + hint
	}
	return foreignArgumentHint(flags.Registry)
}

// NoArguments refuses arguments that are not flags.
func NoArguments(args []string) error {
	if len(args) == 0 {
		return nil
	}
	return &UsageError{Message: fmt.Sprintf("unexpected argument %q", args[0]), argument: args[0], stray: true}
}

// Nearest returns the candidate that was most likely meant by a mistyped name,
// or "" when none is close. At least half of it has to be the same.
func Nearest(name string, candidates []string) string {
	best, bestDistance := "", len(name)/3+2
	for _, candidate := range candidates {
		if d := editDistance(name, candidate); d < bestDistance && 2*d <= max(len(name), len(candidate)) {
			best, bestDistance = candidate, d
		}
	}
	return best
}

// editDistance counts the insertions, deletions and replacements of bytes, and the swaps of
// two neighbours, that turn a into b.
func editDistance(a, b string) int {
	// rows[i][j] is the distance of a[:i] to b[:j]; only the last three are needed.
	rows := [3][]int{make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		now, above, twoAbove := rows[i%3], rows[(i+2)%3], rows[(i+1)%3]
		now[0] = i
		for j := 1; j <= len(b); j++ {
			replace := above[j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			now[j] = min(replace, above[j]+1, now[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				now[j] = min(now[j], twoAbove[j-2]+1)
			}
		}
	}
	return rows[len(a)%3][len(b)]
}
