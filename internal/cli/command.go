// Package cli is the command line of llmrun and llmlab: subcommands, flags, help, suggestions
// for mistyped names, output as text or JSON, progress bars and exit codes.
package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
)

// A Command is one subcommand: its help and its action.
type Command struct {
	Name     string
	Synopsis string    // the arguments, as the first line of its help shows them
	Summary  string    // its line in `llmrun help`
	About    string    // the paragraphs of `llmrun help NAME`
	Brief    string    // About for the short help; "": About
	Examples []Example // at least three, which run as written
	Prepare  func(f *FlagSet) Action
}

// An Example is a command line and its purpose.
type Example struct{ Line, Purpose string }

// An Action runs a command after its flags are parsed. args are the arguments that are not
// flags.
type Action func(ctx context.Context, s *Streams, args []string) error

// A CommandGroup is a group of commands under a heading of the help.
type CommandGroup struct {
	Title    string
	Commands []*Command
}

// A Program is a set of commands and the text of its help.
type Program struct {
	Name    string // as the user types it
	Intro   string // first lines of `NAME help`
	End     string // last lines of `NAME help`
	Version string // what `NAME --version` prints
	Groups  []CommandGroup
	// Complete replaces the placeholders in a text of the help when it is printed, with what a program must look up; nil:
	// there are none.
	Complete func(text string) string
	// Hints explain names that are not commands of this program: commands of other programs,
	// and commands that moved.
	Hints map[string]string
	// Settings says where flags are set that the command line does not have; nil: nowhere.
	Settings *Settings
	// Explain rewords the error of a command for the user; nil: errors stay
	// as they are.
	Explain func(error) error
	// ExitCode returns the exit code for an error other than a usage error; nil: ExitFailure.
	ExitCode func(error) int
}

// Find returns the command with a name, or nil.
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

// Flags returns the flags that the command declares, unset.
func (c *Command) Flags() *FlagSet {
	flags := NewFlagSet()
	c.Prepare(flags)
	return flags
}

// Dispatch runs the command that args name.
func (p *Program) Dispatch(ctx context.Context, s *Streams, args []string) error {
	if len(args) == 0 {
		p.writeOverview(s.Err, helpColumns(s.errColumns()))
		return p.usage(&UsageError{Message: "no command was given"})
	}
	switch args[0] {
	case "-h", "-help", "--help", "help":
		return p.help(s, args[1:])
	case "-v", "-V", "-version", "--version":
		fmt.Fprintln(s.Out, p.Version)
		return nil
	}
	c := p.Find(args[0])
	if c == nil {
		return p.usage(p.unknownCommand(args))
	}
	return p.usage(p.run(ctx, s, c, args[1:]))
}

// usage adds the program's name to a usage error.
func (p *Program) usage(err error) error {
	var usage *UsageError
	if errors.As(err, &usage) {
		usage.program = p.Name
	}
	return err
}

// run parses a command's arguments and runs its action, or prints its help.
func (p *Program) run(ctx context.Context, s *Streams, c *Command, args []string) error {
	flags := NewFlagSet()
	act := c.Prepare(flags)
	positional, err := flags.Parse(args)
	p.addCommandsWithFlag(err)
	if err == nil && (flags.help || flags.helpAll) {
		p.writeHelp(s.Out, c, flags, helpColumns(s.Out.Columns()))
		return nil
	}
	if err == nil {
		err = p.applySettings(c, flags)
	}
	if err == nil {
		err = act(ctx, s, positional)
	}
	if err != nil && p.Explain != nil {
		err = p.Explain(err)
	}
	if err != nil {
		err = flags.explainSettings(err)
	}
	// An action does not know the name of its command, which the hint below the message needs.
	var usage *UsageError
	if errors.As(err, &usage) && usage.command == "" {
		usage.command = c.Name
		if usage.stray {
			usage.Message += p.strayArgumentHint(usage.argument, flags)
		}
	}
	return err
}

// addCommandsWithFlag adds the commands that have an unknown flag to its error.
func (p *Program) addCommandsWithFlag(err error) {
	var usage *UsageError
	if !errors.As(err, &usage) || usage.unknown == "" {
		return
	}
	var having []string
	for _, group := range p.Groups {
		for _, c := range group.Commands {
			if c.Flags().Registry.Lookup(usage.unknown) != nil {
				having = append(having, c.Name)
			}
		}
	}
	switch {
	case len(having) == 1:
		usage.Message += fmt.Sprintf("; %s %s has it", p.Name, having[0])
	case len(having) > 1 && len(having) <= maxNamedCommands:
		usage.Message += fmt.Sprintf("; %s have it", All(having))
	}
}

