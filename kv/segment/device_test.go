package segment

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/store/vfs"
)

// TestNoNewSessionHasTheNameOfADevice locks sessions whose files Windows would take for devices.
func TestNoNewSessionHasTheNameOfADevice(t *testing.T) {
	fsys := vfs.NewMem()
	d := openDir(t, fsys, 0)
	for _, name := range []string{"con", "NUL", "Aux", "prn", "com1", "LPT9", "nul.txt", "con.a.b"} {
		_, err := d.LockSession(name)
		require.ErrorIs(t, err, ErrName, name)
		require.ErrorContains(t, err, "use another name")
	}
	for _, name := range []string{"console", "com", "com10", "lptx", "a.con", "nul-1"} {
		l, err := d.LockSession(name)
		require.NoError(t, err, name)
		require.NoError(t, l.Close())
	}
	// One that was saved before stays usable.
	require.NoError(t, vfs.WriteFile(fsys, d.sessionPath("aux"), (&Manifest{PageTokens: 4}).encode()))
	l, err := d.LockSession("aux")
	require.NoError(t, err)
	require.NoError(t, l.Close())
}
