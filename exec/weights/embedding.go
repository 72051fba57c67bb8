package weights

import (
	"io"

	"github.com/llmrun/llmrun/quant/tiled"
)

// embedding is the embedding matrix. Its rows are in memory, or in a section of a pack. Of a tied embedding in two
// planes, the high one is in memory, and rows of the low one may be in the section.
type embedding struct {
	Matrix
	section io.ReaderAt // nil: all rows are in memory
	off     int64       // of the first row, or of its low plane, in the section
	size    int64       // of the section
}

// LookupBytes returns the memory that decoding a row needs: the whole row, and tiles to join planes in.
func (e *embedding) LookupBytes() int {
	row := e.wholeRow()
	if e.Low != nil {
		row += tiled.TileRows * row
	}
	return row
}

// wholeRow returns the size of a row of both planes.
func (e *embedding) wholeRow() int { return e.RowBytes() + e.Low.rowBytes() }

// storedRow returns a whole row as the model's file stores it. rest has the unit of the row, or of its low plane. raw has
// LookupBytes.
func (e *embedding) storedRow(rest []byte, id int, raw []byte) (stored []byte) {
	row := e.wholeRow()
	stored, raw = raw[:row], raw[row:]
	rows, unit := e.Unit()
	if e.Low != nil {
		whole := raw[:tiled.TileRows*row]
		tiled.JoinPlanes(whole, e.Plane, e.Type, e.Data[id/rows*unit:][:unit], rest)
		rest = whole
	}
	e.copyRow(stored, rest, id%rows)
	return stored
}

// residentUnit returns the unit of a row, or of its low plane, that is in memory.
func (e *embedding) residentUnit(id int) []byte {
	m := e.LastPlane()
	rows, unit := m.Unit()
	return m.Data[id/rows*unit:][:unit]
}

// leaveOnFlash keeps the rows on flash: EmbeddingLookup reads them.
func (e *embedding) leaveOnFlash(l *Layout) {
	p := &l.Places[0]
	e.Matrix = p.matrixOver(nil)
	e.section, e.off, e.size = l.section, int64(p.off), int64(l.SectionSize)
}

// noteSection records the place of the rows in the pack. A tied embedding needs it, because
// part of the output matrix may not be in memory.
func (e *embedding) noteSection(l *Layout) {
	for i := range l.Places {
		if p := &l.Places[i]; p.Matrix == e.LastPlane() {
			e.section, e.off, e.size = l.section, int64(p.off), int64(l.SectionSize)
		}
	}
}
