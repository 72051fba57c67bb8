package kv

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// TestScratchLeavesRoom fills a file system of 12 MiB: what others need to write is not
// taken, and what was refused is given back.
func TestScratchLeavesRoom(t *testing.T) {
	testutil.OnSmallDisk(t, "12m", func(dir string) { fillScratch(t, dir) })
}

func fillScratch(t *testing.T, dir string) {
	s := NewScratch(vfs.OS(), dir, tiering.New(0))
	defer s.Close()
	page := make([]byte, 1<<20)
	var chunks int
	var err error
	for ; err == nil && chunks < 20; chunks++ {
		_, err = s.Spill(nil, 1, 1, func(int, int) []byte { return page })
	}
	require.ErrorContains(t, err, "of the disk free")
	require.Equal(t, 9, chunks, "eight of 1 MiB, and one that was refused")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "session"), page, 0o600))
}
