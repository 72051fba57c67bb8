package token

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"
)

// scoredPairs makes a merge table of scored pieces. SentencePiece joins two
// neighbours if what they spell is a piece, the highest score first. So each
// piece is a merge of any two parts that it can be cut into, and its rank is
// the place of its score.
type scoredPairs struct {
	vocab *vocabulary
	// virtual are parts that are no pieces: single characters that occur only
	// inside of longer ones. Their ids follow the vocabulary's.
	virtual   []string
	virtualID map[string]int32
}

func (p *scoredPairs) table(scores []float32) *mergeTable {
	v, ranks := p.vocab, rankScores(scores)
	table := newMergeTable(2 * v.size())
	for id := range int32(v.size()) {
		if !mergeable(v.kinds[id]) {
			continue
		}
		piece := v.piece(id)
		for at := range piece {
			if at == 0 {
				continue
			}
			left := p.symbol(piece[:at])
			if left < 0 {
				continue
			}
			if right := p.symbol(piece[at:]); right >= 0 {
				table.put(left, right, merge{ranks[id], id}, false)
			}
		}
	}
	return table
}

// symbol returns the id of one side of a cut, -1 if it is never a symbol.
func (p *scoredPairs) symbol(text string) int32 {
	if id := p.vocab.lookup(text); id >= 0 && mergeable(p.vocab.kinds[id]) {
		return id
	}
	if _, width := utf8.DecodeRuneInString(text); width != len(text) {
		return -1
	}
	id, ok := p.virtualID[text]
	if !ok {
		id = int32(p.vocab.size() + len(p.virtual))
		p.virtual = append(p.virtual, text)
		p.virtualID[text] = id
	}
	return id
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

// metaSymbolOnlyLeads reports whether no piece has a "▁" after anything else, so
// that no merge reaches across the beginning of a word.
func metaSymbolOnlyLeads(v *vocabulary) bool {
	for id, k := range v.kinds {
		if mergeable(k) && strings.Contains(strings.TrimLeft(v.piece(int32(id)), metaSymbol), metaSymbol) {
			return false
		}
	}
	return true
}

// buildSPM makes a tokenizer of scored pieces.
func (s *ggufSource) buildSPM() *Tokenizer {
	scores := s.readScores()
	s.checkLengths()
	if s.err != nil {
		return nil
	}
	m := &bpeModel{vocab: s.vocab, unknown: s.idValue(keyUnknown, 0), bytes: byteTokens(s.vocab)}
	pairs := &scoredPairs{vocab: s.vocab, virtualID: map[string]int32{}}
	m.merges = pairs.table(scores)
	m.virtual, m.virtualID = pairs.virtual, pairs.virtualID
	t := &Tokenizer{family: "SPM", model: m}
	t.decoding = decodeRules{byteTokens: true, plainOnly: true, replacements: []replacement{{metaSymbol, " "}}}
	t.norm = &replace{literal(" "), metaSymbol}
	if s.boolValue(keySpacePrefix, true) {
		t.norm = normalizers{prepend(" "), t.norm}
		t.decoding.trimStart = 1
	}
	if metaSymbolOnlyLeads(s.vocab) {
		t.preTokenizer = chain{metaSymbolSplit{}}
	}
	return s.finish(t, 1, 2, true, false)
}

// maxScoredPiece bounds the pieces that are cut at every place, in bytes: the
// work is quadratic in it. Vocabularies are trained with limits far below.
const maxScoredPiece = 1024

func (s *ggufSource) checkLengths() {
	for id, k := range s.vocab.kinds {
		if n := len(s.vocab.piece(int32(id))); mergeable(k) && n > maxScoredPiece {
			s.fail(unsupported(keyTokens, "token %d of %d bytes", id, n))
		}
	}
}

// readScores reads the score of every token.
func (s *ggufSource) readScores() []float32 {
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

// buildUnigram makes a tokenizer of pieces with probabilities.
func (s *ggufSource) buildUnigram() *Tokenizer {
	scores := s.readScores()
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
	unknown := s.idValue(keyUnknown, 2)
	m := newUnigram(s.vocab, wide, unknown, func(id int32) bool { return mergeable(s.vocab.kinds[id]) })
	t := &Tokenizer{family: "Unigram", model: m}
	prefix := s.boolValue(keySpacePrefix, false)
	t.norm = s.unigramNormalizer(prefix)
	t.decoding = decodeRules{byteTokens: true, plainOnly: true, replacements: []replacement{{metaSymbol, " "}}}
	if prefix {
		t.decoding.trimStart = 1
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
	return append(ns, spaceEscaper{prefix: prefix, merge: s.boolValue(keyExtraSpace, false)})
}

// spaceEscaper writes spaces as "▁": one before the text where prefix is set,
// and only one between words where merge is.
type spaceEscaper struct{ prefix, merge bool }

func (n spaceEscaper) normalize(text string) string {
	var b strings.Builder
	inWord, begun := false, false
	for i := range len(text) {
		if text[i] == ' ' {
			inWord = false
			if !n.merge {
				b.WriteString(metaSymbol)
			}
			continue
		}
		if !inWord {
			inWord = true
			if n.prefix && !begun || n.merge {
				b.WriteString(metaSymbol)
				begun = true
			}
		}
		b.WriteByte(text[i])
	}
	return b.String()
}
