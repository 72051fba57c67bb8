package token

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// addedToken is a token that the tokenizer matches in the text before it runs the
// model.
type addedToken struct {
	id      int32
	text    string
	special bool // matched only with EncodeOptions.AllowSpecial
	// stripLeft and stripRight remove the white space next to the token.
	stripLeft, stripRight bool
	singleWord            bool // no match inside a longer word
}

// addedSet matches added tokens in a text. The leftmost match wins; at one position the
// longest match wins.
type addedSet struct {
	tokens []addedToken
	trie   *trie
	starts [256]bool // first bytes of the tokens
}

// newAddedSet builds a set. It ignores tokens with an empty spelling.
func newAddedSet(tokens []addedToken) *addedSet {
	s := &addedSet{tokens: tokens}
	s.trie = newTrie(len(tokens), func(i int) string { return tokens[i].text })
	for _, t := range tokens {
		if t.text != "" {
			s.starts[t.text[0]] = true
		}
	}
	return s
}

// A Span is a range of bytes of a text.
type Span struct{ Begin, End int }

// overlaps reports whether a range has a byte of one of the spans, which are ascending.
func overlaps(spans []Span, begin, end int) bool {
	i, _ := slices.BinarySearchFunc(spans, begin, func(s Span, at int) int {
		if s.End <= at {
			return -1
		}
		return 1
	})
	return i < len(spans) && spans[i].Begin < end
}

// eachSpan calls encode for the parts of a text that are in the spans of Plain and between them. at is its offset.
func (o *EncodeOptions) eachSpan(text string, at int, encode func(part string, at int, allowSpecial bool)) {
	from, end := at, at+len(text)
	part := func(to int, allowSpecial bool) {
		if to = min(to, end); to > from {
			encode(text[from-at:to-at], from, allowSpecial)
			from = to
		}
	}
	for _, s := range o.Plain {
		part(s.Begin, true)
		part(s.End, false)
	}
	part(end, true)
}

// hasSpecial reports whether a token of the set is special.
func (s *addedSet) hasSpecial() bool {
	return slices.ContainsFunc(s.tokens, func(t addedToken) bool { return t.special })
}

// split calls token for each added token in the input and text for each part between
// them, in order. at is the byte offset of the part. No special token matches in the spans of plain.
func (s *addedSet) split(in string, allowSpecial bool, plain []Span, text func(part string, at int), token func(id int32)) {
	from := 0
	for at := 0; at < len(in) && len(s.tokens) > 0; {
		if !s.starts[in[at]] {
			at++
			continue
		}
		t := s.longest(in, at, allowSpecial, plain)
		if t == nil {
			at++
			continue
		}
		if t.singleWord && insideWord(in, at, at+len(t.text)) {
			at += len(t.text) // no shorter token matches there instead
			continue
		}
		// The stripped white space belongs to the token. It must not reach into the
		// previous token, which ends at from.
		begin, end := at, at+len(t.text)
		if t.stripLeft {
			begin = max(from, len(strings.TrimRightFunc(in[:begin], unicode.IsSpace)))
		}
		if t.stripRight {
			end = len(in) - len(strings.TrimLeftFunc(in[end:], unicode.IsSpace))
		}
		if begin > from {
			text(in[from:begin], from)
		}
		token(t.id)
		from, at = end, end
	}
	if from < len(in) {
		text(in[from:], from)
	}
}

// longest returns the longest token that matches at a position, or nil.
func (s *addedSet) longest(in string, at int, allowSpecial bool, plain []Span) *addedToken {
	var best *addedToken
	node := int32(0)
	for end := at; end < len(in); {
		if node = s.trie.child(node, in[end]); node < 0 {
			break
		}
		end++
		value := s.trie.value[node]
		if value < 0 {
			continue
		}
		t := &s.tokens[value]
		if t.special && (!allowSpecial || overlaps(plain, at, end)) {
			continue
		}
		best = t
	}
	return best
}

// insideWord reports whether a character of words touches either end of a match.
func insideWord(in string, begin, end int) bool {
	before, _ := utf8.DecodeLastRuneInString(in[:begin])
	after, _ := utf8.DecodeRuneInString(in[end:])
	return begin > 0 && isWordRune(before) || end < len(in) && isWordRune(after)
}

// isWordRune reports whether a character counts as part of a word for singleWord: those of \w in Unicode's regular
// expressions.
func isWordRune(r rune) bool {
	return unicode.In(r, unicode.L, unicode.M, unicode.Nd, unicode.Nl, unicode.Pc, unicode.Other_Alphabetic, unicode.Join_Control)
}
