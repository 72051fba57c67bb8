package token

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/store"
)

// words splits a text with an expression.
func words(tb testing.TB, expr, text string) []string {
	tb.Helper()
	f, err := compilePattern("pattern", expr)
	require.NoError(tb, err)
	var out []string
	(&patternSplit{match: f}).split(newMeter(len(text), 1, EncodeOptions{}), text, true, func(word string, _ bool) { out = append(out, word) })
	return out
}

// TestPatterns compares the scanners on random text with the results of a full
// regular-expression engine (Python's regex module).
func TestPatterns(t *testing.T) {
	var golden []struct {
		Expr  string
		Words [][]string
	}
	testutil.ReadJSON(t, filepath.Join("testdata", "splits.json"), &golden)
	covered := map[string]bool{}
	for _, g := range golden {
		covered[g.Expr] = true
		for _, want := range g.Words {
			text := strings.Join(want, "")
			assert.Equal(t, want, words(t, g.Expr, text), "%s on %q", g.Expr, text)
		}
	}
	for name, pre := range prePatterns {
		for _, expr := range pre.exprs {
			assert.True(t, covered[expr], "no reference for an expression of %s: %s", name, expr)
		}
	}
}

func TestUnsupportedPatterns(t *testing.T) {
	for expr, reason := range map[string]string{
		`(a+)+`:            `the construct "("`,
		`a+a`:              "needs backtracking",
		`\p{L}+\s`:         "needs backtracking",
		`a+b*+a`:           "needs backtracking",
		`a++b`:             "needs backtracking",
		`ab?b`:             "needs backtracking",
		`\s*[\r\n]+`:       `without "\\s+(?!\\S)" after it`,
		exprCapitalized:    "after it",
		`a{2000}`:          "the quantifier",
		`.+`:               `the construct "."`,
		`^\s`:              `the construct "^"`,
		`\w+`:              `the escape \w`,
		`\p{Greek}`:        "the property",
		`\pL`:              "the property",
		`a+?`:              "the double quantifier",
		`(?=x)y`:           `the construct "("`,
		`a{2,1}`:           "the quantifier",
		`a{99999999999}`:   "the quantifier",
		`[a-z&&[aeiou]]`:   `the set operation "&&"`,
		`[a[^b]]`:          `the set operation "[^"`,
		`[[:alpha:]]`:      `the set operation "[:"`,
		`[z-a]`:            "the range",
		`a||b`:             "an empty alternative",
		`\`:                "a lone backslash",
		`(a`:               "unbalanced",
		`[a`:               "unbalanced",
		"\xff":             "not valid UTF-8",
		`(?:'s|'t)(?!\S)+`: `the construct "("`,
	} {
		_, err := compilePattern("pre_tokenizer", expr)
		require.Error(t, err, expr)
		assert.Contains(t, err.Error(), reason, expr)
		assert.Contains(t, err.Error(), "pre_tokenizer")
		var formatError *store.FormatError
		assert.ErrorAs(t, err, &formatError)
	}
}

func TestPatternShapes(t *testing.T) {
	for _, c := range []struct {
		expr, text string
		want       []string
	}{
		{`a{2,3}`, "aaaaaba", []string{"aaa", "aa", "ba"}},
		{`x?+xy`, "xxy", []string{"xxy"}},
		{`x?xy`, "xy", []string{"xy"}},
		{`[^\S ]+`, "a \t\nb", []string{"a ", "\t\n", "b"}},
		{`[\P{L}\d]+`, "a1.b", []string{"a", "1.", "b"}},
		{`\d{2,}`, "1234a5", []string{"1234", "a5"}},
		{`\s+$`, "a  b  ", []string{"a  b", "  "}},
		{` ?[^(\s|[.,!?…])]+`, "ab (c), d|e", []string{"ab", " (", "c", "),", " d", "|", "e"}},
		{`'(?:[sdmt]|ll|ve|re)| ?\p{L}+`, "it's 'S", []string{"it", "'s", " '", "S"}},
		{`[\-\]]`, "a-]b", []string{"a", "-", "]", "b"}},
	} {
		assert.Equal(t, c.want, words(t, c.expr, c.text), "%s on %q", c.expr, c.text)
	}
}

// eachCostlyText calls visit with every pre-tokenizer and the texts for which backtracking
// takes quadratic time: a unit, which is repeated, and an end.
func eachCostlyText(t *testing.T, visit func(name string, c chain, unit, end string)) {
	done := map[string]bool{}
	for name, pre := range prePatterns {
		key := strings.Join(pre.exprs, " ")
		if done[key] {
			continue
		}
		done[key] = true
		c, err := pre.splitters()
		require.NoError(t, err)
		for _, unit := range []string{"a", "A", " ", " \t", "\n", "'", "1", ".", "\xff", "ក់", "\u3000", "aA", " x"} {
			for _, end := range []string{"", "x", "\n", " "} {
				visit(name, c, unit, end)
			}
		}
	}
}

func TestPatternsKeepTheText(t *testing.T) {
	eachCostlyText(t, func(name string, c chain, unit, end string) {
		text := strings.Repeat(unit, 1<<16/len(unit)) + end
		total := 0
		c.split(newMeter(len(text), maxTextGrowth, EncodeOptions{}), text, true, func(word string, _ bool) { total += len(word) })
		assert.Equal(t, len(text), total, "%s on %q…%q drops text", name, unit, end)
	})
}

// TestMeasuredPatternsAreLinear compares the times for two lengths of text.
func TestMeasuredPatternsAreLinear(t *testing.T) {
	testutil.Measured(t)
	const small, factor = 1 << 12, 32
	eachCostlyText(t, func(name string, c chain, unit, end string) {
		split := func(size int) func() {
			text := strings.Repeat(unit, size/len(unit)) + end
			return func() {
				c.split(newMeter(len(text), maxTextGrowth, EncodeOptions{}), text, true, func(string, bool) {})
			}
		}
		testutil.NearlyProportional(t, fmt.Sprintf("%s on %q…%q", name, unit, end), factor, split(small), split(small*factor))
	})
}
