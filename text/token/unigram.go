package token

import (
	"math"
	"slices"
	"unicode/utf8"
)

// unigramModel assigns a log-probability to every piece and splits a word into the
// pieces with the highest total log-probability.
type unigramModel struct {
	vocab  *vocabulary
	trie   *trie
	scores []float64 // [vocab]
	// unknown encodes a character that no piece covers. Its score is lower than that of
	// any piece.
	unknown      int32
	unknownScore float64
	bytes        byteIDs // ids of the byte tokens; with byteFallback they replace unknown
	byteFallback bool
}

// unknownPenalty is the difference between the lowest score of a piece and the score of
// unknown.
const unknownPenalty = 10

// newUnigram builds a model from the pieces for which usable returns true. scores has
// one entry per id.
func newUnigram(v *vocabulary, scores []float64, unknown int32, usable func(id int32) bool) *unigramModel {
	m := &unigramModel{vocab: v, scores: scores, unknown: unknown, bytes: byteTokens(v)}
	m.trie = newTrie(v.size(), func(i int) string {
		if !usable(int32(i)) {
			return ""
		}
		return v.piece(int32(i))
	})
	lowest := math.Inf(1)
	for id, s := range scores {
		if v.kinds[id] == kindNormal {
			lowest = min(lowest, s)
		}
	}
	if math.IsInf(lowest, 1) {
		lowest = 0
	}
	m.unknownScore = lowest - unknownPenalty
	return m
}

// viterbi is the working memory of one word. It stores the best path to every byte
// position.
type viterbi struct {
	score []float64 // [bytes+1]
	from  []int32   // [bytes+1] start of the last piece
	id    []int32   // [bytes+1] id of the last piece
}

// reset prepares the memory for a word of n bytes.
func (p *viterbi) reset(n int) {
	p.score = slices.Grow(p.score[:0], n+1)[:n+1]
	p.from = slices.Grow(p.from[:0], n+1)[:n+1]
	p.id = slices.Grow(p.id[:0], n+1)[:n+1]
	for i := range p.score {
		p.score[i] = math.Inf(-1)
		p.from[i] = -1
	}
	p.score[0] = 0
}

// improve records a path to a position if it is better than the recorded one. Of two
// equal paths the first wins.
func (p *viterbi) improve(from, to int, id int32, score float64) {
	if score += p.score[from]; p.from[to] < 0 || score > p.score[to] {
		p.score[to], p.from[to], p.id[to] = score, int32(from), id
	}
}

// encode appends the ids of a word.
func (m *unigramModel) encode(dst []int32, word string, work *scratch) []int32 {
	splitLong(word, maxWord, func(part string) { dst = m.encodeWord(dst, part, work) })
	return dst
}

// encodeWord runs the Viterbi algorithm: it extends the best path to every character by
// all pieces that start there.
func (m *unigramModel) encodeWord(dst []int32, word string, work *scratch) []int32 {
	p := &work.paths
	p.reset(len(word))
	for at := 0; at < len(word); {
		_, width := utf8.DecodeRuneInString(word[at:])
		covered, node := false, int32(0)
		for end := at; end < len(word); {
			if node = m.trie.child(node, word[end]); node < 0 {
				break
			}
			end++
			if id := m.trie.value[node]; id >= 0 {
				p.improve(at, end, id, m.scores[id])
				covered = covered || end == at+width
			}
		}
		// The unknown token covers a character without a piece, so a path always
		// exists.
		if !covered {
			p.improve(at, at+width, m.unknown, m.unknownScore)
		}
		at += width
	}
	dst = m.backtrack(dst, word, p)
	if cap(p.score) > maxRetainedSymbols {
		*p = viterbi{}
	}
	return dst
}

// backtrack appends the ids of the best path, which it follows from the end of the
// word.
func (m *unigramModel) backtrack(dst []int32, word string, p *viterbi) []int32 {
	start := len(dst)
	wasUnknown := false
	for at := len(word); at > 0; {
		from, id := int(p.from[at]), p.id[at]
		unknown := id == m.unknown
		switch {
		case unknown && m.byteFallback && m.bytes.cover(word[from:at]):
			for i := at - 1; i >= from; i-- {
				dst = append(dst, m.bytes[word[i]])
			}
		case id >= 0 && !(unknown && wasUnknown):
			dst = append(dst, id)
		}
		wasUnknown, at = unknown, from
	}
	slices.Reverse(dst[start:])
	return dst
}
