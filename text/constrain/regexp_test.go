package constrain

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

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

// TestRegexpRefuses checks that what is not supported is an error that says where.
func TestRegexpRefuses(t *testing.T) {
	for expression, at := range map[string]int{
		`a(?=b)`: 1, `(?!a)`: 0, `(?<=a)b`: 0, `(a)\1`: 3, `\bword`: 0, `a^b`: 1, `(a$)`: 2, `a**`: 2, `[b-a]`: 4, `[a`: 2, `(a`: 2, `a)`: 1, `a{3,2}`: 1,
		`a{2000000000}`: 1, `\p{Nothing}`: 0, `\u12`: 0, `\q`: 0, `*a`: 0, "a\xff": 0, `a{,3}`: 1, `a{1,+3}`: 1, `a{-0}`: 1, `\ud800`: 0,
	} {
		_, err := Regexp(expression)
		require.ErrorIs(t, err, ErrLanguage, expression)
		require.ErrorContains(t, err, fmt.Sprintf("at byte %d: ", at), expression)
	}
}
