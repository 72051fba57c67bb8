package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
)

// statedMinimum matches the budget that a refusal states.
var statedMinimum = regexp.MustCompile(`needs at least ([0-9.]+) ([KMG]iB)`)

// TestFirstRefusalOfACommandIsEnough gives commands a prompt that is long for the context or for the
// memory, and too small a budget. The refusal states a minimum with which the same command works,
// or finds that no context of the command's holds the prompt. LLMRUN_TEST_SWEEP=1 runs every command, not each second
// one.
func TestFirstRefusalOfACommandIsEnough(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the command, and runs the bundled model")
	}
	binary := builtCommand(t)
	text := strings.Repeat("the fox ran over a hill and saw birds ", 300) // 2711 tokens; plans choose 2048
	long, large, short := filepath.Join(t.TempDir(), "long"), filepath.Join(t.TempDir(), "large"), filepath.Join(t.TempDir(), "short")
	require.NoError(t, os.WriteFile(short, []byte("Hello"), 0o600))
	require.NoError(t, os.WriteFile(long, []byte(text), 0o600))
	require.NoError(t, os.WriteFile(large, []byte(strings.Repeat(text, 50)), 0o600)) // takes 7 MiB
	ids := strings.Repeat(longIDs()+",", 4) + "1"
	list := filepath.Join(t.TempDir(), "ids")
	require.NoError(t, os.WriteFile(list, []byte(ids), 0o600))
	answers := "" // of the last run
	run := func(input string, arguments ...string) (code int, errors string) {
		command := exec.Command(binary, append(slices.Clip(arguments), "--threads", "2")...) // each thread takes memory
		name, piped := strings.CutPrefix(input, "|")
		if input != "" {
			file, err := os.Open(name)
			require.NoError(t, err)
			defer file.Close()
			if command.Stdin = file; piped {
				command.Stdin = io.MultiReader(strings.NewReader("Hi\n"), file) // as a pipe
			}
			if piped && name == list {
				command.Stdin = struct{ io.Reader }{file}
			}
		}
		var stdout bytes.Buffer
		command.Stdout = &stdout
		defer func() { answers = stdout.String() }()
		var stderr bytes.Buffer
		command.Stderr = &stderr
		_ = command.Run() // a failure shows in the code
		return command.ProcessState.ExitCode(), stderr.String()
	}
	for i, test := range []struct {
		name, ram, input string
		arguments        []string
		code             int
		want             string // in the errors of the second run
	}{
		{"run", "20MiB", "", []string{"run", "-f", long, "-n", "2"}, 0, "prompt 27"},
		{"run with room for less", "44MiB", "", []string{"run", "-f", long, "-n", "2"}, 0, "prompt 27"},
		{"run of ids", "20MiB", "", []string{"run", "--ids", ids, "-n", "2"}, 0, "prompt 2561"},
		{"ids that are too many to be read", "60KiB", list, []string{"run", "--ids", "-", "-n", "2"}, 0, "prompt 2561"},
		{"ids from a pipe", "60KiB", "|" + list, []string{"run", "--ids", "-", "-n", "2"}, 0, "prompt 2561"},
		{"logits of ids from a pipe", "60KiB", "|" + list, []string{"logits", "--ids", "-"}, 0, ""},
		{"a text that is too long to be read", "60KiB", "", []string{"run", "-f", long, "-n", "2"}, 0, "prompt 27"},
		{"a text from a pipe", "60KiB", "|" + long, []string{"run", "-f", "-", "-n", "2"}, 0, "prompt 27"},
		{"chat", "20MiB", long, []string{"chat", "-n", "2"}, 0, ""},
		{"large message", "20MiB", large, []string{"chat", "-n", "2", "--ctx", "512", "--overflow", "slide"}, 0, ""},
		{"system message", "20MiB", short, []string{"chat", "--system", text, "-n", "2"}, 0, ""},
		{"logits", "20MiB", "", []string{"logits", "--ids", longIDs(), "--at", "all"}, 0, ""},
	} {
		if i%testutil.Effort(2, 1) != 0 {
			continue
		}
		t.Run(test.name, func(t *testing.T) {
			code, refusal := run(test.input, append(test.arguments, "--ram", test.ram)...)
			require.Equal(t, exitBudget, code, refusal)
			require.NotContains(t, refusal, "use a context of at most", "shorter than the prompt")
			least := statedMinimum.FindStringSubmatch(refusal)
			require.NotNil(t, least, refusal)
			code, errors := run(test.input, append(test.arguments, "--ram", least[1]+least[2])...)
			require.Equal(t, test.code, code, errors)
			require.Contains(t, errors, test.want)
		})
	}
	// No budget helps against a prompt that the context cannot hold.
	for _, test := range []struct {
		ram, input string
		arguments  []string
	}{
		{"20MiB", large, []string{"run", "-f", large, "-n", "2", "--ctx", "512"}},
		{"20MiB", large, []string{"run", "-f", large, "-n", "2", "--no-import"}},
		{"20MiB", large, []string{"chat", "-n", "2", "--ctx", "512"}},
		{"4MiB", "", []string{"run", "-f", large, "-n", "2", "--ctx", "512"}}, // is not read
		{"4MiB", "|" + large, []string{"run", "-f", "-", "-n", "2", "--ctx", "512"}},
	} {
		code, refusal := run(test.input, append(test.arguments, "--ram", test.ram)...)
		require.Equal(t, 1, code, refusal)
		require.Contains(t, refusal, "context is full: the sequence has at least ")
		require.NotContains(t, refusal, "needs at least")
	}
	// A message of a pipe is not known beforehand. The answers before it are kept.
	huge := filepath.Join(t.TempDir(), "huge")
	require.NoError(t, os.WriteFile(huge, []byte(strings.Repeat(text, 500)+"\nbye\n"), 0o600)) // 5.6 MB
	code, refusal := run("|"+huge, "chat", "-n", "3", "--ctx", "512", "--ram", "40MiB")
	require.Equal(t, exitBudget, code, refusal)
	require.NotEmpty(t, strings.TrimSpace(answers))
	require.Contains(t, refusal, "standard input: the prompt has more than 5.0 MiB, 1/8 of --ram")
	require.Contains(t, refusal, "use a shorter prompt")
	require.NotContains(t, refusal, "smaller model")
	least := statedMinimum.FindStringSubmatch(refusal)
	require.NotNil(t, least, refusal)
	code, refusal = run("|"+huge, "chat", "-n", "3", "--ctx", "512", "--ram", least[1]+least[2])
	require.Equal(t, 1, code, refusal)
	require.Contains(t, refusal, "context is full")
	// A context that slides needs no room for the prompt.
	_, refusal = run("", "run", "-f", long, "--ram", "20MiB", "--overflow", "slide", "--allow-truncate")
	require.Contains(t, refusal, ": a context of 2048 tokens needs at least ")
	// The text of perplexity, also one that is too long to be read.
	perplexity := func(file, ram string) string {
		code, refusal := run("", "perplexity", "-f", file, "--ctx", "64", "--ram", ram)
		require.Equal(t, exitBudget, code, refusal)
		least := statedMinimum.FindStringSubmatch(refusal)
		require.NotNil(t, least, refusal)
		return least[1] + least[2]
	}
	short20 := perplexity(long, "20MiB")
	need := perplexity(large, "20MiB")
	require.NotEqual(t, short20, need)
	require.Equal(t, need, perplexity(large, short20), "enough for the short text only")
	perplexity(large, "4MiB")
}

