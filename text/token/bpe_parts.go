package token

import (
	"slices"
	"unicode/utf8"
)

// A long word is encoded in parts, so that the working memory does not follow its length. The result
// is the same, by this argument. Merging always joins the pair with the lowest rank, and the leftmost
// of equal ones. If two neighboring tokens of a sequence, encoded on their own, stay these two tokens,
// no merge of the whole text crosses the boundary between them before one that does in the pair; so if
// that holds for all neighbors, no merge crosses any boundary, and the sequence is the encoding of the
// whole text. Neighbors in the encoding of a part have this property, for the same reason. What is
// left to check is the pair at the seam of two parts.
//
// A part is encoded with more symbols after it, because its last tokens depend on them. If a seam
// fails nevertheless, the word is encoded again in longer parts, at last in a single one.

const (
	// partSymbols is the number of symbols that are merged at once.
	partSymbols = 4 << 10
	// partTail is the part of these symbols that is merged again, with those after it.
	partTail = 8
	// partGrowth is the growth of the parts if a seam fails.
	partGrowth = 8
)

// encodeLong appends the ids of a word of more than partSymbols bytes.
func (m *bpeModel) encodeLong(out *idBlocks, word string, work *scratch) {
	begin := out.len()
	for size := partSymbols; !m.encodeParts(out, word, size, work); size *= partGrowth {
		out.cut(begin)
		if !out.m.works(partMemory(min(len(word), size*partGrowth))) {
			return
		}
	}
}

// encodeParts appends the ids of a word, of which it merges size symbols at once. It returns false if
// a seam fails.
func (m *bpeModel) encodeParts(out *idBlocks, word string, size int, work *scratch) bool {
	defer work.trim()
	symbols := symbolReader{model: m, word: word}
	part, seam := work.part[:0], work.seam[:0] // seam: the symbols of the last token so far
	var before int32                           // that token
	for {
		part = symbols.read(part, size)
		if len(part) == 0 {
			return true
		}
		work.ids = append(work.ids[:0], part...)
		ids, starts := work.merge.long.apply(m.merges, work.ids)
		if len(seam) > 0 && !m.separate(before, seam, ids[0], part[:endOf(starts, 0, len(part))], work) {
			return false
		}
		if symbols.done() {
			m.emit(out, ids, work)
			work.part, work.seam = part, seam
			return true
		}
		keep, _ := slices.BinarySearch(starts, int32(len(part)-len(part)/partTail))
		if keep--; keep < 1 {
			return false
		}
		m.emit(out, ids[:keep], work)
		before, seam = ids[keep-1], append(seam[:0], part[starts[keep-1]:starts[keep]]...)
		part = append(part[:0], part[starts[keep]:]...)
	}
}

// endOf returns the position after token i of a part of n symbols.
func endOf(starts []int32, i, n int) int {
	if i+1 < len(starts) {
		return int(starts[i+1])
	}
	return n
}

// separate reports whether two tokens with the given symbols stay two tokens if they are neighbors.
func (m *bpeModel) separate(left int32, leftSymbols []int32, right int32, rightSymbols []int32, work *scratch) bool {
	work.pair = append(append(work.pair[:0], leftSymbols...), rightSymbols...)
	ids := m.merges.apply(work.pair, &work.seamMerge)
	return len(ids) == 2 && ids[0] == left && ids[1] == right
}

// emit appends the ids of merged symbols, and returns them.
func (m *bpeModel) emit(out *idBlocks, ids []int32, work *scratch) []int32 {
	if m.virtual != nil {
		work.pair = m.withoutVirtual(work.pair[:0], ids)
		ids = work.pair
	}
	out.add(ids...)
	return ids
}

// partMemory returns the working memory for size symbols: the symbols, their copy, and what merging
// them takes.
func partMemory(size int) int64 { return wordCost * int64(size) }

// trim drops buffers of unusual sizes.
func (s *scratch) trim() {
	if cap(s.ids) > maxRetainedSymbols {
		s.ids = nil
	}
	if cap(s.part) > maxRetainedSymbols {
		s.part = nil
	}
}

// symbolReader returns the initial symbols of a word: one id per byte or character.
type symbolReader struct {
	model  *bpeModel
	word   string
	at     int
	fusing bool // the last symbol is unknown
}

// done reports whether all symbols are read.
func (r *symbolReader) done() bool { return r.at == len(r.word) }

// read appends symbols until ids has n of them, or a few more, or the word ends.
func (r *symbolReader) read(ids []int32, n int) []int32 {
	if r.model.byteLevel {
		for ; r.at < len(r.word) && len(ids) < n; r.at++ {
			if id := r.model.bytes[r.word[r.at]]; id >= 0 {
				ids = append(ids, id)
			}
		}
		return ids
	}
	for r.at < len(r.word) && len(ids) < n {
		ids = r.char(ids)
	}
	return ids
}

// char appends the symbols of the next character.
func (r *symbolReader) char(ids []int32) []int32 {
	m := r.model
	_, width := utf8.DecodeRuneInString(r.word[r.at:])
	char := r.word[r.at : r.at+width]
	r.at += width
	id := m.lookupChar(char)
	if id < 0 && m.bytes.cover(char) {
		for i := range width {
			ids = append(ids, m.bytes[char[i]])
		}
		r.fusing = false
		return ids
	}
	if id < 0 {
		if m.unknown >= 0 && !(r.fusing && m.fuseUnknown) {
			ids = append(ids, m.unknown)
		}
		r.fusing = true
		return ids
	}
	r.fusing = false
	return append(ids, id)
}
