package token

import (
	"math"
	"math/bits"
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
	longest      int // bytes of the longest piece
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
		piece := v.piece(int32(i))
		m.longest = max(m.longest, len(piece))
		return piece
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

// viterbi is the working memory of one word: the best path to every byte position. It keeps the
// scores only of positions that a piece may still reach.
type viterbi struct {
	score []float64 // [ring]
	steps []uint16  // [bytes+1] length of the last piece, 0 without a path; later of the next one
}

// reset prepares the memory for a word of n bytes and pieces of at most ring bytes.
func (p *viterbi) reset(n, ring int) {
	p.steps = slices.Grow(p.steps[:0], n+1)[:n+1]
	clear(p.steps)
	size := 1 << bits.Len(uint(ring))
	p.score = slices.Grow(p.score[:0], size)[:size]
	p.score[0] = 0
}

// improve records a path of a step to a position if it is better than the recorded one. Of two
// equal paths the first wins.
func (p *viterbi) improve(from, to int, score float64) {
	mask := len(p.score) - 1
	if score += p.score[from&mask]; p.steps[to] == 0 || score > p.score[to&mask] {
		p.score[to&mask], p.steps[to] = score, uint16(to-from)
	}
}

// reverse makes the steps lead from the beginning of the word to its end.
func (p *viterbi) reverse() {
	at := len(p.steps) - 1
	for step := p.steps[at]; at > 0; {
		at -= int(step)
		step, p.steps[at] = p.steps[at], step
	}
}

// maxWord is the maximum length of a word in bytes. encode splits longer words, which
// bounds its working memory. Only input with tens of millions of letters without a
// break reaches the limit.
const maxWord = 64 << 20

// maxUnigramPiece is the maximum length of a piece in bytes. Training limits are far lower.
const maxUnigramPiece = 1 << 14

// checkPieces refuses pieces that are longer than maxUnigramPiece.
func (m *unigramModel) checkPieces(field string) error {
	if m.longest > maxUnigramPiece {
		return unsupported(field, "a piece of %d bytes (at most %d)", m.longest, maxUnigramPiece)
	}
	return nil
}

// encode appends the ids of a word.
func (m *unigramModel) encode(out *idBlocks, word string, work *scratch) {
	splitLong(word, maxWord, func(part string) { m.encodeWord(out, part, &work.paths) })
}

// memory returns the working memory for a word.
func (m *unigramModel) memory(length int) int64 { return 2*int64(length) + 16*int64(m.longest) }

// encodeWord runs the Viterbi algorithm: it extends the best path to every character by
// all pieces that start there.
func (m *unigramModel) encodeWord(out *idBlocks, word string, p *viterbi) {
	p.reset(len(word), max(m.longest, utf8.UTFMax))
	for at := 0; at < len(word); {
		_, width := utf8.DecodeRuneInString(word[at:])
		covered, node := false, int32(0)
		for end := at; end < len(word); {
			if node = m.trie.child(node, word[end]); node < 0 {
				break
			}
			end++
			if id := m.trie.value[node]; id >= 0 {
				p.improve(at, end, m.scores[id])
				covered = covered || end == at+width
			}
		}
		// The unknown token covers a character without a piece, so a path always
		// exists.
		if !covered {
			p.improve(at, at+width, m.unknownScore)
		}
		at += width
	}
	p.reverse()
	m.follow(out, word, p)
	if cap(p.steps) > maxRetainedSymbols {
		*p = viterbi{}
	}
}

// follow appends the ids of the best path. Of neighboring unknown tokens it appends the last.
func (m *unigramModel) follow(out *idBlocks, word string, p *viterbi) {
	next := func(at int) (id int32) {
		if at == len(word) {
			return -1
		}
		if id = m.trie.find(word[at : at+int(p.steps[at])]); id < 0 {
			id = m.unknown
		}
		return id
	}
	for at, id := 0, next(0); at < len(word); {
		to := at + int(p.steps[at])
		after := next(to)
		unknown := id == m.unknown
		switch {
		case unknown && m.byteFallback && m.bytes.cover(word[at:to]):
			for i := at; i < to; i++ {
				out.add(m.bytes[word[i]])
			}
		case id >= 0 && !(unknown && to < len(word) && after == m.unknown):
			out.add(id)
		}
		at, id = to, after
	}
}
