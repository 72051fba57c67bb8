package token

import (
	"bytes"
	"cmp"
	"slices"
)

// trie finds the strings of a set that start at a position of a text. The nodes are
// stored in breadth-first order, so the children of a node are adjacent.
type trie struct {
	label []byte  // [nodes] byte on the edge to the node
	value []int32 // [nodes] value of the string that ends at the node, or -1
	first []int32 // [nodes+1] first child; the children end at the first child of the next node
}

// newTrie builds a trie of the strings at(0) … at(n-1). The value of a string is its
// index. newTrie ignores empty strings.
func newTrie(n int, at func(i int) string) *trie {
	order := make([]int32, 0, n)
	for i := range n {
		if at(i) != "" {
			order = append(order, int32(i))
		}
	}
	slices.SortFunc(order, func(a, b int32) int { return cmp.Compare(at(int(a)), at(int(b))) })
	// Count the nodes first, so the arrays are allocated once.
	nodes, last := 1, ""
	for _, i := range order {
		text := at(int(i))
		nodes += len(text) - commonPrefix(text, last)
		last = text
	}
	t := &trie{
		label: make([]byte, 1, nodes), value: make([]int32, 0, nodes), first: make([]int32, 0, nodes+1),
	}
	level, below := []trieSpan{{0, len(order)}}, []trieSpan(nil)
	for depth := 0; len(level) > 0; depth++ {
		below = below[:0]
		for _, s := range level {
			t.first = append(t.first, int32(len(t.label)))
			below = t.addNode(s, order, depth, at, below)
		}
		level, below = below, level
	}
	t.first = append(t.first, int32(len(t.label)))
	return t
}

// trieSpan is the range of sorted strings below a node.
type trieSpan struct{ low, high int }

// addNode adds the value of the next node and the labels of its children. It appends
// the spans of the children to below.
func (t *trie) addNode(s trieSpan, order []int32, depth int, at func(int) string, below []trieSpan) []trieSpan {
	value := int32(-1)
	for low := s.low; low < s.high; {
		text := at(int(order[low]))
		if len(text) == depth {
			value = order[low]
			low++
			continue
		}
		high := low + 1
		for high < s.high && at(int(order[high]))[depth] == text[depth] {
			high++
		}
		t.label = append(t.label, text[depth])
		below = append(below, trieSpan{low, high})
		low = high
	}
	t.value = append(t.value, value)
	return below
}

// commonPrefix returns the length of the common prefix of two strings.
func commonPrefix(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// child returns the child of a node for a byte, or -1. Node 0 is the root.
func (t *trie) child(node int32, b byte) int32 {
	first := t.first[node]
	i := bytes.IndexByte(t.label[first:t.first[node+1]], b)
	if i < 0 {
		return -1
	}
	return first + int32(i)
}

// find returns the value of text, or -1.
func (t *trie) find(text string) int32 {
	node := int32(0)
	for i := range len(text) {
		if node = t.child(node, text[i]); node < 0 {
			return -1
		}
	}
	return t.value[node]
}
