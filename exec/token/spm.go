package token

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"
)

// newScoredPairs makes a merge table of scored pieces. SentencePiece joins two
// neighbours if what they spell is a piece, the highest score first. So each
// piece is a merge of any two parts that it can be cut into, and its rank is
// the place of its score.
//
// Parts are pieces too, or single characters that are no piece by themselves:
// those are returned as well, numbered from the vocabulary's end.
func newScoredPairs(v *vocabulary, scores []float32) (*mergeTable, []string, map[string]int32) {
	ranks := rankScores(scores)
	table := newMergeTable(2 * v.size())
	var virtual []string
	virtualID := map[string]int32{}
	part := func(text string) int32 {
		if id := v.lookup(text); id >= 0 && mergeable(v.kinds[id]) {
			return id
		}
		if _, width := utf8.DecodeRuneInString(text); width != len(text) {
			return -1
		}
		id, ok := virtualID[text]
		if !ok {
			id = int32(v.size() + len(virtual))
			virtual = append(virtual, text)
			virtualID[text] = id
		}
		return id
	}
	for id := range int32(v.size()) {
		if !mergeable(v.kinds[id]) {
			continue
		}
		piece := v.piece(id)
		for at := range piece {
			if at == 0 {
				continue
			}
			left := part(piece[:at])
			if left < 0 {
				continue
			}
			if right := part(piece[at:]); right >= 0 {
				table.put(left, right, merge{ranks[id], id}, false)
			}
		}
	}
	return table, virtual, virtualID
}

// mergeable reports whether joining characters may lead to a token.
func mergeable(k kind) bool { return k == kindNormal || k == kindUser || k == kindUnused }

// rankScores numbers scores from the highest; equal scores get equal ranks.
func rankScores(scores []float32) []int32 {
	order := make([]int32, len(scores))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int { return cmp.Compare(scores[b], scores[a]) })
	ranks := make([]int32, len(scores))
	for i := 1; i < len(order); i++ {
		rank := ranks[order[i-1]]
		if scores[order[i]] != scores[order[i-1]] {
			rank++
		}
		ranks[order[i]] = rank
	}
	return ranks
}

// wordsEndAtMarks reports whether no piece has a "▁" after anything else, so
// that no merge reaches across the beginning of a word.
func wordsEndAtMarks(v *vocabulary) bool {
	for id, k := range v.kinds {
		if mergeable(k) && strings.Contains(strings.TrimLeft(v.piece(int32(id)), mark), mark) {
			return false
		}
	}
	return true
}

// sentencePiece makes a tokenizer of scored pieces.
func (s *ggufSource) sentencePiece() *Tokenizer {
	scores := s.scores()
	if s.err != nil {
		return nil
	}
	m := &bpeModel{vocab: s.vocab, unknown: s.id(keyUnknown, 0), bytes: byteTokens(s.vocab)}
	m.merges, m.virtual, m.virtualID = newScoredPairs(s.vocab, scores)
	t := &Tokenizer{family: "SPM", model: m}
	t.spelling = spelling{byteTokens: true, plainOnly: true, replacements: []replacement{{mark, " "}}}
	t.norm = &replace{literal(" "), mark}
	if s.flag(keySpacePrefix, true) {
		t.norm = normalizers{prepend(" "), t.norm}
		t.spelling.trimStart = 1
	}
	if wordsEndAtMarks(s.vocab) {
		t.words = chain{markWords{}}
	}
	return s.finish(t, 1, 2, true, false)
}

// scores reads the score of every token.
func (s *ggufSource) scores() []float32 {
	scores, ok, err := s.meta.Floats(keyScores)
	s.fail(err)
	if s.err == nil && !ok {
		s.fail(s.meta.Errorf(keyScores, "is missing"))
	}
	if s.err == nil && len(scores) != s.vocab.size() {
		s.fail(s.meta.Errorf(keyScores, "has %d entries for %d tokens", len(scores), s.vocab.size()))
	}
	for i, score := range scores {
		if s.err == nil && score != score {
			s.fail(s.meta.Errorf(keyScores, "the score of token %d is not a number", i))
		}
	}
	return scores
}

// unigram makes a tokenizer of pieces with probabilities.
func (s *ggufSource) unigram() *Tokenizer {
	scores := s.scores()
	if s.err != nil {
		return nil
	}
	wide := make([]float64, len(scores))
	for id, score := range scores {
		wide[id] = float64(score)
		if s.vocab.kinds[id] == kindUser {
			wide[id] = 0 // the likeliest there is
		}
	}
	unknown := s.id(keyUnknown, 2)
	m := newUnigram(s.vocab, wide, unknown, func(id int32) bool { return mergeable(s.vocab.kinds[id]) })
	t := &Tokenizer{family: "Unigram", model: m}
	prefix := s.flag(keySpacePrefix, false)
	t.norm = s.unigramNormalizer(prefix)
	t.spelling = spelling{byteTokens: true, plainOnly: true, replacements: []replacement{{mark, " "}}}
	if prefix {
		t.spelling.trimStart = 1
	}
	return s.finish(t, -1, 1, false, true)
}

// unigramNormalizer maps characters as the file says and writes spaces as "▁".
func (s *ggufSource) unigramNormalizer(prefix bool) normalizer {
	var ns normalizers
	raw, ok, err := s.meta.Bytes(keyCharsmap)
	s.fail(err)
	if ok && len(raw) > 0 {
		m, err := newCharsmap(keyCharsmap, raw)
		s.fail(err)
		ns = append(ns, m)
	}
	return append(ns, spaceMarks{prefix: prefix, merge: s.flag(keyExtraSpace, false)})
}

// spaceMarks writes spaces as "▁": one before the text where prefix is set,
// and only one between words where merge is.
type spaceMarks struct{ prefix, merge bool }

func (n spaceMarks) normalize(text string) string {
	var b strings.Builder
	inWord, begun := false, false
	for i := range len(text) {
		if text[i] == ' ' {
			inWord = false
			if !n.merge {
				b.WriteString(mark)
			}
			continue
		}
		if !inWord {
			inWord = true
			if n.prefix && !begun || n.merge {
				b.WriteString(mark)
				begun = true
			}
		}
		b.WriteByte(text[i])
	}
	return b.String()
}
