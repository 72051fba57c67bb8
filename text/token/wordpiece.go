package token

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// wordPieceModel encodes a word as the longest piece that it begins with, then the longest piece that continues it, and so
// on. A word that has no such pieces is unknown as a whole.
type wordPieceModel struct {
	begins, continues *trie
	unknown           int32
	most              int // characters of a word that is not unknown
}

// maxWordPiece is the default of wordPieceModel.most.
const maxWordPiece = 100

// newWordPiece builds a model from the plain pieces of a vocabulary. split returns what a piece stands for, and whether it
// continues a word.
func newWordPiece(v *vocabulary, unknown int32, split func(piece string) (text string, continues bool)) *wordPieceModel {
	pick := func(continuing bool) *trie {
		return newTrie(v.size(), func(i int) string {
			if v.kinds[i] != kindNormal && v.kinds[i] != kindUser && v.kinds[i] != kindUnused {
				return ""
			}
			text, continues := split(v.piece(int32(i)))
			if continues != continuing {
				return ""
			}
			return text
		})
	}
	return &wordPieceModel{begins: pick(false), continues: pick(true), unknown: unknown, most: maxWordPiece}
}

// encode appends the ids of a word.
func (m *wordPieceModel) encode(out *idBlocks, word string, work *scratch) {
	if word == "" {
		return
	}
	ids := work.ids[:0]
	if utf8.RuneCountInString(word) <= m.most {
		for at, pieces := 0, m.begins; at < len(word); pieces = m.continues {
			id, length := pieces.longest(word[at:])
			if length == 0 {
				ids = ids[:0]
				break
			}
			ids, at = append(ids, id), at+length
		}
	}
	work.ids = ids
	switch {
	case len(ids) > 0:
		out.add(ids...)
	case m.unknown >= 0:
		out.add(m.unknown)
	}
}

// memory returns the working memory for a word: none, because a long word is unknown.
func (m *wordPieceModel) memory(int) int64 { return 0 }

// longest returns the longest string of the set that text begins with, and its length; 0 if there is none.
func (t *trie) longest(text string) (value int32, length int) {
	node := int32(0)
	for i := range len(text) {
		if node = t.child(node, text[i]); node < 0 {
			break
		}
		if t.value[node] >= 0 {
			value, length = t.value[node], i+1
		}
	}
	return value, length
}

// bertNormalizer returns the normalizer of WordPiece vocabularies.
func bertNormalizer(clean, separateHan, stripMarks, lower bool) (ns normalizers) {
	if clean || separateHan {
		ns = append(ns, bertCleaner{clean: clean, separateHan: separateHan})
	}
	if stripMarks {
		ns = append(ns, form(norm.NFD), stripNonspacing{})
	}
	if lower {
		ns = append(ns, lowercase{})
	}
	return ns
}

// bertCleaner removes control characters, writes white space as spaces, and puts spaces around Han characters.
type bertCleaner struct{ clean, separateHan bool }

func (n bertCleaner) normalize(m *meter, text string) string {
	b := metered{m: m, stage: "normalizer.BertNormalizer"}
	b.room(len(text))
	for at := 0; at < len(text) && m.err == nil; {
		r, width := decode(text, at)
		switch {
		case n.clean && bertSpace(r):
			b.writeByte(' ')
		case n.clean && (r == notRune || r == utf8.RuneError || bertControl(r)):
		case n.separateHan && isHan(r):
			b.writeByte(' ')
			b.writeRune(r)
			b.writeByte(' ')
		default:
			b.writeString(text[at : at+width])
		}
		at += width
	}
	return b.text()
}

// growth is that of a Han character with two spaces.
func (bertCleaner) growth() float64 { return 5.0 / 3 }

func bertSpace(r rune) bool { return r >= 0 && classOf(r)&classAnySpace != 0 }

// bertControl reports whether a character is of no other category than "other".
func bertControl(r rune) bool {
	return r == 0 || classOf(r) == classOther && !unicode.In(r, unicode.Zs, unicode.Zl, unicode.Zp)
}

