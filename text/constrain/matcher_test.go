package constrain

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// bytesVocabulary has a token for each byte and the given texts; the last id ends a generation.
func bytesVocabulary(texts ...string) *Vocabulary {
	var tokens []Token
	for b := range 256 {
		tokens = append(tokens, Token{ID: int32(b), Bytes: []byte{byte(b)}, Byte: true})
	}
	for i, text := range texts {
		tokens = append(tokens, Token{ID: int32(256 + i), Bytes: []byte(text)})
	}
	return NewVocabulary(257+len(texts), tokens, []int32{int32(256 + len(texts))})
}

func TestRegexp(t *testing.T) {
	for _, c := range []struct {
		expr    string
		yes, no []string
	}{
		{"", []string{""}, []string{"a"}},
		{"abc", []string{"abc"}, []string{"", "ab", "abcd"}},
		{"a*b+c?", []string{"b", "aab", "abbc"}, []string{"a", "ac", "abcc"}},
		{"a{2,3}", []string{"aa", "aaa"}, []string{"a", "aaaa"}},
		{"(?:ab|c){2}", []string{"abc", "cc", "abab"}, []string{"ab", "ccc"}},
		{"[^a-c]", []string{"d", "é", "😀", "\n"}, []string{"a", "c", ""}},
		{`\d+\.\d`, []string{"12.5"}, []string{"12,5"}},
		{"^a|b$", []string{"a", "b"}, []string{"ab"}},
		{`[\u00e0-\u017f]`, []string{"é", "ÿ", "ſ"}, []string{"e", "ƀ"}},
		{`\p{Lu}.`, []string{"Éa"}, []string{"éa", "E\n"}},
		{`\ud7ff|\u{10ffff}`, []string{"\ud7ff", "\U0010ffff"}, []string{"\uffff"}},
		{"(a|aa){3}b", []string{"aaab", "aaaaaab"}, []string{"aab", "aaaaaaab"}},
	} {
		g, err := Regexp(c.expr)
		require.NoError(t, err, c.expr)
		for _, text := range c.yes {
			ok, err := g.Matches(text)
			require.NoError(t, err)
			require.True(t, ok, "%q matches %q", c.expr, text)
		}
		for _, text := range c.no {
			ok, err := g.Matches(text)
			require.NoError(t, err)
			require.False(t, ok, "%q does not match %q", c.expr, text)
		}
	}
}

func TestMask(t *testing.T) {
	v := bytesVocabulary("ab", "abc", "c", "bc")
	g, err := Regexp("ab(c|d)*")
	require.NoError(t, err)
	m, err := NewMatcher(g, v, nil)
	require.NoError(t, err)
	c := m.Begin()
	bits, done, err := c.Mask(0)
	require.NoError(t, err)
	require.False(t, done)
	require.Equal(t, []int32{'a', 256, 257}, ids(bits))
}

func ids(bits []uint64) (all []int32) {
	for i, word := range bits {
		for b := range 64 {
			if word>>b&1 != 0 {
				all = append(all, int32(64*i+b))
			}
		}
	}
	return all
}
