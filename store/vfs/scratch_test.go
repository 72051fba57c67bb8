package vfs

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/tiering"
)

// TestScratch checks that a scratch file returns what was written, aligned or not, and
// leaves no file.
func TestScratch(t *testing.T) {
	frame, err := tiering.Alloc(tiering.New(0), tiering.Scratch, 4*DirectAlign)
	require.NoError(t, err)
	defer frame.Free()
	memory := frame.Bytes()
	for what, fsys := range map[string]FS{"os": OS(), "mem": NewMem(), "throttled": Throttled(OS(), 0, time.Nanosecond), "faulty": NewFaulty(OS(), func(Op) error { return nil })} {
		t.Run(what, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "deep")
			require.NoError(t, fsys.MkdirAll(dir))
			f, err := Scratch(fsys, dir)
			require.NoError(t, err)
			if what == "os" && runtime.GOOS == "linux" {
				names, err := os.ReadDir(dir)
				require.NoError(t, err)
				require.Empty(t, names, "the file has no name")
			}
			require.NoError(t, Allocate(f, 4*DirectAlign))
			for _, c := range []struct{ off, n int }{{0, 2 * DirectAlign}, {2 * DirectAlign, DirectAlign}, {5, 100}, {4000, 200}} {
				for i := range c.n {
					memory[i] = byte(i*7 + c.off)
				}
				_, err := f.WriteAt(memory[:c.n], int64(c.off))
				require.NoError(t, err)
				want := append([]byte(nil), memory[:c.n]...)
				clear(memory)
				_, err = f.ReadAt(memory[:c.n], int64(c.off))
				require.NoError(t, err)
				require.Equal(t, want, memory[:c.n])
			}
			require.NoError(t, f.Close())
			infos, err := fsys.ReadDir(dir)
			require.NoError(t, err)
			require.Empty(t, infos)
		})
	}
}

// TestSweepScratch leaves scratch files of killed processes where the system does not remove open files.
func TestSweepScratch(t *testing.T) {
	mem := NewMem()
	require.NoError(t, mem.MkdirAll("d"))
	const left, used, other = "d/scratch-1-00.tmp", "d/scratch-2-00.tmp", "d/page.tmp"
	for _, sealed := range []bool{false, true} {
		for _, name := range []string{left, used, other} {
			f, err := mem.Create(name)
			require.NoError(t, err)
			require.NoError(t, f.Close())
		}
		fsys := NewFaulty(mem, func(op Op) error {
			if op.Kind == OpRemove && op.Path == used {
				return os.ErrPermission
			}
			return nil
		})
		if sealed {
			fsys = Sealed(fsys, [SealKeyBytes]byte{1})
		}
		require.NoError(t, SweepScratch(fsys, "d"))
		require.NoError(t, SweepScratch(fsys, "missing"))
		_, err := mem.Stat(left)
		require.ErrorIs(t, err, os.ErrNotExist)
		for _, name := range []string{used, other} {
			_, err := mem.Stat(name)
			require.NoError(t, err, name)
		}
	}
}
