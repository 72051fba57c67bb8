package vfs

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
)

// countingFile records the counters of all entries that are written.
type countingFile struct {
	File
	seen map[uint64]bool
	t    *testing.T
}

func (c *countingFile) WriteAt(p []byte, off int64) (int, error) {
	for rest := p; len(rest) > 0; rest = rest[sealEntry:] {
		counter := binary.LittleEndian.Uint64(rest)
		require.False(c.t, c.seen[counter], "counter %d is used twice", counter)
		c.seen[counter] = true
	}
	return c.File.WriteAt(p, off)
}

// TestSealedCounters writes the same blocks again and again: no nonce repeats. Two files have
// different keys.
func TestSealedCounters(t *testing.T) {
	m := NewMem()
	s := Sealed(m, testKey(1)).(*sealedFS)
	inner, err := m.Create("x")
	require.NoError(t, err)
	tags, err := m.Create("tags")
	require.NoError(t, err)
	seen := map[uint64]bool{}
	f := scratchSealed(inner, &countingFile{tags, seen, t}, s)
	for i := range 50 {
		_, err := f.WriteAt(text(3*sealBlock+i), int64(i%7*100))
		require.NoError(t, err)
		require.NoError(t, f.Sync())
	}
	require.NoError(t, f.Close())
	require.Greater(t, len(seen), 100)

	var sealed [][]byte
	for range 2 {
		require.NoError(t, WriteFile(s, "y", text(100)))
		b, err := ReadFile(m, s.path("y"), 1<<20)
		require.NoError(t, err)
		sealed = append(sealed, b)
	}
	require.NotEqual(t, sealed[0][sealStart:], sealed[1][sealStart:])
}

// TestSealedScratch writes a temporary file with aligned and other writes.
func TestSealedScratch(t *testing.T) {
	dir := t.TempDir()
	for i, fsys := range []FS{OS(), NewMem(), OS(), OS()} {
		s := Sealed(fsys, testKey(1))
		tables := s.(*sealedFS).tables
		tables.used = []int64{0, 0, sealTablesMost - tableChunk*sealEntry, sealTablesMost}[i] // no room for all or any of the table
		before := tables.used
		f, err := Scratch(s, dir)
		if err != nil { // a Mem has no such directory
			require.NoError(t, s.MkdirAll(dir))
			f, err = Scratch(s, dir)
		}
		require.NoError(t, err)
		require.False(t, Queueable(f))
		const blocks = 2*tableChunk + 100
		require.NoError(t, Allocate(f, blocks*sealBlock))
		want := text(blocks * sealBlock)
		for _, at := range testutil.Random(t).Perm(blocks) {
			_, err := f.WriteAt(want[at*sealBlock:][:sealBlock], int64(at*sealBlock))
			require.NoError(t, err)
		}
		got := AlignDirect(make([]byte, len(want)+DirectAlign))[:len(want)]
		_, err = f.ReadAt(got, 0)
		require.NoError(t, err)
		require.Equal(t, want, got)
		inner := f.(*sealedFile).file
		_, err = inner.ReadAt(got, 0)
		require.NoError(t, err)
		require.NotContains(t, string(got), "secret")
		checkStored(t, f.(Encrypted), want)
		require.NoError(t, f.Close())
		require.Equal(t, before, tables.used)
	}
}

// checkStored reads a file as package prefetch does: the ciphertext, which Check decrypts.
func checkStored(t *testing.T, f Encrypted, want []byte) {
	stored, at := f.Stored(sealBlock, 70*sealBlock)
	if stored == nil { // the file system has no queue
		require.False(t, Queueable(f.(*sealedFile).file))
		stored, at = f.(*sealedFile).file, f.(*sealedFile).place(1)
	}
	require.Zero(t, at%DirectAlign)
	p := make([]byte, 70*sealBlock)
	_, err := stored.ReadAt(p, at)
	require.NoError(t, err)
	bad := bytes.Clone(p)
	bad[69*sealBlock+5] ^= 1
	require.ErrorIs(t, f.Check(bad, sealBlock), ErrSeal)
	require.ErrorIs(t, f.Check(bytes.Clone(p), 2*sealBlock), ErrSeal, "another place")
	require.NoError(t, f.Check(p, sealBlock))
	require.True(t, bytes.Equal(want[sealBlock:][:len(p)], p))
	require.Equal(t, sealBlock, f.Unit())
	for _, r := range [][2]int64{{100, sealBlock}, {int64(len(want)) - sealBlock, 2 * sealBlock}} {
		file, _ := f.Stored(r[0], r[1])
		require.Nil(t, file, "not whole blocks of the file: %v", r)
	}
}

// TestSealedPaths reads a file with and without the fast path of the processor, and damages it.
func TestSealedPaths(t *testing.T) {
	m := NewMem()
	content := text(80 * sealBlock)
	require.NoError(t, WriteFile(Sealed(m, testKey(1)), "f", content))
	name, data := only(t, m)
	for _, fast := range []bool{true, false} {
		open := func() *sealedFile {
			f, err := Sealed(m, testKey(1)).Open("f")
			require.NoError(t, err)
			s := f.(*sealedFile)
			if !fast {
				s.fast = nil
			}
			return s
		}
		f := open()
		got := make([]byte, len(content))
		_, err := f.ReadAt(got, 0)
		require.NoError(t, err)
		require.Equal(t, content, got)
		checkStored(t, f, content)
		require.NoError(t, f.Close())

		damaged := append([]byte(nil), data...)
		damaged[sealStart+3*sealBlock+17] ^= 1
		require.NoError(t, WriteFile(m, name, damaged))
		f = open()
		block := damaged[sealStart+3*sealBlock:][:sealBlock]
		require.ErrorIs(t, f.Check(append([]byte(nil), block...), 3*sealBlock), ErrSeal)
		_, err = f.ReadAt(got, 0)
		require.ErrorIs(t, err, ErrSeal)
		require.NoError(t, f.Close())
		require.NoError(t, WriteFile(m, name, data))
	}
}
