package token

import "slices"

// idBlock is the length of the blocks of an idBlocks.
const idBlock = 16 << 10

// idBlocks collects the ids of a text. Beyond the first block it never copies them to a larger slice,
// so that until join an id takes 4 bytes. It asks the meter before it allocates.
type idBlocks struct {
	m    *meter
	full [][]int32 // blocks before the last
	last []int32   // last block; while it is the only one it grows as slices do
	n    int       // ids in full
}

// len returns the number of ids.
func (l *idBlocks) len() int { return l.n + len(l.last) }

// add appends ids. After a refusal by the meter it appends none.
func (l *idBlocks) add(ids ...int32) {
	if len(l.last)+len(ids) > cap(l.last) && !l.grow(len(ids)) {
		return
	}
	l.last = append(l.last, ids...)
}

// grow makes room for n more ids.
func (l *idBlocks) grow(n int) bool {
	if l.len()+n < idBlock {
		return true // append grows the first block
	}
	size := max(idBlock, n)
	if !l.m.take(l.m.live + l.m.work + idCost*int64(l.len()+size)) {
		return false
	}
	l.full, l.n, l.last = append(l.full, l.last), l.len(), make([]int32, 0, size)
	return true
}

// cut removes all ids but the first n.
func (l *idBlocks) cut(n int) {
	for l.n > n {
		before := len(l.full) - 1
		l.last, l.full = l.full[before], l.full[:before]
		l.n -= len(l.last)
	}
	l.last = l.last[:n-l.n]
}

// join returns the ids as one slice.
func (l *idBlocks) join() []int32 {
	if l.full == nil {
		return l.last
	}
	return slices.Concat(append(l.full, l.last)...)
}
