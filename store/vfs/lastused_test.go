package vfs

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
)

// TestTouchOrdersFilesByUse covers every writable file system that records times.
func TestTouchOrdersFilesByUse(t *testing.T) {
	for name, fsys := range writable(t) {
		if name == "osroot" || name == "confined" {
			_, known := LastUsed(fsys, "a")
			require.False(t, known)
			continue
		}
		t.Run(name, func(t *testing.T) {
			require.NoError(t, WriteFile(fsys, "a", nil))
			clockAdvances(t, fsys)
			require.NoError(t, WriteFile(fsys, "b", nil))
			at := func(name string) time.Time {
				used, ok := LastUsed(fsys, name)
				require.True(t, ok)
				return used
			}
			require.True(t, at("a").Before(at("b")))
			clockAdvances(t, fsys)
			require.NoError(t, Touch(fsys, "a"))
			require.True(t, at("b").Before(at("a")))
			require.Error(t, Touch(fsys, "none"))
			_, ok := LastUsed(fsys, "none")
			require.False(t, ok)
		})
	}
}

// clockAdvances waits until the clock of the file system has passed the time of the last
// file. Some file systems record times of the kernel's coarse clock, others of whole seconds.
func clockAdvances(t *testing.T, fsys FS) {
	t.Helper()
	now := func() time.Time {
		require.NoError(t, WriteFile(fsys, "clock", nil))
		at, known := LastUsed(fsys, "clock")
		require.True(t, known)
		return at
	}
	begin := now()
	testutil.Eventually(t, "the file system's clock advances", func() bool { return now().After(begin) })
}
