package index

import (
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/llmrun/llmrun/store"
)

const (
	// termBits is the length of the hash that stands for a word. Among a million words, about two have the same one.
	termBits = 40
	termSeed = 0x776f726473
	// maxWord is the longest word in bytes: longer ones are data, such as an image in base64.
	maxWord = 64
)

// A splitter divides texts into terms: words in lower case without diacritics, and pairs of characters in scripts
// that write no spaces or join particles to words. Buffers are reused.
type splitter struct {
	// query leaves out single characters of longer runs, which are terms of passages so that one of them is found.
	query bool
	word  []byte
	emit  func(term uint64)
}

// terms calls emit for each term of a text, in order.
func (s *splitter) terms(text []byte, emit func(term uint64)) {
	s.emit = emit
	for at := 0; at < len(text); {
		c, size := utf8.DecodeRune(text[at:])
		switch {
		case isPaired(c):
			end := spanOf(text, at, isPaired)
			s.pairs(text[at:end])
			at = end
		case isWord(c):
			end := spanOf(text, at, func(c rune) bool { return isWord(c) && !isPaired(c) })
			if end-at > 1 || !besideApostrophe(text, at, end) { // not the s of "Ruby's"
				s.add(text[at:end])
			}
			at = end
		default:
			at += size
		}
	}
}

// spanOf returns where the characters end, from at on, for which is returns true.
func spanOf(text []byte, at int, is func(rune) bool) int {
	for at < len(text) {
		c, size := utf8.DecodeRune(text[at:])
		if !is(c) {
			break
		}
		at += size
	}
	return at
}

func isWord(c rune) bool {
	if c < utf8.RuneSelf {
		return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
	}
	return c != utf8.RuneError && (unicode.IsLetter(c) || unicode.IsNumber(c) || unicode.IsMark(c))
}

// isPaired reports whether a script's characters are indexed in pairs.
func isPaired(c rune) bool {
	return c > 0xdff && (kanaMarks[c] || unicode.In(c, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar))
}

// kanaMarks belong to kana, though Unicode counts them to no script.
var kanaMarks = map[rune]bool{'ー': true, 'ｰ': true, 'ﾞ': true, 'ﾟ': true, '\u3099': true, '\u309a': true}

// besideApostrophe reports whether a letter is a part of a word that an apostrophe cuts off.
func besideApostrophe(text []byte, at, end int) bool {
	if at > 0 && text[at-1] == '\'' || end < len(text) && text[end] == '\'' {
		return true
	}
	before, _ := utf8.DecodeLastRune(text[:at])
	after, _ := utf8.DecodeRune(text[end:])
	return before == '’' || after == '’'
}

// add emits a word.
func (s *splitter) add(word []byte) {
	if len(word) > maxWord {
		return
	}
	s.word = s.word[:0]
	for _, c := range word {
		if c >= utf8.RuneSelf {
			s.word = fold(s.word[:0], word)
			break
		}
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		s.word = append(s.word, c)
	}
	if s.word = singular(s.word); len(s.word) > 0 {
		s.emit(hashTerm(s.word))
	}
}

// singular cuts off the s at the end of a longer word, which is a plural or a form of a verb in English, and a plural in
// French, Spanish and Portuguese. Endings of other words, such as analysis, stay.
func singular(word []byte) []byte {
	n := len(word)
	if n < 4 || word[n-1] != 's' || word[n-2] == 's' || word[n-2] == 'u' || word[n-2] == 'i' {
		return word
	}
	return word[:n-1]
}

// pairs emits neighbouring characters of a run, and the characters themselves.
func (s *splitter) pairs(run []byte) {
	run = norm.NFC.Bytes(norm.NFKD.Bytes(run))
	last, n := rune(0), 0
	emit := func(pair ...rune) {
		s.word = s.word[:0]
		for _, c := range pair {
			s.word = utf8.AppendRune(s.word, c)
		}
		s.emit(hashTerm(s.word))
	}
	for i, c := range string(run) {
		alone := i == 0 && utf8.RuneLen(c) == len(run)
		if n > 0 {
			emit(last, c)
		}
		if alone || !s.query && unicode.Is(unicode.Han, c) {
			emit(c)
		}
		last, n = c, n+1
	}
}

// folded are letters that Unicode does not decompose.
var folded = map[rune]string{'ø': "o", 'ł': "l", 'đ': "d", 'ð': "d", 'þ': "th", 'æ': "ae", 'œ': "oe", 'ß': "ss", 'ħ': "h", 'ı': "i", 'ς': "σ"}

// fold appends a word in lower case, and without diacritics of Latin, Greek, Cyrillic, Hebrew and Arabic. Other
// scripts write vowels as marks, which stay.
func fold(dst, word []byte) []byte {
	for _, c := range string(norm.NFKD.Bytes(word)) {
		if isDiacritic(c) {
			continue
		}
		c = unicode.ToLower(c)
		if other, is := folded[c]; is {
			dst = append(dst, other...)
			continue
		}
		dst = utf8.AppendRune(dst, c)
	}
	return norm.NFC.Bytes(dst)
}

// isDiacritic reports whether fold leaves out a mark: a combining accent, or a point or vowel of Hebrew and Arabic.
func isDiacritic(c rune) bool {
	return 0x300 <= c && c <= 0x36f || 0x591 <= c && c <= 0x5c7 || 0x610 <= c && c <= 0x61a || 0x640 <= c && c <= 0x65f && (c == 0x640 || c >= 0x64b) || c == 0x670
}

// hashTerm returns the hash that stands for a word.
func hashTerm(word []byte) uint64 { return store.Sum64(termSeed, word) >> (64 - termBits) }

// countWords counts what a passage may have most of: words, and characters of scripts without spaces.
func countWords(text string) (int, error) {
	n, in := 0, false
	for _, c := range text {
		switch {
		case isPaired(c):
			n, in = n+1, false
		case isWord(c):
			if !in {
				n++
			}
			in = true
		default:
			in = false
		}
	}
	return n, nil
}

// Words returns the hashes of a text's words, in order and without those that tell little.
func Words(text string) (words []uint64) {
	s := splitter{query: true}
	s.terms([]byte(text), func(term uint64) {
		if !stopWords[term] {
			words = append(words, term)
		}
	})
	return words
}
