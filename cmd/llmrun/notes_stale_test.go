package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/cli"
	"github.com/llmrun/llmrun/notes"
)

// TestSearchWithoutUpdate is about an index that cannot be updated, as on a full disk: here its lock is a directory.
func TestSearchWithoutUpdate(t *testing.T) {
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "x.index")
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	open := func(file string) *notes.Vault {
		v, err := notes.OpenWith(dir, nil, notes.Options{File: file})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, v.Close()) })
		return v
	}
	var screen bytes.Buffer
	s := &cli.Streams{Err: &screen}
	write("fox.md", "The fox is called Ruby.")
	require.NoError(t, refreshVault(t.Context(), s, open(file)))
	require.Empty(t, screen.String())

	write("cat.md", "The cat is called Ruby too.")
	require.NoError(t, os.Mkdir(file+".lock", 0o700))
	v := open(file)
	require.NoError(t, refreshVault(t.Context(), s, v))
	require.Contains(t, screen.String(), "the index is not up to date, and changes of the notes may be missing: ")
	hits, err := v.Search(t.Context(), "Ruby", notes.SearchOptions{Most: 3})
	require.NoError(t, err)
	require.Len(t, hits, 1)
	require.Equal(t, "fox.md", hits[0].File)

	// Without an index there is nothing to find, and whoever interrupts the update wants no answer.
	empty := filepath.Join(t.TempDir(), "y.index")
	require.NoError(t, os.Mkdir(empty+".lock", 0o700))
	require.ErrorContains(t, refreshVault(t.Context(), s, open(empty)), "y.index.lock")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, refreshVault(ended, s, v))
}
