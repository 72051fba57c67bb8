package vfs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestNextEvictedFollowsThePageCache maps a file whose pages were dropped and accesses one
// page after the other.
func TestNextEvictedFollowsThePageCache(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	const size = 9 << 20
	require.NoError(t, WriteFile(OS(), name, make([]byte, size)))
	f, err := OS().Open(name)
	require.NoError(t, err)
	defer f.Close()
	const off = 70_000
	m, err := Map(f, off, size-off)
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()
	_, found := m.NextEvicted(0, len(m.Bytes()))
	require.False(t, found, "written pages are in memory")

	fd := int(f.(*osFile).f.Fd())
	require.NoError(t, unix.Fsync(fd))
	require.NoError(t, unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED))
	at, found := m.NextEvicted(5000, len(m.Bytes()))
	if !found {
		t.Skip("this file system ignores the advice to drop pages")
	}
	require.Equal(t, 5000, at)
	require.NoError(t, unix.Madvise(m.region, unix.MADV_RANDOM)) // no read-ahead
	sum := 0
	for at := 0; at < 5<<20; at += os.Getpagesize() {
		sum += int(m.Bytes()[at])
	}
	require.Zero(t, sum)
	at, found = m.NextEvicted(0, len(m.Bytes()))
	require.True(t, found)
	require.InDelta(t, 5<<20, at, 1<<20, "pages before are in memory")
	_, found = m.NextEvicted(0, 1<<20)
	require.False(t, found)
}
