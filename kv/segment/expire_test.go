package segment

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/store/vfs"
)

// TestExpire removes sessions by the time of their save and segments by the time of their use.
// Sessions in use, and what younger sessions need, stay.
func TestExpire(t *testing.T) {
	root := t.TempDir()
	d, err := OpenDir(vfs.OSOwn(), root, 1<<30)
	require.NoError(t, err)
	defer d.Close()
	d.spare = 0
	s, err := d.Store(testKey, testLayout)
	require.NoError(t, err)
	now := time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC) // files that the test writes are younger
	write := func(seed uint64, name string, saved time.Time) *Manifest {
		m := mustWrite(t, s, randomTokens(seed, 64), 16)
		m.Saved = saved
		if name != "" {
			require.NoError(t, save(d, name, m))
		}
		return m
	}
	old := now.Add(-2 * time.Hour)
	write(1, "old", old)
	young := write(2, "young", now)
	locked := write(3, "locked", old)
	lock, err := d.LockSession("locked")
	require.NoError(t, err)
	write(4, "", now) // a cached prefix
	write(6, "damaged", old)
	require.NoError(t, os.WriteFile(filepath.Join(root, "sessions", "damaged.session"), []byte("?"), 0o600))
	for _, name := range append(filesIn(t, vfs.OS(), root+"/kv", Suffix), "../sessions/damaged.session") {
		require.NoError(t, os.Chtimes(filepath.Join(root, "kv", name), now, old))
	}
	fresh := write(5, "", now)

	r, err := d.Expire(now.Add(-time.Hour))
	require.NoError(t, err)
	require.Equal(t, 2, r.Sessions, "old and damaged")
	require.Equal(t, 2, r.Segments, "the old prefix, and that of the damaged session")
	require.Positive(t, r.Bytes)
	names, err := d.SessionNames()
	require.NoError(t, err)
	require.Equal(t, []string{"locked", "young"}, names)
	for _, m := range []*Manifest{young, locked, fresh} {
		require.Equal(t, 64, found(t, s, m.Tokens))
	}
	require.NoError(t, lock.Close())
}
