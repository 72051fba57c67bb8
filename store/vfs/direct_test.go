package vfs

import (
	"bytes"
	"io"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/tiering"
)

// TestDirectReadsTheSame checks that direct reads return the same bytes and errors as
// others, for every alignment, and on file systems without direct reads.
func TestDirectReadsTheSame(t *testing.T) {
	content := make([]byte, 5*DirectAlign+777)
	rng := rand.NewChaCha8([32]byte{})
	_, _ = rng.Read(content)
	name := filepath.Join(t.TempDir(), "file")
	mem := NewMem()
	for _, fsys := range []FS{OS(), mem} {
		f, err := fsys.Create(name)
		if err != nil {
			require.NoError(t, mem.MkdirAll(filepath.Dir(name)))
			f, err = fsys.Create(name)
		}
		require.NoError(t, err)
		_, err = f.WriteAt(content, 0)
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
	frame, err := tiering.Alloc(tiering.New(0), tiering.Scratch, 8*DirectAlign)
	require.NoError(t, err)
	defer frame.Free()
	memory := frame.Bytes()

	for what, fsys := range map[string]FS{"os": OS(), "mem": mem, "throttled": Throttled(OS(), 0, time.Nanosecond), "faulty": NewFaulty(OS(), func(Op) error { return nil })} {
		t.Run(what, func(t *testing.T) {
			f, err := OpenDirect(fsys, name)
			require.NoError(t, err)
			for _, c := range []struct{ off, n, shift int }{
				{0, 4 * DirectAlign, 0},
				{DirectAlign, DirectAlign, 0},
				{0, len(content), 0},
				{DirectAlign, len(content) - DirectAlign, 0},
				{5 * DirectAlign, 777, 0},
				{1, DirectAlign, 0},
				{0, DirectAlign, 1},
				{3, 5, 7},
				{0, 0, 0},
			} {
				p := memory[c.shift : c.shift+c.n]
				clear(p)
				n, err := f.ReadAt(p, int64(c.off))
				if err != nil {
					require.ErrorIs(t, err, io.EOF)
				}
				require.Equal(t, c.n, n)
				require.True(t, bytes.Equal(content[c.off:c.off+c.n], p), "%+v", c)
			}
			n, err := f.ReadAt(memory[:2*DirectAlign], 4*DirectAlign)
			require.ErrorIs(t, err, io.EOF)
			require.Equal(t, DirectAlign+777, n)
			require.True(t, bytes.Equal(content[4*DirectAlign:], memory[:n]))
			require.NoError(t, f.Close())
			_, err = OpenDirect(fsys, name+"x")
			require.ErrorContains(t, err, "file")
		})
	}
}