// isHan reports whether a character is in one of the blocks that WordPiece vocabularies take character by character.
func isHan(r rune) bool {
	return r >= 0x4E00 && r <= 0x9FFF || r >= 0x3400 && r <= 0x4DBF || r >= 0x20000 && r <= 0x2A6DF || r >= 0x2A700 && r <= 0x2B73F ||
		r >= 0x2B740 && r <= 0x2B81F || r >= 0x2B920 && r <= 0x2CEAF || r >= 0xF900 && r <= 0xFAFF || r >= 0x2F800 && r <= 0x2FA1F
}

// stripNonspacing removes nonspacing marks. A decomposing normalizer must run first.
type stripNonspacing struct{}

func (stripNonspacing) normalize(m *meter, text string) string {
	if !m.hold("normalizer.BertNormalizer", len(text)) {
		return ""
	}
	return strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Mn, r) {
			return -1
		}
		return r
	}, text)
}

// growth counts U+FFFD for each invalid byte.
func (stripNonspacing) growth() float64 { return 3 }

// bertWords are the stages of the pre-tokenizer of WordPiece vocabularies: white space separates words, and punctuation
// characters are words.
func bertWords(field string) (chain, error) {
	spaces, err := compilePattern(field, `\s+`)
	if err != nil {
		return nil, err
	}
	marks, err := compilePattern(field, exprPunctuation)
	return chain{&patternSplit{match: spaces, behavior: removed}, &patternSplit{match: marks, behavior: isolated}}, err
}

// buildWordPiece builds a tokenizer from a WordPiece vocabulary. GGUF files write the pieces that begin a word with "▁", and
// those that continue one without "##".
func (s *ggufSource) buildWordPiece() *Tokenizer {
	cased := false
	for id, k := range s.vocab.kinds {
		piece := s.vocab.piece(int32(id))
		cased = cased || k == kindNormal && strings.HasPrefix(piece, metaSymbol) && strings.ContainsFunc(piece, func(r rune) bool { return r >= 'A' && r <= 'Z' })
	}
	unknown := s.idValue(keyUnknown, s.vocab.lookup("[UNK]"))
	m := newWordPiece(s.vocab, unknown, func(piece string) (string, bool) {
		text, begins := strings.CutPrefix(piece, metaSymbol)
		if strings.HasPrefix(piece, "[") && strings.HasSuffix(piece, "]") && len(piece) > 2 {
			return "", false // a special token, or one that training left unused
		}
		return text, !begins
	})
	words, err := bertWords(keyModel)
	s.fail(err)
	t := &Tokenizer{family: "WordPiece", norm: bertNormalizer(true, true, !cased, !cased), preTokenizer: words, model: m}
	t.decoding = decodeRules{plainOnly: true, replacements: []replacement{{metaSymbol, " "}}, trimStart: 1}
	for _, name := range []string{"[CLS]", "[SEP]", "[UNK]", "[PAD]", "[MASK]"} { // some converters write them as ordinary tokens
		if id := s.vocab.lookup(name); id >= 0 && s.vocab.kinds[id] == kindNormal {
			s.vocab.kinds[id] = kindControl
		}
	}
	cls, sep := s.vocab.lookup("[CLS]"), s.idValue(keySeparator, s.vocab.lookup("[SEP]"))
	t = s.finish(t, cls, sep, true, true)
	if id := s.idValue(keyCLS, cls); id >= 0 && len(t.prefix) > 0 {
		t.prefix = []int32{id}
	}
	if sep >= 0 && len(t.suffix) > 0 {
		t.suffix = []int32{sep}
	}
	t.pair = pairRule{t.suffix, t.suffix, 1}
	return t
}

// buildWordPiece builds a WordPiece model.
func (s *hfSource) buildWordPiece() model {
	o := &s.model.options
	prefix := "##"
	if o.Prefix != nil {
		prefix = *o.Prefix
	}
	unknown := int32(-1)
	if o.UnkToken != nil {
		if unknown = s.vocab.lookup(*o.UnkToken); unknown < 0 {
			s.fail(malformed("model.unk_token", "%q is not in the vocabulary", *o.UnkToken))
		}
	}
	m := newWordPiece(s.vocab, unknown, func(piece string) (string, bool) {
		text, continues := strings.CutPrefix(piece, prefix)
		return text, continues && prefix != ""
	})
	if o.MostChars != nil {
		m.most = *o.MostChars
	}
	return m
}
