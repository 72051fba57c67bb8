package vfs

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestCachedFollowsThePageCache checks that written data is cached, that dropped data is
// not, and that ranges beyond the end and files in memory are not.
func TestCachedFollowsThePageCache(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	const size = 9 << 20
	require.NoError(t, WriteFile(OS(), name, make([]byte, size)))
	f, err := OS().Open(name)
	require.NoError(t, err)
	defer f.Close()
	if !Cached(f, 0, size) {
		t.Skip("this file system does not tell")
	}
	require.True(t, Cached(f, 12345, 1))
	require.False(t, Cached(f, 0, size+1), "beyond the end")
	require.False(t, Cached(f, 0, 0))

	fd := int(f.(*osFile).f.Fd())
	require.NoError(t, unix.Fsync(fd))
	require.NoError(t, unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED))
	var at [1]byte
	if n, err := unix.Preadv2(fd, [][]byte{at[:]}, 0, unix.RWF_NOWAIT); n == 1 && err == nil {
		t.Skip("this file system ignores the advice to drop pages")
	}
	require.False(t, Cached(f, 0, size))

	mem := NewMem()
	require.NoError(t, WriteFile(mem, "m", make([]byte, 100)))
	g, err := mem.Open("m")
	require.NoError(t, err)
	defer g.Close()
	require.False(t, Cached(g, 0, 100))
}
