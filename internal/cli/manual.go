package cli

import (
	"fmt"
	"strings"
)

// A manualPage is a page for man(1), in the macros of man(7). It is made of the same declarations as the help, holds ASCII
// alone and no date, so that the same program gives the same bytes.
type manualPage struct{ strings.Builder }

// ManualPage returns the manual page of a command, or that of the program for "".
func (p *Program) ManualPage(command string) (string, error) {
	var m manualPage
	if command == "" {
		p.writeProgramPage(&m)
		return m.String(), nil
	}
	c := p.Find(command)
	if c == nil {
		return "", p.unknownCommand([]string{command})
	}
	p.writeCommandPage(&m, c)
	return m.String(), nil
}

// ManualPages returns all pages by the names of their files: NAME.1 and NAME-COMMAND.1.
func (p *Program) ManualPages() map[string]string {
	pages := map[string]string{}
	for _, command := range append([]string{""}, p.Names()...) {
		pages[p.pageName(command)+".1"], _ = p.ManualPage(command) // which knows its own commands
	}
	return pages
}

// pageName returns the name of a page without its section.
func (p *Program) pageName(command string) string {
	return strings.TrimSuffix(p.Name+"-"+command, "-")
}

func (p *Program) writeProgramPage(m *manualPage) {
	intro := strings.TrimSpace(p.Intro)
	summary, _, _ := strings.Cut(strings.Join(strings.Fields(intro), " "), ": ")
	m.begin(p.pageName(""), p.Name, strings.TrimPrefix(summary, p.Name+" "))
	m.macro("SH", "SYNOPSIS")
	m.line(bold(p.Name) + " " + italic("COMMAND") + " [flags]")
	m.macro("SH", "DESCRIPTION")
	intro, _, _ = strings.Cut(intro, "\nUsage: ")
	m.text(intro)
	for _, group := range p.Groups {
		m.macro("SH", strings.ToUpper(group.Title))
		for _, c := range group.Commands {
			m.macro("TP")
			m.line(bold(p.pageName(c.Name)) + "(1)")
			m.text(c.Summary)
		}
	}
	p.writeSettingsSection(m)
	m.macro("SH", "EXIT STATUS")
	m.text(p.End)
}

// writeSettingsSection lists the settings and their variables.
func (p *Program) writeSettingsSection(m *manualPage) {
	if p.Settings == nil {
		return
	}
	m.macro("SH", "SETTINGS")
	m.line(bold(p.pageName(p.Settings.Command)) + "(1) explains the file and the variables of settings.")
	for _, s := range p.settings() {
		m.macro("TP")
		m.line(bold(s.name) + ", " + bold(p.Settings.variable(s.name)))
		m.text(s.setting.help.usage)
	}
}

func (p *Program) writeCommandPage(m *manualPage, c *Command) {
	m.begin(p.pageName(c.Name), p.Name, c.Summary)
	m.macro("SH", "SYNOPSIS")
	m.line(strings.TrimSpace(bold(p.Name+" "+c.Name) + " " + escapeRoff(c.Synopsis)))
	m.macro("SH", "DESCRIPTION")
	m.text(c.About)
	if groups := c.Flags().groups; len(groups) > 0 {
		m.macro("SH", "OPTIONS")
		for _, group := range groups {
			m.macro("SS", group.title)
			for _, f := range group.flags {
				m.macro("TP")
				m.line(f.roff())
				m.text(f.usage)
			}
		}
	}
	m.macro("SH", "EXAMPLES")
	for _, e := range c.Examples {
		m.macro("PP")
		m.text(e.Purpose + ":")
		m.verbatim([]string{e.Line})
	}
	m.macro("SH", "SEE ALSO")
	m.line(bold(p.pageName("")) + "(1)")
}

// roff returns the names of a flag and what stands for its value.
func (f *flagHelp) roff() string {
	var names []string
	for _, name := range f.spelled() {
		names = append(names, bold(name))
	}
	text := strings.Join(names, ", ")
	if value := strings.TrimPrefix(f.names, strings.Join(f.spelled(), ", ")); value != "" {
		text += " " + italic(strings.TrimSpace(value))
	}
	return text
}

func bold(text string) string { return `\fB` + escapeRoff(text) + `\fR` }

func italic(text string) string { return `\fI` + escapeRoff(text) + `\fR` }

// begin writes the title and the line by which apropos(1) finds the page. Hyphenation would break names of flags, and
// justified lines stretch them.
func (m *manualPage) begin(page, program, summary string) {
	m.macro("TH", strings.ToUpper(page), "1", "", program)
	m.WriteString(".nh\n.ad l\n")
	m.macro("SH", "NAME")
	m.line(escapeRoff(page) + ` \- ` + escapeRoff(summary))
}

// macro writes a request with its arguments.
func (m *manualPage) macro(name string, arguments ...string) {
	m.WriteString("." + name)
	for _, a := range arguments {
		fmt.Fprintf(m, ` "%s"`, escapeRoff(a))
	}
	m.WriteByte('\n')
}

// line writes text whose characters are escaped already. A line that begins as a request does gets an empty character
// before it.
func (m *manualPage) line(escaped string) {
	if strings.HasPrefix(escaped, ".") {
		m.WriteString(`\&`)
	}
	m.WriteString(escaped)
	m.WriteByte('\n')
}

// text writes paragraphs as wrap reads them: lines that begin with a space stay as they are.
func (m *manualPage) text(text string) {
	var kept []string
	end := func() {
		if len(kept) > 0 {
			m.verbatim(kept)
			kept = nil
		}
	}
	blank := false
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		switch {
		case strings.HasPrefix(line, " "):
			if blank && len(kept) == 0 {
				m.macro("PP")
				blank = false
			}
			kept = append(kept, strings.TrimPrefix(line, "  "))
			continue
		case strings.TrimSpace(line) == "":
			end()
			blank = true
			continue
		}
		end()
		if blank {
			m.macro("PP")
			blank = false
		}
		m.line(escapeRoff(strings.Join(strings.Fields(line), " ")))
	}
	end()
}

// verbatim writes lines that keep their breaks and spaces, indented.
func (m *manualPage) verbatim(lines []string) {
	m.WriteString(".RS 4\n.nf\n")
	for _, line := range lines {
		m.line(escapeRoff(line))
	}
	m.WriteString(".fi\n.RE\n")
}

// roffCharacters are the characters that roff would interpret, or replace by others when it typesets: a hyphen that is to be
// copied is a minus.
var roffCharacters = map[rune]string{'\\': `\e`, '-': `\-`, '\'': `\(aq`, '`': "\\(ga", '^': `\(ha`, '~': `\(ti`, '"': `\(dq`}

// escapeRoff returns text as roff prints it unchanged, in ASCII.
func escapeRoff(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch escape, special := roffCharacters[r]; {
		case special:
			b.WriteString(escape)
		case r >= ' ' && r < 0x7f:
			b.WriteRune(r)
		default:
			fmt.Fprintf(&b, `\[u%04X]`, r)
		}
	}
	return b.String()
}
