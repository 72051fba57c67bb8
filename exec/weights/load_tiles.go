package weights

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/prefetch"
	"github.com/llmrun/llmrun/quant/tiled"
	"github.com/llmrun/llmrun/store"
)

// tileReadBytes is roughly how many bytes of rows are read before they are packed into
// tiles.
const tileReadBytes = 1 << 20

// isTiled reports whether the rows of a tensor are packed into tiles.
func (ld *Loader) isTiled(s *modelfile.TensorSlice) bool {
	return !ld.Exact && tiled.Fits(s.Type, s.Cols)
}

// readTiled reads a matrix and packs its rows into tiles.
func (ld *Loader) readTiled(ctx context.Context, s *modelfile.TensorSlice, dst []byte) error {
	rowBytes := int(s.Bytes()) / s.Rows
	return ld.eachRows(ctx, s, tileReadBytes, func(first, n int, raw []byte) {
		end := min(len(dst), (first+(n+tiled.TileRows-1)/tiled.TileRows*tiled.TileRows)*rowBytes)
		tiled.Pack(dst[first*rowBytes:end], s.Type, raw, n, s.Cols)
		ld.AddRead(n * rowBytes)
	})
}

// eachRows reads a matrix in blocks of whole tiles, each of roughly blockBytes. Several
// goroutines read and call do concurrently, so that the disk and the cores work at the same
// time. do must not retain raw.
func (ld *Loader) eachRows(ctx context.Context, s *modelfile.TensorSlice, blockBytes int, do func(first, n int, raw []byte)) error {
	rowBytes := int(s.Bytes()) / s.Rows
	rows := max(1, blockBytes/rowBytes/tiled.TileRows) * tiled.TileRows
	blocks := (s.Rows + rows - 1) / rows
	var next atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, loadReaders)
	for i := range errs {
		wg.Go(func() {
			raw := make([]byte, min(rows, s.Rows)*rowBytes)
			for c := int(next.Add(1)) - 1; c < blocks && errs[i] == nil; c = int(next.Add(1)) - 1 {
				if errs[i] = ctx.Err(); errs[i] != nil {
					return
				}
				first := c * rows
				n := min(rows, s.Rows-first)
				grant, _ := ld.Scheduler.Admit(prefetch.Awaited, n*rowBytes)
				errs[i] = ld.ReadRows(s, first, raw[:n*rowBytes])
				if ld.Scheduler.Done(grant); errs[i] != nil {
					next.Store(int64(blocks)) // stops the other goroutines
					return
				}
				do(first, n, raw[:n*rowBytes])
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// ReadRows reads rows of a tensor, from row first on, out of its byte ranges.
func (ld *Loader) ReadRows(s *modelfile.TensorSlice, first int, dst []byte) error {
	return ld.readBytes(s, int64(first)*(s.Bytes()/int64(s.Rows)), dst)
}

// readBytes reads bytes of a tensor, from byte skip of its rows on, out of its byte ranges.
func (ld *Loader) readBytes(s *modelfile.TensorSlice, skip int64, dst []byte) error {
	for _, g := range s.Ranges {
		if skip >= g.Size {
			skip -= g.Size
			continue
		}
		n := min(int64(len(dst)), g.Size-skip)
		if _, err := ld.Tensors.Source.ReadAt(g.Tensor, dst[:n], g.Offset+skip); err != nil {
			return err
		}
		if dst = dst[n:]; len(dst) == 0 {
			return nil
		}
		skip = 0
	}
	return nil
}

// tensorReader reads within one tensor.
type tensorReader struct {
	src store.Source
	t   store.Tensor
}

func (r tensorReader) ReadAt(p []byte, off int64) (int, error) { return r.src.ReadAt(r.t, p, off) }
