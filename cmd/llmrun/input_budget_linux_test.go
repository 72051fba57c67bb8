package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLogitsHoldTheirMinimum prints the logits of 2000 positions as text with the budget that a
// refusal states. The rows and what prints them stay within it.
func TestLogitsHoldTheirMinimum(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the command, and runs the bundled model")
	}
	binary := builtCommand(t)
	var ids strings.Builder
	for id := range 2000 {
		ids.WriteString(strconv.Itoa(id+1) + ",")
	}
	arguments := []string{"logits", "--ids", ids.String(), "--at", "all", "--ram"}
	refusal, err := exec.Command(binary, append(arguments, "1MiB")...).CombinedOutput()
	require.Error(t, err)
	least := statedMinimum.FindSubmatch(refusal)
	require.NotNil(t, least, "%s", refusal)
	require.Equal(t, "MiB", string(least[2]))
	budget, err := strconv.ParseFloat(string(least[1]), 64)
	require.NoError(t, err)
	command := exec.Command(binary, append(arguments, string(least[1])+"MiB")...)
	var printed bytes.Buffer
	command.Stdout = &printed
	peak, code := peakOf(t, command)
	require.Zero(t, code)
	require.Equal(t, 2000, strings.Count(printed.String(), "after position"))
	require.LessOrEqual(t, float64(peak), budget*(1<<20)+budgetSlack)
}

// TestChatHoldsItsBudgetForAnyInput gives chat a message without end, and a file of many short
// messages, of which it has room for each.
func TestChatHoldsItsBudgetForAnyInput(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the command, and runs the bundled model")
	}
	binary, many := builtCommand(t), filepath.Join(t.TempDir(), "many")
	text := "Hi there fox\n/exit\n" + strings.Repeat("Hi there fox\n", 75000)
	require.NoError(t, os.WriteFile(many, []byte(text), 0o600))
	for _, test := range []struct {
		input  string
		budget int64
		code   int
	}{
		{"/dev/zero", 64 << 20, exitBudget},
		{many, 45 << 20, 0},
	} {
		input, err := os.Open(test.input)
		require.NoError(t, err)
		defer input.Close()
		command := exec.Command(binary, "chat", "-n", "1", "--overflow", "slide", "--threads", "2", "--ram", strconv.FormatInt(test.budget, 10))
		command.Stdin = input
		peak, code := peakOf(t, command)
		require.Equal(t, test.code, code, test.input)
		require.LessOrEqual(t, peak, test.budget+budgetSlack, test.input)
	}
}

// TestInputsTogetherHoldTheBudget gives commands files that fit one by one and not together, and constraints that take
// many times their size to compile.
func TestInputsTogetherHoldTheBudget(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the command, and runs the bundled model")
	}
	binary, dir := builtCommand(t), t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	part := file("part", strings.Repeat("the fox ran into a forest; QzXw%7\n", 160e3)) // 5.4 MB, an eighth of 45 MiB and less
	parts := strings.Split(strings.Repeat("-f "+part+" ", 12), " ")[:24]
	numbers := `{"enum":[` + strings.Repeat("1,", 500e3) + `1]}`
	var rules strings.Builder
	rules.WriteString("root ::= r1\n")
	for i := range 30_000 {
		fmt.Fprintf(&rules, "r%d ::= \"x\" r%d | \"y\"\n", i, (i+1)%30_000)
	}
	for _, test := range []struct {
		name, input string
		arguments   []string
		code        int
	}{
		{"files", "", append([]string{"run"}, parts...), 1}, // more tokens than the context has
		{"files of a context that slides", "", append([]string{"run", "--overflow", "slide", "--allow-truncate"}, parts...), exitBudget},
		{"texts", "", append([]string{"embed", "--pooling", "mean"}, parts...), exitBudget},
		{"files of a message", strings.Repeat("/file "+part+"\n", 12), []string{"chat"}, 1},
		{"schema", "", []string{"run", "-p", "Hi", "--schema", file("schema", numbers)}, exitBudget},
		{"grammar", "", []string{"run", "-p", "Hi", "--grammar", file("grammar", rules.String())}, exitBudget},
	} {
		command := exec.Command(binary, append(test.arguments, "--ram", "45MiB", "--threads", "2")...)
		command.Stdin = strings.NewReader(test.input)
		peak, code := peakOf(t, command)
		require.Equal(t, test.code, code, test.name)
		require.LessOrEqual(t, peak, int64(45<<20+budgetSlack), test.name)
	}
}

// TestResultsHoldTheirBudget asks for results that are larger than the budget has left: probabilities of many tokens, and
// a vector for each token of a text. They are counted, or refused.
func TestResultsHoldTheirBudget(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the command")
	}
	binary, model, text := builtCommand(t), []string{"-m", shapedModel(t, "tiny"), "--no-import"}, filepath.Join(t.TempDir(), "text")
	require.NoError(t, os.WriteFile(text, []byte(strings.Repeat("the fox ran into a forest; QzXw%7\n", 1200)), 0o600))
	answer := func(arguments ...string) []string {
		return slices.Concat([]string{"run", "--ids", "1,2,3", "--ignore-eos", "--logprobs", "100", "--json"}, model, arguments)
	}
	for _, test := range []struct {
		name      string
		arguments []string
		budget    int64
		code      int
	}{
		{"probabilities", answer("-n", "900"), 32 << 20, 0},
		{"probabilities of several answers", answer("-n", "300", "--samples", "3"), 32 << 20, 0},
		{"vectors", []string{"embed", "-f", text, "--pooling", "none", "--json"}, 40 << 20, exitBudget},
	} {
		command := exec.Command(binary, append(test.arguments, "--threads", "2", "--ram", strconv.FormatInt(test.budget, 10))...)
		var printed bytes.Buffer
		command.Stdout = &printed
		peak, code := peakOf(t, command)
		t.Logf("%s: %.1f MiB", test.name, float64(peak)/(1<<20))
		require.Equal(t, test.code, code, test.name)
		require.LessOrEqual(t, peak, test.budget+budgetSlack, test.name)
		if code == 0 {
			var got struct {
				LogProbs   []json.RawMessage `json:"logprobs"`
				Candidates []struct {
					LogProbs []json.RawMessage `json:"logprobs"`
				}
			}
			require.NoError(t, json.Unmarshal(printed.Bytes(), &got))
			for _, k := range got.Candidates {
				got.LogProbs = append(got.LogProbs, k.LogProbs...)
			}
			require.GreaterOrEqual(t, len(got.LogProbs), 900, test.name)
		}
	}
}
