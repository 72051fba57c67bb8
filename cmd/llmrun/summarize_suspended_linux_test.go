package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/cli"
	"github.com/llmrun/llmrun/internal/testutil"
)

// TestSuspendedSummariesGoOn stops a summary with SIGSTOP, as a system does with an app in the background, when it has
// saved a part: nothing is saved until SIGCONT, and the result is that of a run that was not stopped. With --nice, it
// yields to all other programs.
func TestSuspendedSummariesGoOn(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the command, and runs the bundled model")
	}
	binary, dir := builtCommand(t), t.TempDir()
	file := filepath.Join(dir, "doc.md")
	require.NoError(t, os.WriteFile(file, []byte(variedText(testutil.Random(t), 700)), 0o600))
	summarize := func(cache string) []string {
		require.NoError(t, os.Mkdir(cache, 0o700))
		return []string{binary, "summarize", file, "--part-tokens", "64", "--length", "20", "-q", "--nice", "--cache-dir", cache}
	}
	want := outputOf(t, summarize(filepath.Join(dir, "calm")))

	cache := filepath.Join(dir, "stopped")
	line := summarize(cache)
	var out, errs bytes.Buffer
	command := exec.Command(line[0], line[1:]...)
	command.Stdout, command.Stderr = &out, &errs
	require.NoError(t, command.Start())
	testutil.Eventually(t, "a part is saved", func() bool { return len(savedParts(t, cache)) > 0 })
	require.NoError(t, command.Process.Signal(syscall.SIGSTOP))
	testutil.Eventually(t, "the process is stopped", func() bool {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", command.Process.Pid))
		require.NoError(t, err)
		return strings.HasPrefix(string(status[bytes.LastIndexByte(status, ')')+1:]), " T ")
	})
	const nicest = 20 // the system call returns this less the nice value
	priority, err := syscall.Getpriority(syscall.PRIO_PROCESS, command.Process.Pid)
	require.NoError(t, err)
	require.Equal(t, nicest-leastPriority, priority)
	saved := savedParts(t, cache)
	require.False(t, testutil.HoldsWithin(50*time.Millisecond, func() bool { return len(savedParts(t, cache)) != len(saved) }))
	require.NoError(t, command.Process.Signal(syscall.SIGCONT))
	require.NoError(t, command.Wait(), "%s", &errs)
	require.Equal(t, string(want), out.String())
	require.Greater(t, len(savedParts(t, cache)), len(saved), "the signal came after the end")
}

// TestSummaryProgress is about the line of a summary under way.
func TestSummaryProgress(t *testing.T) {
	at := llmrun.SummaryProgress{Part: 7, Parts: 23, Done: 6_000, Total: 23_000}
	require.Equal(t, "part 7/23, 1:42 left", progressText(at, 36*time.Second))
	at.Done = 0
	require.Equal(t, "part 7/23", progressText(at, 36*time.Second))
	at.Level, at.Part, at.Parts, at.Done = 1, 1, 2, 20_000
	require.Equal(t, "merge 1/2, 0:09 left", progressText(at, time.Minute))

	var screen bytes.Buffer
	columns := 0
	terminal := &cli.Streams{Err: &screen, ErrTerminal: true, ErrColumns: func() int { return columns }}
	p := &summaryProgress{screen: cli.NewStatusLine(terminal), count: "2/40", name: "b.md"}
	p.update(at)
	require.Regexp(t, `^\r2/40 b\.md: merge 1/2, .* left\x1b\[K$`, screen.String())
	p.finish()
	require.True(t, strings.HasSuffix(screen.String(), "\r\x1b[K"))
	screen.Reset()
	(&summaryProgress{screen: cli.NewStatusLine(&cli.Streams{Err: &screen})}).update(at)
	require.Empty(t, screen.String(), "nothing is drawn into a file")

	// The terminal becomes narrower: what it has broken into lines is removed, and the line fits. How many documents are
	// done stays.
	p = &summaryProgress{screen: cli.NewStatusLine(terminal), count: "2/40", name: "minutes/of/the/meeting.md"}
	draw := func(width int) string {
		screen.Reset()
		columns, p.drawn = width, time.Time{}
		at.Done = 0
		p.update(at)
		return screen.String()
	}
	require.Equal(t, "\r2/40 minutes/of/the/meeting.md: merge 1/2\x1b[K", draw(80))
	require.Equal(t, "\r\x1b[1A\x1b[J2/40 …of/the/meeting.md: merge 1/2\x1b[K", draw(35))
	require.Equal(t, "\r\x1b[1A\x1b[J2/40: merge 1/2\x1b[K", draw(17))
	require.Equal(t, "\r\x1b[2A\x1b[J2/40:\x1b[K", draw(6))
	require.Equal(t, "\r2/40 minutes/of/the/meeting.md: merge 1/2\x1b[K", draw(42))
	screen.Reset()
	columns = 20
	p.finish()
	require.Equal(t, "\r\x1b[2A\x1b[J\x1b[K", screen.String())
}
