package pack

import (
	"bytes"
	"context"
	"fmt"

	"github.com/llmrun/llmrun/store"
)

// verifyBytes is the size of one read, a multiple of BlockBytes.
const verifyBytes = 64 * BlockBytes

// Verify reads the whole file and verifies the checksum of every block and that padding is
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
	if _, err := f.file.ReadAt(space, from); err != nil {
		return err
	}
	if i := bytes.IndexFunc(space, func(r rune) bool { return r != 0 }); i >= 0 {
		return &store.FormatError{
			Path: f.path, Off: from + int64(i), Field: "space between extents",
			Reason: fmt.Sprintf("holds %#x instead of zero", space[i]), Hint: "import the model again", Kind: store.ErrFormat,
		}
	}
	return nil
}
