package llmrun

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWaitingForAnImportIsCancelled checks that a program that waits for another one's import can be stopped.
func TestWaitingForAnImportIsCancelled(t *testing.T) {
	require.NoError(t, waitForImport(t.Context()))
	ended := errors.New("ended")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(ended)
	err := waitForImport(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, ended)
}

// TestWaitingForAnImportIsSaidOnce looks many times whether another process has written a pack.
func TestWaitingForAnImportIsSaidOnce(t *testing.T) {
	var said []string
	o := Options{Notify: func(text string) { said = append(said, text) }}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // no look takes time
	for range 5 {
		o.refuseImport(fmt.Errorf("a pack: %w", ErrLocked))
		require.True(t, o.importedElsewhere)
		require.ErrorIs(t, o.awaitImport(ctx), context.Canceled)
	}
	require.Len(t, said, 2)
	require.Contains(t, said[1], "waiting")
	o.refuseImport(errors.New("no room"))
	require.Len(t, said, 3, "another reason is said")
}
