package weights

import "io"

// embedding is the embedding matrix. Its rows are in memory, or in a section of a pack.
type embedding struct {
	Matrix
	section io.ReaderAt // nil: all rows are in memory
	off     int64       // of the first row in the section
	size    int64       // of the section
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
		if p := &l.Places[i]; p.Matrix == &e.Matrix {
			e.section, e.off, e.size = l.section, int64(p.off), int64(l.SectionSize)
		}
	}
}
