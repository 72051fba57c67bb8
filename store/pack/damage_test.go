package pack

import (
	"context"
	"fmt"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/vfs"
)

// TestBlocksAreNamed damages, clears and swaps blocks in the middle of a large pack.
func TestBlocksAreNamed(t *testing.T) {
	whole, err := vfs.ReadFile(large().write(t), "m.pack", 1<<30)
	require.NoError(t, err)
	block := func(data []byte, i int) []byte { return data[headerBytes+i*BlockBytes:][:BlockBytes] }
	for name, damage := range map[string]func(data []byte){
		"a bit":       func(data []byte) { block(data, 1)[77] ^= 8 },
		"zeros":       func(data []byte) { clear(block(data, 1)) },
		"two swapped": func(data []byte) { copy(block(data, 1), block(whole, 0)) },
	} {
		t.Run(name, func(t *testing.T) {
			data := append([]byte(nil), whole...)
			damage(data)
			fsys := vfs.FromIOFS(fstest.MapFS{"m.pack": &fstest.MapFile{Data: data}})
			f := open(t, fsys)
			err := f.Verify(context.Background(), nil)
			require.ErrorIs(t, err, store.ErrFormat)
			require.ErrorContains(t, err, fmt.Sprintf("at offset %d: section", headerBytes+BlockBytes))
			tensor, _ := f.Tensor("blk.0.a")
			_, err = f.ReadAt(tensor, make([]byte, 10), BlockBytes+100)
			require.ErrorContains(t, err, "checksum")
			_, err = f.ReadAt(tensor, make([]byte, 10), 0)
			require.NoError(t, err, "other blocks stay readable")
		})
	}
}

func TestVerifyIsCancelled(t *testing.T) {
	f := open(t, large().write(t))
	ctx, cancel := context.WithCancel(context.Background())
	var last int64
	err := f.Verify(ctx, func(done, total int64) {
		require.Greater(t, done, last)
		require.Equal(t, f.Size(), total)
		last = done
		cancel()
	})
	require.ErrorIs(t, err, context.Canceled)
}

// TestShrinkingFile truncates an open pack.
func TestShrinkingFile(t *testing.T) {
	fsys := vfs.NewMem()
	s := large()
	require.NoError(t, Write(fsys, "m.pack", s.Contents, s.body))
	f := open(t, fsys)
	w, err := fsys.Create("m.pack") // truncates the open file
	require.NoError(t, err)
	require.NoError(t, w.Close())
	tensor, _ := f.Tensor("blk.1.a")
	_, err = f.ReadAt(tensor, make([]byte, 10), 0)
	require.ErrorIs(t, err, store.ErrTruncated)
	require.ErrorContains(t, err, "was truncated while in use")
}

// TestBypassCacheNeedsTheSameFile calls BypassCache after the file was removed, replaced or
// truncated.
func TestBypassCacheNeedsTheSameFile(t *testing.T) {
	for name, change := range map[string]func(fsys *vfs.Mem) error{
		"removed":  func(fsys *vfs.Mem) error { return fsys.Remove("m.pack") },
		"replaced": func(fsys *vfs.Mem) error { return Write(fsys, "m.pack", small().Contents, small().body) },
		"shorter":  func(fsys *vfs.Mem) error { return vfs.WriteFile(fsys, "m.pack", make([]byte, footerBytes)) },
	} {
		t.Run(name, func(t *testing.T) {
			fsys, s := vfs.NewMem(), large()
			require.NoError(t, Write(fsys, "m.pack", s.Contents, s.body))
			f := open(t, fsys)
			require.NoError(t, change(fsys))
			err := f.BypassCache()
			require.ErrorIs(t, err, ErrReplaced)
			require.ErrorContains(t, err, "m.pack: ")
			require.NoError(t, Write(fsys, "m.pack", s.Contents, s.body))
			require.NoError(t, f.BypassCache(), "a file with the same bytes is the same pack")
			s.check(t, f)
		})
	}
}
