package prefetch

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/store/vfs"
)

// batchFiles returns the same content in a file of the system, opened for direct reads, and in
// memory, which the system's read queue cannot read.
func batchFiles(t *testing.T, data []byte) map[string]vfs.File {
	files := map[string]vfs.File{}
	for name, fsys := range map[string]vfs.FS{"system": vfs.OS(), "memory": vfs.NewMem()} {
		dir := t.TempDir()
		require.NoError(t, fsys.MkdirAll(dir))
		path := vfs.Join(dir, "data")
		f, err := fsys.Create(path)
		require.NoError(t, err)
		_, err = f.WriteAt(data, 0)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		f, err = vfs.OpenDirect(fsys, path)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, f.Close()) })
		files[name] = f
	}
	return files
}

// TestBatchReadsAllRanges reads random ranges, more than the system's queue holds, in several
// batches.
func TestBatchReadsAllRanges(t *testing.T) {
	data := content(64 * vfs.DirectAlign)
	for name, file := range batchFiles(t, data) {
		t.Run(name, func(t *testing.T) {
			noneLeft := testutil.NoGoroutinesLeft(t)
			b := Batch{Readers: 3}
			rng := rand.New(rand.NewPCG(1, 1))
			for range 4 {
				type read struct {
					off int64
					dst []byte
				}
				var reads []read
				total := 0
				for range rng.IntN(150) {
					first := rng.IntN(60)
					n := (1 + rng.IntN(3)) * vfs.DirectAlign
					dst := vfs.AlignDirect(make([]byte, n+2*vfs.DirectAlign))[: n+vfs.DirectAlign : n+vfs.DirectAlign]
					reads = append(reads, read{int64(first * vfs.DirectAlign), dst})
					b.Add(file, int64(first*vfs.DirectAlign), dst[:n])
					b.Extend(dst)
					total += len(dst)
				}
				require.EqualValues(t, total, b.Bytes())
				require.NoError(t, b.Wait(t.Context()))
				require.Zero(t, b.Bytes())
				for _, r := range reads {
					require.Equal(t, data[r.off:r.off+int64(len(r.dst))], r.dst)
				}
			}
			b.Close()
			b.Close() // a second Close is allowed
			noneLeft()
		})
	}
}

// TestBatchReturnsErrors reads past the end of a file, and with a context that has ended. The
// batch stays usable.
func TestBatchReturnsErrors(t *testing.T) {
	data := content(8 * vfs.DirectAlign)
	for name, file := range batchFiles(t, data) {
		t.Run(name, func(t *testing.T) {
			var b Batch
			defer b.Close()
			dst := vfs.AlignDirect(make([]byte, 3*vfs.DirectAlign))[:2*vfs.DirectAlign]
			b.Add(file, 7*vfs.DirectAlign, dst)
			require.Error(t, b.Wait(t.Context()))
			cause := errors.New("enough")
			ended, cancel := context.WithCancelCause(t.Context())
			cancel(cause)
			b.Add(file, 0, dst)
			b.Submit(ended)
			require.ErrorIs(t, b.Wait(ended), context.Canceled)
			b.Add(file, vfs.DirectAlign, dst)
			require.NoError(t, b.Wait(t.Context()))
			require.Equal(t, data[vfs.DirectAlign:3*vfs.DirectAlign], dst)
		})
	}
}
