package ended

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSleep sleeps to the end, and until a context ends, whose cause is returned.
func TestSleep(t *testing.T) {
	require.NoError(t, Sleep(t.Context(), 0))
	stopped := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stopped)
	require.ErrorIs(t, Sleep(ctx, time.Hour), stopped)
}
