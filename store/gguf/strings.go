package gguf

import (
	"iter"
	"math"
	"strings"
)

// StringList is an immutable list of strings whose text is a single allocation: a
// vocabulary of 150 000 tokens costs its text and four bytes per token.
type StringList struct {
	text string
	ends []uint32 // offset in text at which each string ends
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

// stringLengthBytes is the size of the length before every string.
const stringLengthBytes = 8

// stringList reads n strings in two passes, so that it can allocate the text once at its
// exact size.
func (r *reader) stringList(f field, n int) *StringList {
	if !r.reserve(4 * int64(n)) {
		return nil
	}
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
	if !r.reserve(int64(total)) {
		return nil
	}
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

// appendText appends the next n bytes to text in pieces of the window's size.
func (r *reader) appendText(text *strings.Builder, f field, n uint64) {
	for n > 0 && r.err == nil {
		piece := min(n, uint64(cap(r.window)))
		text.Write(r.take(f, int(piece)))
		n -= piece
	}
}
