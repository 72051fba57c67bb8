package exec

import "io"

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
