package token

import (
	"bytes"
	"cmp"
	"slices"
)

// trie finds which of a set of strings begin at a position of a text. Nodes
// lie in breadth-first order, so the children of one are neighbours.
type trie struct {
	label []byte  // [nodes] byte that leads to the node
	value []int32 // [nodes] value of the string that ends here, -1 if none does
	first []int32 // [nodes+1] first child; the children end where the next node's begin
}

// newTrie builds a trie of the strings at(0) … at(n-1), with their indices
// mapped by value. Empty strings are left out.
func newTrie(n int, at func(i int) string, value func(i int) int32) *trie {
	order := make([]int32, 0, n)
	for i := range n {
		if at(i) != "" {
			order = append(order, int32(i))
		}
	}
	slices.SortFunc(order, func(a, b int32) int { return cmp.Compare(at(int(a)), at(int(b))) })

	type span struct{ low, high, depth int32 } // the strings below a node
	spans := []span{{0, int32(len(order)), 0}}
	t := &trie{label: []byte{0}, value: []int32{-1}}
	for node := 0; node < len(spans); node++ {
		s := spans[node]
		t.first = append(t.first, int32(len(spans)))
		for low := s.low; low < s.high; {
			text := at(int(order[low]))
			if len(text) == int(s.depth) {
				t.value[node] = value(int(order[low]))
				low++
				continue
			}
			b, high := text[s.depth], low+1
			for high < s.high && at(int(order[high]))[s.depth] == b {
				high++
			}
			spans = append(spans, span{low, high, s.depth + 1})
			t.label = append(t.label, b)
			t.value = append(t.value, -1)
			low = high
		}
	}
	t.first = append(t.first, int32(len(spans)))
	return t
}

// child returns the node that a byte leads to, or -1. Node 0 is the root.
func (t *trie) child(node int32, b byte) int32 {
	first := t.first[node]
	i := bytes.IndexByte(t.label[first:t.first[node+1]], b)
	if i < 0 {
		return -1
	}
	return first + int32(i)
}
