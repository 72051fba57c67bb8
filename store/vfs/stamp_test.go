package vfs

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestStampForReading waits as long as a change could get the stamp of the change before, and not for ever.
func TestStampForReading(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	require.NoError(t, WriteFile(OS(), path, []byte("x")))
	f, err := OS().Open(path)
	require.NoError(t, err)
	defer f.Close()
	want, known, err := StampOf(f)
	require.NoError(t, err)
	if !known {
		t.Skip("the system records no changes")
	}
	for _, steps := range []int{0, 2, 1000} {
		pauses := 0
		got, err := stampForReading(f, func() int64 {
			if pauses < steps {
				return want.Changed // the step of the clock in which the file was changed
			}
			return want.Changed + 1
		}, func(time.Duration) { pauses++ })
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.Equal(t, min(steps, stampPauses), pauses)
	}
	held, err := NewMem().Create("a")
	require.NoError(t, err)
	got, err := StampForReading(held)
	require.NoError(t, err)
	require.Zero(t, got, "a file in memory has no stamp")
}
