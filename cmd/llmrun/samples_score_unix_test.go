//go:build unix

package main

import (
	"context"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
)

// TestCommandsThatDoNotEnd runs commands that do not end: the answer loses, or an interruption ends the command with what it has started,
// which holds a pipe as long as it runs. One that takes long is named once.
func TestCommandsThatDoNotEnd(t *testing.T) {
	var notes []string
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	c, err := parseScorer("command:sleep 600; echo 1")
	require.NoError(t, err)
	c.patience, c.quiet, c.note = time.Millisecond, time.Hour, func(text string) { notes = append(notes, text) }
	score, err := c.score(t.Context(), &llmrun.Candidate{Index: 2})
	require.NoError(t, err)
	require.Equal(t, -math.MaxFloat32, score)
	require.Equal(t, []string{"--best-of: the command did not end within 1ms for answer 3, which loses against the others"}, notes)

	c.command, c.patience, c.quiet = "cat "+pipe, time.Hour, time.Millisecond
	c.note = func(text string) {
		require.Equal(t, "--best-of: the command still runs; it has 1h0m0s for an answer", text)
		require.NoError(t, os.WriteFile(pipe, []byte("7"), 0)) // the command ends
	}
	score, err = c.score(t.Context(), &llmrun.Candidate{})
	require.NoError(t, err)
	require.EqualValues(t, 7, score)
	require.Equal(t, c.patience, c.quiet, "said once")

	c.command = "sleep 600 > " + pipe + "; echo 1"
	ctx, interrupt := context.WithCancelCause(t.Context())
	interrupted := errors.New("interrupted")
	closed := make(chan error, 1)
	go func() {
		f, err := os.Open(pipe) // when the command has opened it
		interrupt(interrupted)
		if err == nil {
			defer f.Close()
			_, err = io.ReadAll(f) // until all have closed it
		}
		closed <- err
	}()
	_, err = c.score(ctx, &llmrun.Candidate{})
	require.ErrorIs(t, err, interrupted)
	require.NoError(t, <-closed)
}
