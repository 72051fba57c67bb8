package token

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"
)

// scoredPairs builds a merge table from scored pieces. SentencePiece joins two
// neighbors if their concatenation is a piece, and joins the pair with the highest
// score first. Each piece therefore becomes one merge for every position at which it
// splits into two symbols. The rank of a merge is the rank of the piece's score.
type scoredPairs struct {
	vocab *vocabulary
	// virtual lists characters that are not pieces but occur inside pieces. Their ids
	// follow those of the vocabulary.
	virtual   []string
	virtualID map[string]int32
}

// table builds the merge table. scores has one entry per id.
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

// symbol returns the id of one side of a split, or -1 if text never becomes a symbol.
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

// mergeable reports whether merges may result in an entry of this kind.
func mergeable(k kind) bool { return k == kindNormal || k == kindUser || k == kindUnused }

// rankScores ranks scores from the highest to the lowest. Equal scores have equal
// ranks.
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

// metaSymbolOnlyLeads reports whether every piece has "▁" only at its start. Then no
// merge crosses the start of a word.
func metaSymbolOnlyLeads(v *vocabulary) bool {
	for id, k := range v.kinds {
		if mergeable(k) && strings.Contains(strings.TrimLeft(v.piece(int32(id)), metaSymbol), metaSymbol) {
			return false
		}
	}
	return true
}

// buildSPM builds a tokenizer from scored pieces.
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
	// The normalizer escapes spaces. The decoder reverses this and removes the space
	// that the normalizer added before the text.
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

// exprLines separates line breaks from other text. No merge joins both.
const exprLines = `[^\n]+|[\n]+`

// buildMergedSPM builds a tokenizer with the pieces of SentencePiece and a list of merges, as Gemma 4 has it.
func (s *ggufSource) buildMergedSPM() *Tokenizer {
	words, err := prePattern{exprs: []string{exprLines}}.splitters()
	s.fail(err)
	m := &bpeModel{vocab: s.vocab, unknown: s.idValue(keyUnknown, -1), fuseUnknown: true, bytes: byteTokens(s.vocab)}
	m.merges = s.readMerges()
	t := &Tokenizer{family: "BPE", norm: &replace{literal(" "), metaSymbol}, preTokenizer: words, model: m}
	t.decoding = decodeRules{byteTokens: true, plainOnly: true, replacements: []replacement{{metaSymbol, " "}}}
	return s.finish(t, -1, -1, true, false)
}

// maxScoredPiece is the maximum length of a scored piece in bytes. The table splits
// each piece at every position, so the work is quadratic in this length. Training
// limits are far lower.
const maxScoredPiece = 1024

// checkLengths rejects pieces that are longer than maxScoredPiece.
func (s *ggufSource) checkLengths() {
	for id, k := range s.vocab.kinds {
		if n := len(s.vocab.piece(int32(id))); mergeable(k) && n > maxScoredPiece {
			s.fail(unsupported(keyTokens, "token %d with %d bytes (at most %d)", id, n, maxScoredPiece))
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
			s.fail(s.meta.Errorf(keyScores, "the score of token %d is NaN", i))
		}
	}
	return scores
}

// buildUnigram builds a tokenizer from pieces with log-probabilities.
func (s *ggufSource) buildUnigram() *Tokenizer {
	scores := s.readScores()
	if s.err != nil {
		return nil
	}
	wide := make([]float64, len(scores))
	for id, score := range scores {
		wide[id] = float64(score)
		if s.vocab.kinds[id] == kindUser {
			wide[id] = 0 // log-probability of a certain piece
		}
	}
	unknown := s.idValue(keyUnknown, 2)
	m := newUnigram(s.vocab, wide, unknown, func(id int32) bool { return mergeable(s.vocab.kinds[id]) })
	s.fail(m.checkPieces(keyTokens))
	t := &Tokenizer{family: "Unigram", model: m}
	prefix := s.boolValue(keySpacePrefix, false)
	t.norm = s.unigramNormalizer(prefix)
	if s.err == nil {
		_, err := checkGrowth(keyCharsmap, 1, t.norm)
		s.fail(err)
	}
	t.decoding = decodeRules{byteTokens: true, plainOnly: true, replacements: []replacement{{metaSymbol, " "}}}
	if prefix {
		t.decoding.trimStart = 1
	}
	return s.finish(t, -1, 1, false, true)
}

// unigramNormalizer applies the character map of the file and replaces spaces with "▁".
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

// spaceEscaper replaces spaces with "▁". prefix adds one before the text; merge reduces
// each run of spaces to one.
type spaceEscaper struct{ prefix, merge bool }

func (n spaceEscaper) normalize(m *meter, text string) string {
	b := metered{m: m, stage: "normalizer.▁"}
	b.room(len(text))
	inWord, begun := false, false
	for i := 0; i < len(text) && m.err == nil; i++ {
		if text[i] == ' ' {
			inWord = false
			if !n.merge {
				b.writeString(metaSymbol)
			}
			continue
		}
		if !inWord {
			inWord = true
			if n.prefix && !begun || n.merge {
				b.writeString(metaSymbol)
				begun = true
			}
		}
		b.writeByte(text[i])
	}
	return b.text()
}