// maxNamedCommands is the most commands that an error names.
const maxNamedCommands = 4

// A UsageError reports a wrong command line, as opposed to a command that failed.
type UsageError struct {
	program  string // set by Dispatch
	command  string // the command whose help the hint names; "": the overview
	Message  string // names the flag or argument
	argument string // the unexpected argument, if stray
	unknown  string // the unknown flag that resembles no flag of the command
	stray    bool   // the command takes no arguments
}

func (e *UsageError) Error() string { return e.Message }

func (e *UsageError) hint() string {
	if e.command == "" {
		return fmt.Sprintf("Run '%s help' for the commands.", e.program)
	}
	return fmt.Sprintf("Run '%s help %s' for its flags and examples.", e.program, e.command)
}

// Usagef returns a UsageError. The message names the flag as the user types it.
func Usagef(format string, args ...any) error {
	return &UsageError{Message: fmt.Sprintf(format, args...)}
}

// unknownCommand returns the error for a command line whose first argument is no command.
func (p *Program) unknownCommand(args []string) error {
	name := args[0]
	if strings.HasPrefix(name, "-") {
		return p.misplacedFlag(name)
	}
	message := fmt.Sprintf("there is no command %q", name)
	lower := strings.ToLower(name)
	if hint := p.Hints[lower]; hint != "" {
		return &UsageError{Message: message + ": " + hint}
	}
	if near := Nearest(lower, append(p.Names(), "help")); near != "" {
		message += fmt.Sprintf("; did you mean %q?", near)
	}
	return &UsageError{Message: message}
}

// misplacedFlag returns the error for a flag before the command. It also corrects the flag's
// name.
func (p *Program) misplacedFlag(arg string) error {
	spelled, _, _ := strings.Cut(arg, "=")
	name := strings.TrimLeft(spelled, "-")
	message := fmt.Sprintf("%s stands before the command: the command comes first, as in %s %s %s", spelled, p.Name, p.Groups[0].Commands[0].Name, spelled)
	known := NewFlagSet()
	known.Registry.BoolFunc("version", "", nil)
	for _, group := range p.Groups {
		for _, c := range group.Commands {
			c.Flags().Registry.VisitAll(func(f *flag.Flag) {
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

// strayArgumentHint returns a hint for an unexpected argument: the name of a command that moved,
// or a prompt or model without its flag.
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

// Nearest returns the candidate that is closest to a mistyped name, or "" if none is close. More
// than half of the characters must match.
func Nearest(name string, candidates []string) string {
	best, bestDistance := "", len(name)/3+2
	for _, candidate := range candidates {
		if d := editDistance(name, candidate); d < bestDistance && 2*d < max(len(name), len(candidate)) {
			best, bestDistance = candidate, d
		}
	}
	return best
}

// editDistance returns the number of insertions, deletions, replacements and swaps of adjacent
// bytes that turn a into b.
func editDistance(a, b string) int {
	// rows[i%3][j] is the distance of a[:i] and b[:j]; the recurrence needs three rows.
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

// Exit codes. Scripts depend on them; `llmrun help` lists them.
const (
	ExitOK      = 0
	ExitFailure = 1
	ExitUsage   = 2
	exitSignal  = 128 // plus the signal's number, as shells report a program that a signal ended
)

// Execute runs one command line and returns the exit code.
func (p *Program) Execute(ctx context.Context, s *Streams, args []string) int {
	err := p.Dispatch(ctx, s, args)
	if err == nil {
		// A full disk or a closed pipe shows up only in writes.
		err = s.Out.Failure()
	}
	var usage *UsageError
	var stopped StoppedBy
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &stopped):
		return stopped.ExitCode()
	case errors.As(err, &usage):
		fmt.Fprintf(s.Err, "%s\n%s\n", s.fit(p.Name+": "+VisibleText(usage.Message)), s.fit(usage.hint()))
		return ExitUsage
	}
	fmt.Fprintln(s.Err, s.fit(p.Name+": "+OneLine(err)))
	if p.ExitCode != nil {
		return p.ExitCode(err)
	}
	return ExitFailure
}
