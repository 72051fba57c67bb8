package main

import (
	"bytes"
	"flag"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/cli"
)

// roffLine is a line of a page: a request of those that pages use, or a text that does not begin as one. In both, escapes
// stand for the characters that mean something to roff, or that it would replace by others.
var roffLine = func() *regexp.Regexp {
	const escape, plain = `\\(?:f[BIR]|[-e]|\([a-z]{2}|\[u[0-9A-F]{4,5}\])`, ` !#-&(-,/-\[\]_a-}`
	const text = `(?:` + escape + `|[.` + plain + `])*`
	return regexp.MustCompile(`^(?:\.(?:TH|SH|SS|TP|PP|RS|RE|nf|fi|nh|ad)(?: (?:"` + text + `"|4|l))*|(?:\\&\.|` + escape + `|[` + plain + `])` + text + `)$`)
}()

// TestManualPagesAreRoff checks every line of every page, with no program but this one.
func TestManualPagesAreRoff(t *testing.T) {
	pages := llmrunProgram().ManualPages()
	require.Len(t, pages, len(llmrunProgram().Names())+1)
	require.Equal(t, pages, llmrunProgram().ManualPages())
	for name, page := range pages {
		require.True(t, strings.HasPrefix(page, `.TH "LLMRUN`), name)
		require.NotContains(t, page, "{default model", name)
		for line := range strings.Lines(page) {
			require.Regexp(t, roffLine, strings.TrimSuffix(line, "\n"), name)
		}
	}
}

// TestManualPagesHaveEveryFlag looks for each flag of each command in its page, spelled as the program accepts it.
func TestManualPagesHaveEveryFlag(t *testing.T) {
	program := llmrunProgram()
	overview, err := program.ManualPage("")
	require.NoError(t, err)
	for _, name := range program.Names() {
		require.Contains(t, overview, "\n\\fBllmrun\\-"+name+"\\fR(1)\n")
		page, err := program.ManualPage(name)
		require.NoError(t, err)
		program.Find(name).Flags().Registry.VisitAll(func(f *flag.Flag) {
			spelled := `--` + f.Name
			switch {
			case f.Name == "h" || strings.HasPrefix(f.Name, "help"):
				return
			case len(f.Name) == 1:
				spelled = "-" + f.Name
			}
			require.Contains(t, page, `\fB`+strings.ReplaceAll(spelled, "-", `\-`)+`\fR`, name)
		})
	}
	_, err = program.ManualPage("rum")
	require.ErrorContains(t, err, `there is no command "rum"; did you mean "run"?`)
}

// formatted returns a page as groff shows it, without a line that is wider than it has to be, and what groff warns of.
func formatted(t *testing.T, groff, page string) (text, warnings string) {
	t.Helper()
	command := exec.Command(groff, "-man", "-Tutf8", "-ww", "-rLL=400n", "-P-c", "-P-b", "-P-u")
	var out, errs bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = strings.NewReader(page), &out, &errs
	require.NoError(t, command.Run())
	return out.String(), errs.String()
}

// TestManualPagesAreFormatted lets groff format every page, without a warning. What is to be copied is on the page
// character by character.
func TestManualPagesAreFormatted(t *testing.T) {
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Skip("groff is not installed")
	}
	var all strings.Builder
	program := llmrunProgram()
	for _, name := range append([]string{""}, program.Names()...) {
		page, err := program.ManualPage(name)
		require.NoError(t, err)
		all.WriteString(page)
	}
	text, warnings := formatted(t, groff, all.String())
	require.Empty(t, warnings)
	for _, name := range program.Names() {
		c := program.Find(name)
		for _, e := range c.Examples {
			require.Contains(t, text, "           "+e.Line+"\n", name)
		}
		c.Flags().Registry.VisitAll(func(f *flag.Flag) {
			if f.Usage != "" {
				require.Contains(t, strings.Join(strings.Fields(text), " "), strings.Join(strings.Fields(nameDefaultModel(f.Usage)), " "), "--%s of %s", f.Name, name)
			}
		})
	}
}

// TestManualPagesEscape formats texts that roff would interpret.
func TestManualPagesEscape(t *testing.T) {
	hard := []string{".SH NOT A REQUEST", "'tis no request", `C:\new\fBold \n(x \" and \e`, "--no-import -n5", "`quoted` \"twice\" ^caret ~tilde", "“é – 中 😀”", " .indented", "  'indented"}
	p := &cli.Program{Name: "prog", Groups: []cli.CommandGroup{{Commands: []*cli.Command{{
		Name: "do", Summary: ".summary", About: strings.Join(hard, "\n"), Examples: []cli.Example{{Line: `.prog '\n' "-x"`, Purpose: "'.purpose"}},
		Prepare: func(f *cli.FlagSet) cli.Action {
			f.Group(`"Group" with \n`)
			f.Value("x", ".VALUE", ".usage", nil)
			return nil
		},
	}}}}}
	page, err := p.ManualPage("do")
	require.NoError(t, err)
	for line := range strings.Lines(page) {
		require.Regexp(t, roffLine, strings.TrimSuffix(line, "\n"))
	}
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Skip("groff is not installed")
	}
	text, warnings := formatted(t, groff, page)
	require.Empty(t, warnings)
	for _, want := range append(hard, `.prog '\n' "-x"`, "'.purpose:", `"Group" with \n`, "-x .VALUE", ".usage", "prog-do - .summary") {
		require.Contains(t, text, strings.TrimSpace(want))
	}
}
