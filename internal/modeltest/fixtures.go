// Package modeltest has models for the tests of several packages: small ones made in memory, as GGUF files and
// as checkpoints of safetensors, whole or with packed weights, and the fixtures of the repository with an
// exporter to GGUF.
package modeltest

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// Fixture returns a fixture of the repository.
func Fixture(t testing.TB, name string) string {
	return testutil.Shared(t, "fixtures", name)
}

// FixtureDirs returns the directories of all fixture checkpoints.
func FixtureDirs(t *testing.T) (dirs []string) {
	for _, config := range testutil.Glob(t, "fixtures", "*/config.json") {
		dirs = append(dirs, filepath.Dir(config))
	}
	return dirs
}

// ImportModel imports a model as a pack into a file system in memory.
func ImportModel(t testing.TB, fsys vfs.FS, path string) vfs.FS {
	t.Helper()
	f, err := modelfile.Open(fsys, path)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	to := vfs.NewMem()
	var last, total int64
	require.NoError(t, weights.Import(context.Background(), f, to, "m.pack", weights.ImportOptions{
		Made: "test", Progress: func(done, all int64) { last, total = done, all },
	}))
	require.Equal(t, total, last, "final progress")
	return to
}

// RequireSameWeights loads a model from its files and from its pack and compares all weights in memory.
func RequireSameWeights(t testing.TB, fsys vfs.FS, path string, exact bool) {
	t.Helper()
	packed := ImportModel(t, fsys, path)
	load := func(fsys vfs.FS, path string) (*weights.Weights, []*tiering.Frame) {
		f, err := modelfile.Open(fsys, path)
		require.NoError(t, err)
		defer f.Close()
		spec, err := f.Spec()
		require.NoError(t, err)
		w, ld, err := weights.LoadWeights(context.Background(), f.TensorSet(), spec, weights.LoadOptions{Budget: tiering.New(0), Exact: exact})
		require.NoError(t, err)
		return w, ld.Frames
	}
	want, frames := load(fsys, path)
	got, more := load(packed, "m.pack")
	require.Equal(t, want, got)
	for _, f := range append(frames, more...) {
		f.Free()
	}
}
