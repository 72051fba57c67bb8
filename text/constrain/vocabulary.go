package constrain

import (
	"bytes"
	"math"
	"slices"
)

// Token is a token of a vocabulary.
type Token struct {
	ID    int32
	Bytes []byte // what it adds to a text
	// Byte marks a token that stands for a byte no other token has. It is left out if another one has the same bytes:
	// no tokenizer would use it.
	Byte bool
}

// Mark returns the bytes that stand for a token which is no text but a mark, such as one between a header and a message, in a
// vocabulary and in [Call]. It begins with a byte that no text has, so that nothing else is mistaken for the mark.
func Mark(spelling string) string { return "\xff" + spelling }

// trieNode is a node of a trie in the order of a depth-first walk.
type trieNode struct {
	b     byte
	depth uint16 // number of bytes of the node's text
	end   int32  // first node that is not below this one
	token int32  // first entry of tokens with this text, -1 for none
}

// Vocabulary holds the tokens of a model as a trie. It is immutable and safe for concurrent use.
type Vocabulary struct {
	size    int
	nodes   []trieNode
	tokens  []vocabularyToken
	ends    []int32    // tokens that end a generation
	single  byteSet    // bytes that have a token of their own
	longest int        // bytes of the longest token
	first   [256]int32 // the node of each first byte, -1 for none
	spelled [][]byte   // [id]
}

// vocabularyToken is an entry of a list of tokens with the same bytes.
type vocabularyToken struct{ id, next int32 }

// maxToken is the length in bytes of the longest token that an answer with a constraint may have.
const maxToken = 1 << 10

// VocabularyBytes returns the memory of a vocabulary of size ids whose tokens have a number of bytes in total.
func VocabularyBytes(size int, bytes int64) int64 {
	const node, token, header = 12, 8, 24
	return bytes*(node+1) + int64(size)*(token+header)
}

// NewVocabulary returns the vocabulary of a model with ids below size. ends are the tokens that end a generation. Neither they
// nor tokens with a meaning of their own are among tokens, besides those that [Mark] spells.
func NewVocabulary(size int, tokens []Token, ends []int32) *Vocabulary {
	v := &Vocabulary{size: size, ends: slices.Clone(ends), spelled: make([][]byte, size)}
	tokens = slices.DeleteFunc(slices.Clone(tokens), func(t Token) bool {
		return len(t.Bytes) == 0 || len(t.Bytes) > maxToken || t.ID < 0 || int(t.ID) >= size
	})
	slices.SortFunc(tokens, compareTokens)
	for i := range v.first {
		v.first[i] = -1
	}
	total := 0
	for i := range tokens {
		total += len(tokens[i].Bytes) - commonPrefix(tokens, i)
	}
	v.nodes = make([]trieNode, 0, min(total, math.MaxInt32))
	v.add(tokens)
	return v
}

// compareTokens orders tokens by their bytes; of those with the same, byte tokens are last.
func compareTokens(a, b Token) int {
	if c := bytes.Compare(a.Bytes, b.Bytes); c != 0 {
		return c
	}
	if a.Byte != b.Byte {
		if a.Byte {
			return 1
		}
		return -1
	}
	return int(a.ID) - int(b.ID)
}

// commonPrefix returns the number of bytes that a token shares with the one before it.
func commonPrefix(tokens []Token, i int) int {
	if i == 0 {
		return 0
	}
	a, b := tokens[i-1].Bytes, tokens[i].Bytes
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// add builds the trie of sorted tokens.
func (v *Vocabulary) add(tokens []Token) {
	path := []int32{} // nodes of the last text
	close := func(depth int) {
		for len(path) > depth {
			last := len(path) - 1
			v.nodes[path[last]].end = int32(len(v.nodes))
			path = path[:last]
		}
	}
	for i := range tokens {
		t := &tokens[i]
		shared := commonPrefix(tokens, i)
		close(shared)
		for _, b := range t.Bytes[shared:] {
			if len(path) == 0 {
				v.first[b] = int32(len(v.nodes))
			}
			path = append(path, int32(len(v.nodes)))
			v.nodes = append(v.nodes, trieNode{b: b, depth: uint16(len(path)), token: -1})
		}
		node := &v.nodes[path[len(path)-1]]
		if node.token >= 0 && t.Byte {
			continue
		}
		v.spelled[t.ID] = t.Bytes
		v.longest = max(v.longest, len(t.Bytes))
		if len(t.Bytes) == 1 {
			v.single.add(t.Bytes[0])
		}
		v.tokens = append(v.tokens, vocabularyToken{t.ID, node.token})
		node.token = int32(len(v.tokens) - 1)
	}
	close(0)
}

// child returns the node below a node, or below the root for -1, with a byte; -1 if there is none.
func (v *Vocabulary) child(node int32, b byte) int32 {
	if node < 0 {
		return v.first[b]
	}
	for c := node + 1; c < v.nodes[node].end; c = v.nodes[c].end {
		if v.nodes[c].b == b {
			return c
		}
	}
	return -1
}

// preferred returns the token of a node that spells a text which is certain: the one with the lowest id.
func (v *Vocabulary) preferred(node int32) int32 {
	id := int32(-1)
	for t := v.nodes[node].token; t >= 0; t = v.tokens[t].next {
		id = v.tokens[t].id
	}
	return id
}

// fewest returns for each offset of a text the fewest tokens that spell the rest.
func (v *Vocabulary) fewest(text string) []int32 {
	costs := make([]int32, len(text)+1)
	for from := len(text) - 1; from >= 0; from-- {
		costs[from] = never
		node := int32(-1)
		for at := from; at < len(text); at++ {
			if node = v.child(node, text[at]); node < 0 {
				break
			}
			if v.nodes[node].token >= 0 {
				costs[from] = min(costs[from], addCost(costs[at+1], 1))
			}
		}
	}
	return costs
}
