package hubmodel_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/internal/testutil/hubmodel"
	"github.com/llmrun/llmrun/store/pack"
	"github.com/llmrun/llmrun/store/vfs"
)

// TestPackIsTheImportOfItsSource imports the files that the pack was made from again and
// compares every byte: the pack holds their weights unchanged, and this program's import, on
// any processor, gives the same layout.
func TestPackIsTheImportOfItsSource(t *testing.T) {
	committed := filepath.Join(testutil.Root(t), filepath.FromSlash(hubmodel.Pack))
	p, err := pack.Open(vfs.OS(), committed)
	require.NoError(t, err)
	made := p.About().CreatedBy
	require.NoError(t, p.Close())

	f, err := modelfile.Open(vfs.OS(), hubmodel.Dir(testutil.Root(t)))
	require.NoError(t, err)
	defer f.Close()
	again := filepath.Join(t.TempDir(), "again.pack")
	require.NoError(t, weights.Import(t.Context(), f, vfs.OS(), again, weights.ImportOptions{Made: made}))
	require.True(t, equalFiles(t, committed, again), "the import of the bundled model's files differs from %s", hubmodel.Pack)
}

// TestDirectoryIsTheSource compares the directory with the files of the training program.
func TestDirectoryIsTheSource(t *testing.T) {
	source := filepath.Dir(testutil.Shared(t, "demo", "model.safetensors"))
	dir := hubmodel.Dir(testutil.Root(t))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 6)
	for _, e := range entries {
		require.True(t, equalFiles(t, filepath.Join(source, e.Name()), filepath.Join(dir, e.Name())), e.Name())
	}
}

func equalFiles(t *testing.T, a, b string) bool {
	x, err := os.ReadFile(a)
	require.NoError(t, err)
	y, err := os.ReadFile(b)
	require.NoError(t, err)
	return string(x) == string(y)
}