// TestPlanRefusesLongPromptsAsRunDoes plans and runs prompts of megabytes: the exit codes are the same, and the refusals have the
// same words. A plan gets the ids of a run, and of a text the number of its tokens.
func TestPlanRefusesLongPromptsAsRunDoes(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the command, and runs the bundled model")
	}
	binary, dir := builtCommand(t), t.TempDir()
	text, list := filepath.Join(dir, "text"), filepath.Join(dir, "ids")
	require.NoError(t, os.WriteFile(text, []byte(strings.Repeat("the fox ran into a forest; ", 10_000_000/27)), 0o600))
	require.NoError(t, os.WriteFile(list, []byte(strings.Repeat("12,", 1_000_000)), 0o600))
	model := shapedModel(t, "tiny")
	number := regexp.MustCompile(`(at least )?[\d.]+( [KMG]iB)?`)
	do := func(verb string, arguments ...string) (code int, refusal string) {
		command := exec.Command(binary, append([]string{verb, "--threads", "2", "--no-import"}, arguments...)...)
		input, err := os.Open(list)
		require.NoError(t, err)
		defer input.Close()
		var stderr strings.Builder
		command.Stdin, command.Stderr = input, &stderr
		_ = command.Run() // a failure shows in the code
		lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
		last, _, _ := strings.Cut(lines[len(lines)-1], "; the context holds ") // advice for the session of a run
		return command.ProcessState.ExitCode(), number.ReplaceAllString(last, "#")
	}
	ids := []string{"-m", model, "--ids", "-"}
	for _, test := range []struct {
		name          string
		ram, overflow string
		run, plan     []string
		code          int
	}{
		{"a text that is not read", "45MiB", "stop", []string{"-f", text}, []string{"--prompt", "2600000"}, 1},
		{"a text", "150MiB", "stop", []string{"-f", text}, []string{"--prompt", "2600000"}, 1},
		{"ids", "64MiB", "stop", ids, ids, 1},
		{"ids that are not read", "32MiB", "slide", ids, ids, exitBudget},
		{"ids that slide", "64MiB", "slide", ids, ids, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			with := []string{"--ram", test.ram, "--overflow", test.overflow}
			if test.overflow == "slide" {
				with = append(with, "--allow-truncate")
			}
			code, said := do("run", append(slices.Concat(with, test.run), "-n", "4", "-q")...)
			require.Equal(t, test.code, code, said)
			planned, refused := do("plan", append(slices.Concat(with, test.plan), "--answer", "4")...)
			require.Equal(t, code, planned, refused)
			if code != 0 {
				require.Equal(t, said, refused)
			}
		})
	}
}

// TestLongIDsAreNoText checks that a list of ids that is too long to be read is counted, and not taken
// for a text, which would take more.
func TestLongIDsAreNoText(t *testing.T) {
	list := strings.Repeat("17, ", 1<<20) + "5"
	refused := &longPrompt{flag: "--ids-file", parts: idsPart}
	require.NoError(t, refused.count(iotest.HalfReader(strings.NewReader(list))))
	require.EqualValues(t, idsPart*len(list), refused.memory(), "a budget of which the list takes its part")
	require.Equal(t, 1<<20+1, refused.tokens)
	text := &longPrompt{flag: "-f", parts: promptPart}
	require.NoError(t, text.count(strings.NewReader(list)))
	require.Greater(t, text.memory(), refused.memory())
	require.Zero(t, text.tokens)
}
