package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/llmrun/llmrun/cmd/llmrun/bundled"
)

const (
	helpWidth  = 80 // columns of all help
	helpColumn = 28 // where the explanation of a flag begins
)

const overviewIntro = `llmrun runs language models: GGUF files and Hugging Face directories, on this
machine. Without -m a command uses the small model that is bundled with llmrun.

Usage: llmrun COMMAND [flags]`

const overviewEnd = `Start here
  llmrun run -p "Tell me a story about a brave fox named Ruby."
  llmrun chat
  llmrun help run

Exit codes: 0 done, 1 failed, 2 the command line makes no sense, 130 stopped by
Ctrl-C, 143 by SIGTERM, after which what was read and said is kept as if the
answer had ended. Results go to standard output; timings, progress and errors to
standard error.`

// writeOverview prints what `llmrun help` prints.
func writeOverview(w io.Writer) {
	width := 0
	for _, name := range commandNames() {
		width = max(width, len(name))
	}
	fmt.Fprintf(w, "%s\n\n", overviewIntro)
	for _, group := range commandGroups() {
		fmt.Fprintln(w, group.title)
		for _, c := range group.commands {
			fmt.Fprintf(w, "  %-*s  %s\n", width, c.name, c.summary)
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w, overviewEnd)
}

// writeHelp prints the command's manual.
func (c *command) writeHelp(w io.Writer, flags *flagSet) {
	usage := strings.TrimSpace("Usage: llmrun " + c.name + " " + c.synopsis)
	fmt.Fprintf(w, "%s\n\n%s\n", usage, wrap(c.about, helpWidth))
	for _, group := range flags.groups {
		fmt.Fprintf(w, "\n%s\n", group.title)
		for _, f := range group.flags {
			writeFlagHelp(w, f)
		}
	}
	fmt.Fprint(w, "\nExamples\n")
	for _, e := range c.examples {
		fmt.Fprintf(w, "  # %s\n  %s\n", e.purpose, e.line)
	}
}

// writeFlagHelp prints a flag and, in the second column, what it does.
func writeFlagHelp(w io.Writer, f flagHelp) {
	head := "  " + f.names
	if len(head) > helpColumn-2 {
		fmt.Fprintln(w, head)
		head = ""
	}
	for line := range strings.Lines(wrap(f.usage, helpWidth-helpColumn)) {
		fmt.Fprintf(w, "%-*s%s\n", helpColumn, head, strings.TrimSuffix(line, "\n"))
		head = ""
	}
}

// wrap breaks each paragraph of text into lines of at most width columns. Lines
// that begin with a space stay as they are.
func wrap(text string, width int) string {
	var out strings.Builder
	for i, paragraph := range strings.Split(text, "\n") {
		if i > 0 {
			out.WriteByte('\n')
		}
		if strings.HasPrefix(paragraph, " ") {
			out.WriteString(paragraph)
			continue
		}
		column := 0
		for _, word := range strings.Fields(paragraph) {
			switch {
			case column == 0:
			case column+1+len(word) > width:
				out.WriteByte('\n')
				column = 0
			default:
				out.WriteByte(' ')
				column++
			}
			out.WriteString(word)
			column += len(word)
		}
	}
	return out.String()
}

// helpCommand is a command like others, so that the list of commands has it.
func helpCommand() *command {
	return &command{
		name:     "help",
		synopsis: "[COMMAND]",
		summary:  "explain llmrun or one of its commands",
		about:    "Prints the list of commands, or the manual of one command.",
		examples: []example{
			{"llmrun help", "the list of commands"},
			{"llmrun help run", "the manual of one command"},
			{"llmrun run --help", "the same"},
		},
		prepare: func(*flagSet) action {
			return func(_ context.Context, s *streams, args []string) error {
				if len(args) == 0 {
					writeOverview(s.out)
					return nil
				}
				c := findCommand(strings.Join(args, " "))
				if c == nil {
					return unknownCommand(args[0])
				}
				flags := newFlagSet()
				c.prepare(flags)
				c.writeHelp(s.out, flags)
				return nil
			}
		},
	}
}

func licensesCommand() *command {
	return &command{
		name:     "licenses",
		synopsis: "",
		summary:  "print the licences of the bundled model",
		about:    "Prints where the training text of the bundled model comes from, under which licences, and the attributions they ask for.",
		examples: []example{
			{"llmrun licenses", "print them"},
			{"llmrun licenses | less", "read them"},
			{"llmrun licenses > LICENSES.model.txt", "pass them on with the binary"},
		},
		prepare: func(*flagSet) action {
			return func(_ context.Context, s *streams, args []string) error {
				if err := noArguments(args); err != nil {
					return err
				}
				text, err := bundled.Licenses()
				fmt.Fprint(s.out, text)
				return err
			}
		},
	}
}
