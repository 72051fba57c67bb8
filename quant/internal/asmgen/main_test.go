package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTreeIsGenerated compares every generated file with the one in the tree.
func TestTreeIsGenerated(t *testing.T) {
	require.NoError(t, run("../..", true), "run go generate ./quant")
}

// TestGeneratedFilesAreListed finds files that carry the header but that no
// template produces any more.
func TestGeneratedFilesAreListed(t *testing.T) {
	listed := map[string]bool{}
	for _, f := range outputs {
		require.False(t, listed[f.path], "%s is generated twice", f.path)
		listed[f.path] = true
	}
	for _, pattern := range []string{"*.*", "*/*.*"} {
		paths, err := filepath.Glob(filepath.Join("../..", pattern))
		require.NoError(t, err)
		for _, path := range paths {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			if strings.HasPrefix(string(text), header[:strings.Index(header, "\n")]) {
				name, err := filepath.Rel("../..", path)
				require.NoError(t, err)
				require.True(t, listed[filepath.ToSlash(name)], "%s has no template", name)
			}
		}
	}
}

// TestCheckReportsDifferences runs the check on a directory with one file that
// somebody edited.
func TestCheckReportsDifferences(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "tiled"), 0o755))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "limits"), 0o755))
	require.Error(t, run(dir, true), "the files are missing")
	require.NoError(t, run(dir, false))
	require.NoError(t, run(dir, true))
	edited := filepath.Join(dir, outputs[0].path)
	require.NoError(t, os.WriteFile(edited, []byte("edited"), 0o600))
	require.ErrorContains(t, run(dir, true), outputs[0].path)
}
