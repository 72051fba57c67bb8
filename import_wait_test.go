package llmrun

import (
	"context"
	"errors"
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
