package vfs

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMapReturnsTheBytes(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	content := bytes.Repeat([]byte("0123456789abcdef"), 20_000)
	require.NoError(t, WriteFile(OS(), name, content))
	f, err := OS().Open(name)
	require.NoError(t, err)
	defer f.Close()
	for _, c := range []struct{ off, n int64 }{{0, 320_000}, {4096, 100}, {70_000, 250_000}, {319_999, 1}} {
		m, err := Map(f, c.off, c.n)
		require.NoError(t, err)
		require.True(t, bytes.Equal(content[c.off:c.off+c.n], m.Bytes()), "%+v", c)
		require.NoError(t, m.Close())
	}
	for _, c := range []struct{ off, n int64 }{{0, 320_001}, {-1, 5}, {320_000, 1}, {0, 0}} {
		_, err := Map(f, c.off, c.n)
		require.ErrorContains(t, err, "file", "%+v", c)
	}
	mem := NewMem()
	require.NoError(t, WriteFile(mem, "m", content))
	g, err := mem.Open("m")
	require.NoError(t, err)
	_, err = Map(g, 0, 10)
	require.ErrorIs(t, err, ErrNotMapped)
}
