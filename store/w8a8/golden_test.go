package w8a8

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/store/vfs"
)

var update = flag.Bool("update", false, "write the golden file anew")

// TestGolden opens a calibration that an earlier program of this version wrote, and writes it
// again: equal contents give equal files.
func TestGolden(t *testing.T) {
	path := filepath.Join("testdata", "version1.w8a8")
	mem, want := vfs.NewMem(), sample()
	write(t, mem, want) // completes want
	written, err := vfs.ReadFile(mem, "m.w8a8", 1<<20)
	require.NoError(t, err)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, written, 0o644))
	}
	f, err := Open(vfs.OS(), path)
	require.NoError(t, err)
	defer f.Close()
	require.Equal(t, *want, f.Index)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, data, written)
}
