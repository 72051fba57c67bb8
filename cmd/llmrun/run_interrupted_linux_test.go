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
	dir = t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o700))
	note, err := os.ReadFile(filepath.Join("testdata", "notes", "note-03.md"))
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "long.md")
	require.NoError(t, os.WriteFile(file, []byte(strings.Repeat("The sun is up. The sky is blue.\n", 250)+string(note)), 0o600))
	const question = "When will Kate test the photos?"
	want := llmrun("run", "-f", file, "-p", question, "--temp", "0", "-q", "--no-kv-cache")

	for number, name := range map[syscall.Signal]string{syscall.SIGINT: "int", syscall.SIGKILL: "kill"} {
		dir = t.TempDir() // a run would continue what the other one has stored
		require.NoError(t, os.Chmod(dir, 0o700))
		var errs bytes.Buffer
		run := exec.Command(binary, "run", "--session", name, "-f", file, "-p", "Summarize the note.", "--temp", "0", "--cache-dir", dir)
		run.Stderr = &errs
		require.NoError(t, run.Start())
		require.True(t, testutil.HoldsWithin(time.Minute, func() bool {
			_, err := os.Stat(filepath.Join(dir, "sessions", name+".session"))
			return err == nil
		}))
		require.NoError(t, run.Process.Signal(number))
		var exit *exec.ExitError
		require.ErrorAs(t, run.Wait(), &exit, "%s", &errs)
		if number == syscall.SIGINT {
			require.Equal(t, 130, exit.ExitCode())
			require.Regexp(t, `llmrun: \d+ of [1-9]\d* tokens of the prompt are computed; session int keeps the prompt: llmrun run --session int -p TEXT `, errs.String())
		}
		listed := llmrun("sessions")
		require.Contains(t, listed, name+" ")
		shown := llmrun("sessions", "show", name)
		require.Contains(t, shown, " tokens, 1 messages")
		require.NotContains(t, shown, "Summarize")
		answer := llmrun("run", "--session", name, "-p", question, "--temp", "0")
		require.Equal(t, want, answer)
	}
}
