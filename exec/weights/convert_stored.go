package weights

import (
	"io"

	"github.com/llmrun/llmrun/quant/tiled"
	"github.com/llmrun/llmrun/store/pack"
)

// A pack stores whole matrices. If another device computes the last rows of some, the section of
// their layer holds the first rows of each matrix: they are copied from the pack as they are.

// storedRows is where a pack stores the rows of a placement, and perhaps others behind them. The zero
// value is nowhere.
type storedRows struct {
	section io.ReaderAt
	off     int64 // of the first row
	size    int64 // of the section
	plane   tiled.Plane
}

// findStored finds the rows of a placement in a pack that stores them as they are in memory.
func (ld *Loader) findStored(p *Placement) storedRows {
	file, ok := ld.Tensors.Source.(*pack.File)
	if !ok {
		return storedRows{}
	}
	at, ok := file.Find(p.name)
	if !ok || at.Layout != p.layout() || at.Type != p.storedType() || at.Bytes < int64(p.Bytes()) {
		return storedRows{}
	}
	return storedRows{file.Section(at.Section), at.Off, file.SectionSize(at.Section), p.plane}
}

// read fills dst with the bytes from an offset of the rows on. It reads whole blocks of the pack into
// a converter's memory, so that the pack needs no memory of its own.
func (s *storedRows) read(m *convertMemory, dst []byte, at int) error {
	mem := <-m.free
	defer func() { m.free <- mem }()
	return s.readWith(mem, dst, at)
}

// readWith is read with the memory of a converter, at least joinBlocks.
func (s *storedRows) readWith(mem, dst []byte, at int) error {
	for from := s.off + int64(at); len(dst) > 0; {
		first := from / pack.BlockBytes * pack.BlockBytes
		end := (from + int64(len(dst)) + pack.BlockBytes - 1) / pack.BlockBytes * pack.BlockBytes
		end = min(end, first+int64(len(mem)/pack.BlockBytes*pack.BlockBytes), s.size)
		blocks := mem[:end-first]
		if _, err := s.section.ReadAt(blocks, first); err != nil {
			return err
		}
		n := copy(dst, blocks[from-first:])
		dst, from = dst[n:], from+int64(n)
	}
	return nil
}
