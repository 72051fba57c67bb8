package kv

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/prefetch"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// TestScratchLeavesRoom fills a file system of 12 MiB. It checks that spilling leaves
// the reserve free and that a refused segment returns its space.
func TestScratchLeavesRoom(t *testing.T) {
	testutil.OnSmallDisk(t, "12m", func(dir string) { fillScratch(t, dir) })
}

func fillScratch(t *testing.T, dir string) {
	s := NewScratch(vfs.OS(), dir, tiering.New(0))
	defer s.Close()
	page := make([]byte, 1<<20)
	var segments int
	var err error
	for ; err == nil && segments < 20; segments++ {
		_, err = s.Spill(nil, 1, 1, func(int, int) []byte { return page }, (*prefetch.Scheduler)(nil).WriteNow)
	}
	require.ErrorContains(t, err, "of the disk free")
	require.Equal(t, 9, segments, "eight segments of 1 MiB and a refused one")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "session"), page, 0o600))
}
