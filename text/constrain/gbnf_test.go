package constrain

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGBNF(t *testing.T) {
	for _, c := range []struct {
		grammar string
		yes, no []string
	}{
		{`root ::= "a" | "b" root`, []string{"a", "bba"}, []string{"", "b", "ab"}},
		{
			"# sums\nroot ::= (expr \"=\" ws num \"\\n\")+\nexpr ::= term ([-+*/] term)*\nterm ::= num | \"(\" ws expr \")\" ws\nnum ::= [0-9]+ ws\nws ::= [ \\t\\n]*",
			[]string{"1+2=3\n", "(1 +(2*3)) /4= 1\n2=2\n"},
			[]string{"1+=2\n", "(1=2\n", ""},
		},
		{"root ::= item{2,3}\nitem ::=\n  \"x\" |\n  [^a-y\\x00-\\x1f] # comment\n", []string{"xx", "xzx", "éé"}, []string{"x", "xy", "xxxx"}},
		{`root ::= "\u00e9\U0001F600\x41\"\\" .`, []string{"é😀A\"\\\n"}, []string{"é😀A\"\\"}},
		{"root::=snake_case|UPPER-2\r\nsnake_case::=\"s\"\r\nUPPER-2 ::= \"U\" # the end", []string{"s", "U"}, []string{"", "sU"}},
		{"root ::= \"a\" ws \"b\"\nws ::= | \" \" | \"\\n\" [ \\t]{0,2}", []string{"ab", "a b", "a\n\t b"}, []string{"a  b", "a\n   b"}},
		{"root ::= [a-c] {2} \"x\"+? ([^\\n]{1,} \"\\n\"){0,1}", []string{"ab", "bcxx", "bcxyz\n"}, []string{"a", "abx\n\n", "abd"}},
		{"root ::= (\"a\" # one\n | # or\n (\"b\" | (\"c\" | \"d\" \"e\")+) # nested\n){2}", []string{"aa", "bcde", "dec"}, []string{"a", "ad"}},
		{`root ::= [ぁ-ゟ]+ [\u4E00-\u9FFF] [\U0001F600-\U0001F64F]? [+-] [^"\\\x7F\x00-\x1F]`, []string{"ひら漢+x", "あ語😀-é"}, []string{"ひらx", "a漢+x", `あ漢+"`, `あ漢+\`, "あ漢+\x7f"}},
		{`root ::= "\t\r\[\]" [\]\\\[^-]*`, []string{"\t\r[]", "\t\r[]]\\[^-"}, []string{"\t\r[]a"}},
		{`root ::= "\-" [a\-c]+`, []string{"-ac-"}, []string{"-b", "a"}},
		{"root ::= (\n  \"a\"\n  \"b\"\n)? c{2}\nc ::= [\\]c-]", []string{"ab]-", "cc"}, []string{"a]-", "b"}},
		{`root ::= empty* "."
empty ::= "e"? | empty2
empty2 ::= ""`, []string{".", "ee."}, []string{"", "e"}},
	} {
		g, err := GBNF(c.grammar)
		require.NoError(t, err, c.grammar)
		for _, text := range c.yes {
			ok, err := g.Matches(text)
			require.NoError(t, err)
			require.True(t, ok, "%s matches %q", c.grammar, text)
		}
		for _, text := range c.no {
			ok, err := g.Matches(text)
			require.NoError(t, err)
			require.False(t, ok, "%s does not match %q", c.grammar, text)
		}
	}
}

// TestGBNFRefuses checks that errors name the line and the reason.
func TestGBNFRefuses(t *testing.T) {
	for grammar, reason := range map[string]string{
		"":                                    `line 1, byte 0: a rule "root" is missing`,
		"a ::= \"x\"":                         `a rule "root" is missing`,
		"root ::= a\nb ::= \"x\"":             `line 1, byte 9: rule "a" is not defined`,
		"root ::= \"x\"\nroot ::= \"y\"":      `line 2, byte 17: rule "root" is defined twice`,
		"root ::= root \"x\" | \"y\"":         "rule root begins with itself",
		"root ::= a \"x\"\na ::= b?\nb ::= a": "begins with itself",
		"root ::= \"x":                        "a closing quotation mark is missing",
		"root ::= [a":                         "a closing bracket is missing",
		"root ::= [b-a]":                      "not in order",
		"root ::= (\"a\"":                     "expected ), found the end",
		"root ::= \"a\")":                     "expected the end of the line",
		"root = \"a\"":                        "expected ::=",
		"root ::= \"\\q\"":                    "the escape",
		"root ::= \"a\"{3,1}":                 "the quantifier",
		"root ::= <think> .*":                 `"<think> .*" is not supported: tokens have no text`,
		"root ::= !<[1000]>*":                 `"!<[1000]>*" is not supported: tokens have no text`,
		"root ::= * \"a\"":                    "has nothing before it",
		"root ::= \"a\"{,3}":                  "the quantifier",
		"root ::= \"\\ud800\"":                "is not a character",
		"root ::= \"a\" root":                 "no finite text",
		"root ::= \"\xff\"":                   "not valid UTF-8",
	} {
		_, err := GBNF(grammar)
		require.ErrorIs(t, err, ErrLanguage, grammar)
		require.ErrorContains(t, err, reason, grammar)
	}
}
