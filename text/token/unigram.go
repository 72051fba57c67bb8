package token

import (
	"math"
	"slices"
	"unicode/utf8"
)

// unigramModel gives every piece a log-probability and takes the division of a
// word whose pieces are the most probable together.
type unigramModel struct {
	vocab  *vocabulary
	trie   *trie
	scores []float64 // [vocab]
	// unknown stands for characters that no piece covers, and costs more than
	// any piece.
	unknown      int32
	unknownScore float64
	bytes        [256]int32 // byte tokens, used in place of unknown if byteFallback
	byteFallback bool
}

// unknownPenalty is how much less likely than the least likely piece a
// character outside of the vocabulary is.
const unknownPenalty = 10

// newUnigram prepares a model of the pieces that usable names. scores has an
// entry for each id; min is the lowest score that counts.
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

// viterbi is the scratch of one word: for every place in it, the best way to
// get there.
type viterbi struct {
	score []float64 // [bytes+1]
	from  []int32   // [bytes+1] where the last piece begins
	id    []int32   // [bytes+1] the last piece
}

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

// improve records a way to a place; of equal ones the first stays.
func (p *viterbi) improve(from, to int, id int32, score float64) {
	if score += p.score[from]; p.from[to] < 0 || score > p.score[to] {
		p.score[to], p.from[to], p.id[to] = score, int32(from), id
	}
}

func (m *unigramModel) encode(dst []int32, word string, work *scratch) []int32 {
	splitLong(word, maxWord, func(part string) { dst = m.encodeWord(dst, part, work) })
	return dst
}

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

// backtrack follows the best path from its end.
func (m *unigramModel) backtrack(dst []int32, word string, p *viterbi) []int32 {
	start := len(dst)
	wasUnknown := false
	for at := len(word); at > 0; {
		from, id := int(p.from[at]), p.id[at]
		unknown := id == m.unknown
		switch {
		case unknown && m.byteFallback && m.spellable(word[from:at]):
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

func (m *unigramModel) spellable(chars string) bool {
	for i := range len(chars) {
		if m.bytes[chars[i]] < 0 {
			return false
		}
	}
	return true
}
