package cli

import (
	"fmt"
	"io"
	"strings"
)

const (
	helpWidth  = 80 // most columns of all help
	helpColumn = 28 // column of the explanations of flags
	// narrowWidth is the width below which explanations stand below what they explain, from narrowColumn on.
	narrowWidth, narrowColumn = 60, 4
)

// helpColumns returns the width of help on a terminal of that width, 0 for none.
func helpColumns(terminal int) int {
	if terminal <= 0 {
		return helpWidth
	}
	return min(max(terminal, 20), helpWidth)
}

// help prints the overview, or the manual of one command.
func (p *Program) help(s *Streams, args []string) error {
	all := len(args) > 0 && args[len(args)-1] == "--all"
	if all {
		args = args[:len(args)-1]
	}
	if len(args) == 0 || args[0] == "help" {
		p.writeOverview(s.Out, helpColumns(s.Out.Columns()))
		return nil
	}
	c := p.Find(args[0])
	if c == nil {
		return p.usage(p.unknownCommand(args))
	}
	flags := c.Flags()
	flags.helpAll = all
	p.writeHelp(s.Out, c, flags, helpColumns(s.Out.Columns()))
	return nil
}

// writeOverview prints the list of commands.
func (p *Program) writeOverview(w io.Writer, columns int) {
	width := 0
	for _, name := range p.Names() {
		width = max(width, len(name))
	}
	fmt.Fprintf(w, "%s\n\n", reflow(p.complete(p.Intro), columns))
	for _, group := range p.Groups {
		fmt.Fprintln(w, group.Title)
		for _, c := range group.Commands {
			writeRow(w, "  "+c.Name, c.Summary, width+4, columns)
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w, reflow(p.End, columns))
}

// writeHelp prints a command's manual with its everyday flags, or with all flags for --help-all
// and for commands without everyday flags.
func (p *Program) writeHelp(w io.Writer, c *Command, flags *FlagSet, columns int) {
	usage := strings.TrimSpace("Usage: " + p.Name + " " + c.Name + " " + c.Synopsis)
	short := len(flags.everyday) > 0 && !flags.helpAll
	about := c.About
	if short && c.Brief != "" {
		about = c.Brief
	}
	fmt.Fprintf(w, "%s\n\n%s\n", reflow(usage, columns), wrap(p.complete(about), columns))
	if short {
		p.writeEveryday(w, c, flags, columns)
	} else {
		for _, group := range flags.groups {
			fmt.Fprintf(w, "\n%s\n", group.title)
			for _, f := range group.flags {
				writeRow(w, "  "+f.names, p.complete(f.usage), helpColumn, columns)
			}
		}
	}
	fmt.Fprint(w, "\nExamples\n")
	for i, e := range c.Examples {
		if short && i == everydayExamples {
			break
		}
		for line := range strings.Lines(wrap(p.complete(e.Purpose), columns-len("  # "))) {
			fmt.Fprintf(w, "  # %s\n", strings.TrimSuffix(line, "\n"))
		}
		fmt.Fprintf(w, "  %s\n", e.Line)
	}
}

// complete replaces the placeholders in a text.
func (p *Program) complete(text string) string {
	if p.Complete == nil {
		return text
	}
	return p.Complete(text)
}

// everydayExamples is the number of examples in the short help.
const everydayExamples = 3

// writeEveryday prints the everyday flags and how to list the others.
func (p *Program) writeEveryday(w io.Writer, c *Command, flags *FlagSet, columns int) {
	fmt.Fprint(w, "\nEveryday flags\n")
	count := 0
	for _, group := range flags.groups {
		count += len(group.flags)
	}
	for _, e := range flags.everyday {
		if f, ok := flags.find(e.name); ok {
			if e.usage != "" {
				f.usage = e.usage
			}
			writeRow(w, "  "+f.names, p.complete(f.usage), helpColumn, columns)
		}
	}
	fmt.Fprintf(w, "\n%s\n", reflow(fmt.Sprintf("%d more flags: %s %s --help-all", count-len(flags.everyday), p.Name, c.Name), columns))
}

// writeRow prints a head and, from a column on, its explanation.
func writeRow(w io.Writer, head, explanation string, column, columns int) {
	if columns < narrowWidth {
		column = narrowColumn
	}
	if Cells(head) > column-2 {
		fmt.Fprintln(w, head)
		head = ""
	}
	for line := range strings.Lines(wrap(explanation, columns-column)) {
		fmt.Fprintf(w, "%-*s%s\n", column, head, strings.TrimSuffix(line, "\n"))
		head = ""
	}
}

// wrap breaks each paragraph of text into lines of at most width columns. Lines that begin with
// a space stay unchanged.
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
			case column+1+Cells(word) > width:
				out.WriteByte('\n')
				column = 0
			default:
				out.WriteByte(' ')
				column++
			}
			out.WriteString(word)
			column += Cells(word)
		}
	}
	return out.String()
}
