package segment

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/store/vfs"
)

// TestDiskOfAFewPages fills a file system of 100 KiB. A segment that does not fit
// must be refused before it is written, and existing ones must stay.
func TestDiskOfAFewPages(t *testing.T) {
	testutil.OnSmallDisk(t, "100k", func(base string) { fillDisk(t, base) })
}

func fillDisk(t *testing.T, base string) {
	s := openStore(t, vfs.Sub(vfs.OS(), base), 1<<30)
	s.dir.spare = -1 << 30 // disable the check: the disk itself refuses
	a := randomTokens(1, 16*12)
	m, err := writeSegment(s, a, 4, true)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.ErrorContains(t, err, "allocate")
	require.NotEmpty(t, m.Segments)
	require.Empty(t, filesIn(t, s.dir.fsys, "cache/kv", vfs.TempMark))
	require.Equal(t, m.SavedTokens(), found(t, s, a))
	_, _, err = s.dir.Clean()
	require.NoError(t, err)
	require.Equal(t, 16, mustWrite(t, s, a[:16], 4).SavedTokens(), "there is room again")
	require.Equal(t, 16, found(t, s, a))
}
