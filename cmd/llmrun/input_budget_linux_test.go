package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
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
