package pack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/llmrun/llmrun/quant/tiled"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/vfs"
)

// extentReader reads an extent. It implements prefetch.Stored, so that the prefetch queue
// can read blocks asynchronously.
type extentReader struct {
	f *File
	x *extent
}

// ReadAt implements io.ReaderAt within the extent.
func (r extentReader) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off > r.x.size || int64(len(p)) > r.x.size-off {
		return 0, fmt.Errorf("pack: %s: read of %d bytes at %d is outside %s of %d bytes", r.f.path, len(p), off, r.x.field(), r.x.size)
	}
	return r.f.readExtent(r.x, p, off)
}

// Stored returns the file and offset of whole blocks. It returns nil for other ranges, and
// if the file is not open for direct reads.
func (r extentReader) Stored(off, n int64) (file vfs.File, at int64) {
	direct := r.f.direct.Load()
	if direct == nil || off%BlockBytes != 0 || n%BlockBytes != 0 && off+n != r.x.size {
		return nil, 0
	}
	return direct.File, r.f.base + r.x.off + off
}

// Unit returns the block size.
func (r extentReader) Unit() int { return BlockBytes }

// Check verifies the checksums of blocks.
func (r extentReader) Check(p []byte, off int64) error {
	return r.f.checkBlocks(r.x, off/BlockBytes, p)
}

// readExtent fills p, which lies inside the extent, from offset off in the extent. It reads
// and verifies whole blocks. A block that p holds only in part is read into a temporary
// buffer.
func (f *File) readExtent(x *extent, p []byte, off int64) (n int, err error) {
	var edge []byte // buffer for a block that p holds in part
	for n < len(p) {
		at := off + int64(n)
		first, skip := at/BlockBytes, int(at%BlockBytes)
		rest := p[n:]
		if skip == 0 {
			whole := len(rest) / BlockBytes * BlockBytes
			if at+int64(len(rest)) == x.size {
				whole = len(rest) // the last block is short
			}
			if whole > 0 {
				if err := f.readBlocks(x, first, rest[:whole]); err != nil {
					return n, err
				}
				n += whole
				continue
			}
		}
		if edge == nil {
			edge = make([]byte, min(BlockBytes, x.size))
		}
		block := edge[:min(BlockBytes, x.size-first*BlockBytes)]
		if err := f.readBlocks(x, first, block); err != nil {
			return n, err
		}
		n += copy(rest, block[skip:])
	}
	return n, nil
}

// readBlocks fills p with blocks, beginning with block first, and verifies them.
func (f *File) readBlocks(x *extent, first int64, p []byte) error {
	off := f.base + x.off + first*BlockBytes
	file := f.file
	if direct := f.direct.Load(); direct != nil {
		file = direct.File
	}
	if n, err := file.ReadAt(p, off); err != nil {
		if !errors.Is(err, io.EOF) {
			return err
		}
		if f.rebuild.Load() == nil {
			return f.truncatedError(off-f.base+int64(n), x.field())
		}
	}
	return f.checkBlocks(x, first, p)
}

// checkBlocks verifies blocks, beginning with block first, and rebuilds damaged ones in p.
func (f *File) checkBlocks(x *extent, first int64, p []byte) error {
	for i := first; len(p) > 0; i++ {
		block := p[:min(BlockBytes, len(p))]
		if blockChecksum(block) != x.checksums[i] {
			if err := f.rebuildBlock(x, i, block); err != nil {
				return err
			}
		}
		p = p[len(block):]
	}
	return nil
}

// untileBytes is about how much of a tiled tensor is read at once to restore its row order.
// It is larger than a block, so that few blocks are read twice.
const untileBytes = 4 << 20

// readTiles fills p with rows of a tiled tensor in the order of the source. off is the
// offset in these rows.
func (f *File) readTiles(x *extent, t *Tensor, p []byte, off int64) (n int, err error) {
	of := store.Tensor{Shape: t.Shape}
	cols := of.Cols()
	rowBytes := int64(cols / t.Type.BlockElems() * t.Type.BlockBytes())
	tileSize := tileBytes(t, tiled.Whole)
	step := max(1, untileBytes/tileSize)
	row := make([]byte, rowBytes)
	for n < len(p) {
		at := off + int64(n)
		tile := at / tileSize
		last := (off + int64(len(p)) - 1) / tileSize // last tile to read
		tiles, err := f.wholeTiles(x, t, tile, min(step, last-tile+1))
		if err != nil {
			return n, err
		}
		for n < len(p) && off+int64(n) < tile*tileSize+int64(len(tiles)) {
			at := off + int64(n)
			tiled.UnpackRow(row, t.Type, tiles, cols, int(at/rowBytes-tile*tiled.TileRows))
			n += copy(p[n:], row[at%rowBytes:])
		}
	}
	return n, nil
}

// wholeTiles reads n tiles of a tensor, from one on, and joins its planes if it is stored in two.
func (f *File) wholeTiles(x *extent, t *Tensor, tile, n int64) ([]byte, error) {
	tiles := make([]byte, n*tileBytes(t, tiled.Whole))
	if t.Layout == Tiles {
		_, err := f.readExtent(x, tiles, t.Off+tile*tileBytes(t, tiled.Whole))
		return tiles, err
	}
	return tiles, f.joinTiles(t, tile, tiles, make([]byte, len(tiles)))
}

// verifyBytes is the size of one read, a multiple of BlockBytes.
const verifyBytes = 64 * BlockBytes

// Verify reads the whole pack and verifies the checksum of every block and that padding is
// zero. It returns the first error, with its offset. It calls progress, which may be nil,
// with the number of bytes read.
func (f *File) Verify(ctx context.Context, progress func(done, total int64)) error {
	buffer := make([]byte, min(verifyBytes, f.footer.index))
	end := int64(headerBytes)
	for i := range f.index.extents {
		x := &f.index.extents[i]
		if err := f.verifyZeros(end, x.off); err != nil {
			return err
		}
		for off := int64(0); off < x.size; off += verifyBytes {
			if err := ctx.Err(); err != nil {
				return err
			}
			n := min(verifyBytes, x.size-off)
			if err := f.readBlocks(x, off/BlockBytes, buffer[:n]); err != nil {
				return err
			}
			if progress != nil {
				progress(x.off+off+n, f.footer.file)
			}
		}
		end = x.off + x.size
	}
	return f.verifyZeros(end, f.footer.index)
}

// verifyZeros checks that the padding between two extents, less than a page, is zero.
func (f *File) verifyZeros(from, to int64) error {
	space := make([]byte, to-from)
	if len(space) == 0 {
		return nil
	}
	if _, err := f.file.ReadAt(space, f.base+from); err != nil {
		return err
	}
	if i := bytes.IndexFunc(space, func(r rune) bool { return r != 0 }); i >= 0 {
		return f.inProgram(&store.FormatError{
			Path: f.path, Off: from + int64(i), Field: "space between extents",
			Reason: fmt.Sprintf("holds %#x instead of zero", space[i]), Hint: "import the model again", Kind: store.ErrFormat,
		})
	}
	return nil
}
