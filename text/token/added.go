package token

import (
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

// split calls token for each added token in the input and text for each part between
// them, in order. at is the byte offset of the part.
func (s *addedSet) split(in string, allowSpecial bool, text func(part string, at int), token func(id int32)) {
	from := 0
	for at := 0; at < len(in) && len(s.tokens) > 0; {
		if !s.starts[in[at]] {
			at++
			continue
		}
		t := s.longest(in, at, allowSpecial)
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
func (s *addedSet) longest(in string, at int, allowSpecial bool) *addedToken {
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
		if t.special && !allowSpecial {
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
