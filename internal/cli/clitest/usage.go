// Package clitest checks the usage errors of all commands and flags of a program.
package clitest

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/cli"
)

// badValues are wrong for a number, a size, a fraction, a choice and a name. Every flag that is
// not text refuses at least one of them while it is parsed.
var badValues = []string{"", "x y", "-1.5", "1e99", "NaN", "99999999999999999999"}

// CheckFlags gives each flag of each command of p bad values, no value, and a misspelt name. It
// finds the flags in the flag sets, so it covers new flags. An error must be a usage error that
// names the flag and the value, once each. texts lists the flags that take any text but the empty
// one; checked reports whether other tests cover a flag that its command checks after parsing.
func CheckFlags(t *testing.T, p *cli.Program, texts []string, checked func(command, flag string) bool) {
	t.Helper()
	for _, command := range p.Names() {
		for _, name := range flagNames(p, command) {
			t.Run(command+" "+name, func(t *testing.T) {
				refused := checkValues(t, p, command, name)
				require.True(t, refused || slices.Contains(texts, name) || checked(command, name),
					"no bad value of this flag is tested: refuse bad values while parsing, or add a case")
				checkName(t, p, command, name)
			})
		}
	}
}

// flagNames lists the flags of a command, without those for help.
func flagNames(p *cli.Program, command string) (names []string) {
	p.Find(command).Flags().Registry.VisitAll(func(f *flag.Flag) {
		if f.Name != "h" && !strings.HasPrefix(f.Name, "help") {
			names = append(names, f.Name)
		}
	})
	return names
}

// checkValues tries bad values and reports whether the flag refused a value that is not empty.
func checkValues(t *testing.T, p *cli.Program, command, name string) (refused bool) {
	t.Helper()
	for _, value := range badValues {
		message := parse(t, p, command, "--"+name+"="+value)
		if message == "" {
			continue
		}
		prefix := dashed(name) + ": must "
		require.True(t, strings.HasPrefix(message, prefix), message)
		allowed := message[len(prefix):]
		require.NotContains(t, allowed, dashed(name)+":", message)
		if value != "" {
			require.Contains(t, message, fmt.Sprintf("%q", value))
			refused = true
		}
	}
	return refused
}

// checkName misspells a flag and leaves out its value.
func checkName(t *testing.T, p *cli.Program, command, name string) {
	t.Helper()
	known := p.Find(command).Flags()
	value := known.Registry.Lookup(name).Value
	_, optional := value.(interface{ ValueIsOptional() bool })
	if b, ok := value.(interface{ IsBoolFlag() bool }); !optional && (!ok || !b.IsBoolFlag()) {
		require.Equal(t, dashed(name)+" needs a value", parse(t, p, command, "--"+name))
	}
	const longEnough = 5 // names shorter than this are near many others
	if len(name) >= longEnough {
		misspelt := name[:1] + name[2:3] + name[1:2] + name[3:]
		if misspelt == name {
			misspelt = name + "e"
		}
		require.Equal(t, fmt.Sprintf("there is no flag --%s; did you mean --%s?", misspelt, name), parse(t, p, command, "--"+misspelt+"=1"))
	}
	before := message(t, p, []string{"--" + name, command})
	require.Contains(t, before, "--"+name+" stands before the command")
}

// parse parses the arguments of a command and returns the message of the usage error, or "".
func parse(t *testing.T, p *cli.Program, command string, args ...string) string {
	t.Helper()
	if _, err := p.Find(command).Flags().Parse(args); err == nil {
		return ""
	}
	return message(t, p, append([]string{command}, args...))
}

// message runs a command line that is wrong and returns the message of its usage error.
func message(t *testing.T, p *cli.Program, args []string) string {
	t.Helper()
	var screen strings.Builder
	s := cli.SystemStreams()
	s.Err = &screen
	require.Equal(t, cli.ExitUsage, p.Execute(t.Context(), s, args))
	line, hint, _ := strings.Cut(screen.String(), "\n")
	require.Regexp(t, `^Run '`+p.Name+` help( [a-z0-9]+)?' for `, hint)
	text, ok := strings.CutPrefix(line, p.Name+": ")
	require.True(t, ok, line)
	require.NotContains(t, text, p.Name+": ")
	return text
}

// dashed adds dashes to the name of a flag: one for a letter, two for a word. The tests state
// what users type and do not call the code that they check.
func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}
