package main

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/bench"
	"github.com/llmrun/llmrun/internal/cli"
	"github.com/llmrun/llmrun/notes"
)

// TestHelpNamesJSONFields checks that the help of a command names every field of its JSON output.
func TestHelpNamesJSONFields(t *testing.T) {
	for _, c := range []struct {
		command string
		prints  any
	}{
		{"run", runReport{}},
		{"run", tokenReport{}},
		{"run", candidateReport{}},
		{"jobs", llmrun.SavedJob{}},
		{"summarize", llmrun.Summary{}},
		{"summarize", llmrun.SummaryPart{}},
		{"index", notes.Updated{}},
		{"search", foundReport{}},
		{"sessions", llmrun.SavedSession{}},
		{"sessions", verified{}},
		{"sessions", freed{}},
		{"cache", llmrun.CachedPack{}},
		{"cache", llmrun.SavedKV{}},
		{"cache", freed{}},
		{"version", version{}},
		{"version", bench.Machine{}},
		{"import", llmrun.Imported{}},
		{"verify", verified{}},
		{"verify", verifiedFile{}},
		{"synth", written{}},
		{"synth", shapeList{}},
		{"synth", bench.ShapeInfo{}},
		{"calibrate", llmrun.Calibration{}},
		{"calibrate", llmrun.CalibrationInput{}},
		{"perplexity", llmrun.OutlierUse{}},
		{"rank", ranked{}},
	} {
		about := llmrunProgram().Find(c.command).About
		for _, field := range reflect.VisibleFields(reflect.TypeOf(c.prints)) {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			require.NotEmpty(t, name, "%s of %T", field.Name, c.prints)
			require.Regexp(t, `\b`+name+`\b`, about, "the help of %s", c.command)
		}
	}
}

// TestNearest checks the suggestions for mistyped commands.
func TestNearest(t *testing.T) {
	require.Equal(t, "inspect", cli.Nearest("inspcet", llmrunProgram().Names()))
	require.Equal(t, "tokenize", cli.Nearest("tokenise", llmrunProgram().Names()))
	require.Equal(t, "", cli.Nearest("frobnicate", llmrunProgram().Names()))
}

// TestEveryCommandHasHelp checks that every command has a summary, a description and at least
// three examples.
func TestEveryCommandHasHelp(t *testing.T) {
	for _, name := range llmrunProgram().Names() {
		t.Run(name, func(t *testing.T) {
			c := llmrunProgram().Find(name)
			require.NotNil(t, c.Prepare(cli.NewFlagSet()))
			require.NotEmpty(t, c.Summary)
			require.NotEmpty(t, c.About)
			require.GreaterOrEqual(t, len(c.Examples), 3)
			for _, e := range c.Examples {
				require.Contains(t, e.Line, "llmrun ")
				require.NotEmpty(t, e.Purpose)
			}
		})
	}
}

// TestHelpAsksForTheDefaultModelWhenItIsPrinted checks that commands start without reading the program's own file, which tells whether a
// model is behind it, and that their help names that model.
func TestHelpAsksForTheDefaultModelWhenItIsPrinted(t *testing.T) {
	read, saved := 0, programModel
	programModel = func() string { read++; return "/usr/bin/llmrun" }
	t.Cleanup(func() { programModel = saved })
	print := func(args ...string) string {
		out, err := os.CreateTemp(t.TempDir(), "")
		require.NoError(t, err)
		defer out.Close()
		stdout := os.Stdout
		os.Stdout = out
		s := cli.SystemStreams()
		os.Stdout = stdout
		require.Zero(t, llmrunProgram().Execute(t.Context(), s, args), "%v", args)
		text, err := os.ReadFile(out.Name())
		require.NoError(t, err)
		return string(text)
	}
	print("version")
	print("--version")
	for _, shell := range cli.Shells {
		print("completion", shell)
	}
	for _, name := range llmrunProgram().Names() {
		llmrunProgram().Find(name).Flags()
	}
	require.Zero(t, read, "nothing was printed that depends on it")
	require.Contains(t, print("help"), "a command uses the model\nin this program.")
	require.Contains(t, print("help"), "talk to the model in this program\n")
	for _, name := range llmrunProgram().Names() {
		for _, text := range []string{print("help", name), print("help", name, "--all")} {
			require.NotContains(t, text, "{default", name)
			require.NotContains(t, text, "bundled demo model\n", name)
		}
	}
	require.Contains(t, print("help", "chat"), "# talk with the model in this program\n")
	require.Contains(t, strings.Join(strings.Fields(print("chat", "--help")), " "), "or pack; default: the model in this program")
	require.Positive(t, read)
}
