package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/cli"
)

// TestSignalsStop checks that each of the StopSignals cancels the context and gives its exit code.
func TestSignalsStop(t *testing.T) {
	done := errors.New("the error of a cancelled operation")
	for number, code := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143, syscall.SIGHUP: 129} {
		if number == syscall.SIGHUP && signal.Ignored(number) {
			continue // the tests were started with nohup
		}
		ctx, stop := cli.Interruptible(t.Context())
		require.ErrorIs(t, cli.Interruption(ctx, done), done, "the context is not cancelled yet")
		require.NoError(t, syscall.Kill(os.Getpid(), number))
		<-ctx.Done()
		stop()
		err := cli.Interruption(ctx, done)
		require.True(t, cli.WasStopped(err))
		require.Equal(t, number == syscall.SIGINT, errors.Is(err, cli.ErrInterrupted), "only Ctrl-C continues a chat")
		var stopped cli.StoppedBy
		require.ErrorAs(t, err, &stopped)
		require.Equal(t, code, stopped.ExitCode())
	}
	parent, cancel := context.WithCancel(t.Context())
	ctx, stop := cli.Interruptible(parent)
	defer stop()
	cancel()
	<-ctx.Done()
	require.ErrorIs(t, cli.Interruption(ctx, done), cli.ErrInterrupted)
}
