package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
)

// TestInterruptedPromptOfASessionIsKept stops run while it reads a document. The session is listed, run says how far it
// got and how to go on, and the next question is answered with the document. If the process is killed, the session
// has the document too.
func TestInterruptedPromptOfASessionIsKept(t *testing.T) {
	binary, dir := builtCommand(t), ""
	llmrun := func(args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		command := exec.Command(binary, append(args, "--cache-dir", dir)...)
		command.Stdout, command.Stderr = &out, &errs
		require.NoError(t, command.Run(), "%s", &errs)
		return out.String()
	}
	note, err := os.ReadFile(filepath.Join("testdata", "notes", "note-03.md"))
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "long.md")
	const question = "When will Kate test the photos?"

	for number, name := range map[syscall.Signal]string{syscall.SIGINT: "int", syscall.SIGKILL: "kill"} {
		var errs bytes.Buffer
		// A prompt that was read before the signal came is made longer.
		for lines, read := 250, true; read; lines *= 2 {
			require.NoError(t, os.WriteFile(file, []byte(strings.Repeat("The sun is up. The sky is blue.\n", lines)+string(note)), 0o600))
			dir = t.TempDir() // a run would continue what the other one has stored
			require.NoError(t, os.Chmod(dir, 0o700))
			read = interruptPrompt(t, number, &errs, binary, "run", "--session", name, "-f", file, "-p", "Summarize the note.", "--temp", "0", "--cache-dir", dir)
		}
		if number == syscall.SIGINT {
			require.Regexp(t, `llmrun: \d+ of [1-9]\d* tokens of the prompt are computed; session int keeps the prompt: llmrun run --session int -p TEXT `, errs.String())
		}
		require.Contains(t, llmrun("sessions"), name+" ")
		shown := llmrun("sessions", "show", name)
		require.Contains(t, shown, " tokens, 1 messages")
		require.NotContains(t, shown, "Summarize")
		answer := llmrun("run", "--session", name, "-p", question, "--temp", "0")
		require.Equal(t, llmrun("run", "-f", file, "-p", question, "--temp", "0", "-q", "--no-kv-cache"), answer)
	}
}

// interruptPrompt runs a command that saves a session in the directory of its last argument, and signals it when the
// session is there. It reports whether the answer had begun before.
func interruptPrompt(t *testing.T, number syscall.Signal, errs *bytes.Buffer, binary string, args ...string) (begun bool) {
	t.Helper()
	errs.Reset()
	var out bytes.Buffer
	run := exec.Command(binary, args...)
	run.Stdout, run.Stderr = &out, errs
	require.NoError(t, run.Start())
	require.True(t, testutil.HoldsWithin(time.Minute, func() bool {
		saved, err := filepath.Glob(filepath.Join(args[len(args)-1], "sessions", "*.session"))
		return err == nil && len(saved) > 0
	}))
	require.NoError(t, run.Process.Signal(number))
	err := run.Wait()
	if out.Len() > 0 || err == nil {
		return true
	}
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit, "%s", errs)
	if number == syscall.SIGINT {
		require.Equal(t, 130, exit.ExitCode())
		return !strings.Contains(errs.String(), " of the prompt are computed") // between the prompt and the first token
	}
	return false
}
