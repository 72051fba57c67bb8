package exec

import (
	"io"

	"github.com/llmrun/llmrun/store/pack"
	"github.com/llmrun/llmrun/store/vfs"
)

// embedding is where the rows of tokens are looked up: in memory, or in a section
// of a pack.
type embedding struct {
	Matrix
	section io.ReaderAt // nil: all rows are in memory
	off     int64       // of the first row in the section
	size    int64       // of the section
}

// leave makes the rows of an embedding stay on flash.
func (e *embedding) leave(l *layout) {
	p := &l.places[0]
	e.Matrix = p.matrixOver(nil)
	e.section, e.off, e.size = l.section, int64(p.off), int64(l.sectionSize)
}

// remember notes where the rows are of an embedding that is the output matrix
// too, part of which may not be in memory.
func (e *embedding) remember(l *layout) {
	for i := range l.places {
		if p := &l.places[i]; p.matrix == &e.Matrix {
			e.section, e.off, e.size = l.section, int64(p.off), int64(l.sectionSize)
		}
	}
}

// lookupBytes returns the working memory that lookup needs: a row, and the
// blocks of the pack that hold the unit which the row is part of.
func (e *embedding) lookupBytes() int {
	n := e.rowBytes()
	if e.section != nil {
		_, unit := e.unit()
		n += vfs.DirectAlign + unit + 2*pack.BlockBytes
	}
	return n
}

// lookup decodes a row into dst.
func (e *embedding) lookup(dst []float32 /* [Cols] */, i int, raw []byte) error {
	if i < e.held() {
		e.row(dst, e.Data, i, raw)
		return nil
	}
	rows, unit := e.unit()
	from := e.off + int64(i/rows)*int64(unit)
	first := from / pack.BlockBytes * pack.BlockBytes
	last := min(e.size, (from+int64(unit)+pack.BlockBytes-1)/pack.BlockBytes*pack.BlockBytes)
	blocks := vfs.AlignDirect(raw[e.rowBytes():])[:last-first]
	if _, err := e.section.ReadAt(blocks, first); err != nil {
		return err
	}
	e.row(dst, blocks[from-first:], i%rows, raw)
	return nil
}
