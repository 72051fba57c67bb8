package vfs

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSealedDamage changes bytes of a sealed file, cuts and extends it, and exchanges blocks: each
// change is refused, and reads of blocks that are intact succeed.
func TestSealedDamage(t *testing.T) {
	m := NewMem()
	s := Sealed(m, testKey(1))
	content := text(2*sealBlock + 100)
	require.NoError(t, WriteFile(s, "f", content))
	path, good := only(t, m)
	refused := func(data []byte, about string, args ...any) {
		t.Helper()
		require.NoError(t, WriteFile(m, path, data))
		got, err := ReadFile(s, "f", 1<<20)
		require.ErrorIs(t, err, ErrSeal, append([]any{about}, args...)...)
		require.NotEqual(t, content, got)
		require.ErrorContains(t, err, path)
	}
	table := sealStart + 3*sealBlock
	for i := range good {
		if i > sealHeader && i < table && i%61 != 0 {
			continue // a sample of zeros and ciphertexts
		}
		bad := bytes.Clone(good)
		bad[i] ^= 1 << (i % 8)
		refused(bad, "byte %d", i)
	}
	for _, n := range []int{0, 1, sealHeader - 1, sealHeader, sealStart, sealStart + sealBlock, table, len(good) - sealEntry, len(good) - 1} {
		refused(good[:n], "cut to %d", n)
	}
	refused(append(bytes.Clone(good), 0), "longer")
	block := func(b []byte, i int) []byte { return b[sealStart+i*sealBlock:][:sealBlock] }
	entry := func(b []byte, i int) []byte { return b[table+i*sealEntry:][:sealEntry] }
	swapped := bytes.Clone(good)
	for _, part := range []func([]byte, int) []byte{block, entry} {
		copy(part(swapped, 0), part(good, 1))
		copy(part(swapped, 1), part(good, 0))
	}
	refused(swapped, "exchanged blocks")
	empty := bytes.Clone(good)
	clear(block(empty, 1))
	clear(entry(empty, 1))
	refused(empty, "a block of zeros")

	f, err := s.Open("f")
	require.NoError(t, err)
	p := make([]byte, sealBlock)
	_, err = f.ReadAt(p, 0)
	require.NoError(t, err)
	require.Equal(t, content[:sealBlock], p)
	_, err = f.ReadAt(p, sealBlock)
	require.ErrorIs(t, err, ErrSeal)
	require.NoError(t, f.Close())
}

// TestSealedNotClosed opens a file whose writer was killed before Sync or Close, and one that
// has blocks that were never written.
func TestSealedNotClosed(t *testing.T) {
	m := NewMem()
	s := Sealed(m, testKey(1))
	f, err := s.Create("f")
	require.NoError(t, err)
	require.NoError(t, Allocate(f, 3*sealBlock))
	_, err = f.WriteAt(text(sealBlock), 0)
	require.NoError(t, err)
	_, err = s.Open("f")
	require.ErrorIs(t, err, ErrSeal)
	require.NoError(t, f.Sync())
	r, err := s.Open("f")
	require.NoError(t, err)
	p := make([]byte, sealBlock)
	_, err = r.ReadAt(p, 0)
	require.NoError(t, err)
	_, err = r.ReadAt(p, sealBlock)
	require.ErrorIs(t, err, ErrSeal)
	_, err = r.WriteAt(p, 0)
	require.ErrorIs(t, err, ErrReadOnly)
	require.ErrorIs(t, r.Truncate(0), ErrReadOnly)
	require.NoError(t, r.Close())
	require.NoError(t, f.Close())
}
