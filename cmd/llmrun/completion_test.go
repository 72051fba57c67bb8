package main

import (
	"flag"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/cli"
)

// TestCompletionHasEveryFlag looks for each command and flag of the program in the script of each shell.
func TestCompletionHasEveryFlag(t *testing.T) {
	program := llmrunProgram()
	for _, shell := range cli.Shells {
		script, err := program.Completion(shell)
		require.NoError(t, err)
		for _, name := range program.Names() {
			require.Contains(t, script, name)
			program.Find(name).Flags().Registry.VisitAll(func(f *flag.Flag) {
				spelled := "--" + f.Name
				switch {
				case f.Name == "help-all":
					return
				case shell == "fish" && len(f.Name) == 1:
					spelled = " -s " + f.Name
				case shell == "fish":
					spelled = " -l " + f.Name
				case len(f.Name) == 1:
					spelled = "-" + f.Name
				}
				require.Contains(t, script, spelled, "%s: %s", shell, name)
			})
		}
	}
	_, err := program.Completion("tcsh")
	require.ErrorContains(t, err, `there is no shell "tcsh": give bash, zsh, fish or powershell`)
}

// completed returns what bash completes behind words, of which the last is not finished.
func completed(t *testing.T, bash string, words ...string) []string {
	t.Helper()
	script, err := llmrunProgram().Completion("bash")
	require.NoError(t, err)
	command := exec.Command(bash, "--norc", "-c", script+`COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _llmrun; printf '%s\n' "${COMPREPLY[@]}"`, "bash")
	command.Args = append(command.Args, words...)
	out, err := command.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return strings.Fields(string(out))
}

// TestBashCompletes runs the script for bash.
func TestBashCompletes(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("bash is not here")
	}
	for line, want := range map[string]string{
		"llmrun plu": "", "llmrun pla": "plan", "llmrun p": "plan profile pull perplexity",
		"llmrun run --kv k8": "k8v8 k8f8", "llmrun run --flas": "--flash", "llmrun chat -m model --sess": "--session", "llmrun run -m mod": "",
		"llmrun help pul": "pull", "llmrun nothing --x": "", "llmrun version --j": "--json",
	} {
		require.ElementsMatch(t, strings.Fields(want), completed(t, bash, strings.Fields(line)...), line)
	}
}

// TestShellsReadTheirScripts lets the shells that are here parse their scripts.
func TestShellsReadTheirScripts(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		t.Run(shell, func(t *testing.T) {
			path, err := exec.LookPath(shell)
			if err != nil {
				t.Skip("the shell is not here")
			}
			script, err := llmrunProgram().Completion(shell)
			require.NoError(t, err)
			command := exec.Command(path, "-n")
			command.Stdin = strings.NewReader(script)
			out, err := command.CombinedOutput()
			require.NoError(t, err, "%s", out)
		})
	}
}
