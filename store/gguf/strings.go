package gguf

import (
	"iter"
	"math"
	"strings"
)

// StringList is an immutable list of strings that lies in one piece of memory:
// a vocabulary of 150 000 tokens costs its text and four bytes a token.
type StringList struct {
	text string
	ends []uint32 // where each string ends in text
}

// Len returns the number of strings.
func (l StringList) Len() int { return len(l.ends) }

// At returns string i without copying it.
func (l StringList) At(i int) string {
	start := uint32(0)
	if i > 0 {
		start = l.ends[i-1]
	}
	return l.text[start:l.ends[i]]
}

// All iterates over the strings and their indexes.
func (l StringList) All() iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		for i := range l.ends {
			if !yield(i, l.At(i)) {
				return
			}
		}
	}
}

// stringLengthBytes precede every string in the file.
const stringLengthBytes = 8

// stringList reads n strings in two passes, so that the text is allocated once
// and at its exact size.
func (r *reader) stringList(f field, n int) *StringList {
	list := &StringList{ends: make([]uint32, n)}
	begin, total := r.off, uint64(0)
	for i := range list.ends {
		length := r.u64(f)
		r.skip(f, length)
		total += length
		if total > math.MaxUint32 {
			r.fail(f, "more than 4 GiB of text")
		}
		if r.err != nil {
			return nil
		}
		list.ends[i] = uint32(total)
	}
	r.off = begin
	var text strings.Builder
	text.Grow(int(total))
	for range n {
		r.appendText(&text, f, r.u64(f))
	}
	if r.err == nil && text.Len() != int(total) {
		r.fail(f, "the file changed while it was read")
	}
	list.text = text.String()
	return list
}

// appendText copies the next n bytes to text, through the window piece by piece.
func (r *reader) appendText(text *strings.Builder, f field, n uint64) {
	for n > 0 && r.err == nil {
		piece := min(n, uint64(cap(r.window)))
		text.Write(r.take(f, int(piece)))
		n -= piece
	}
}
