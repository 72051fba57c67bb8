package token

import (
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// A pattern matches the words of a pre-tokenizer's regular expression.
//
// Tokenizer files use expressions with look-ahead. Go's regexp package does not support
// look-ahead, and a backtracking engine may take exponential time. However, the
// expressions are alternations of a few forms. compilePattern therefore splits an
// expression at its top-level bars. Each alternative is either one of the hand-written
// scanners of pattern_scan.go or a sequence of character sets that needs no
// backtracking. Any other alternative results in an error that names it.
type pattern struct {
	alternatives []scanner
}

// scanner matches one alternative at a position and returns the end of the match, or
// -1. To keep find linear, a scanner reads at most a constant factor more text than it
// consumes. A namedScanner may read more if another alternative consumes that text.
type scanner func(text string, at int) int

// find returns the first match at or after a position. Without a match it returns the
// end of the text twice.
func (p *pattern) find(text string, from int) (start, end int) {
	for at := from; at < len(text); {
		for _, alternative := range p.alternatives {
			if end := alternative(text, at); end > at {
				return at, end
			}
		}
		_, width := decode(text, at)
		at += width
	}
	return len(text), len(text)
}

// compilePattern compiles a regular expression. field is the name of the expression in
// errors.
func compilePattern(field, expr string) (finder, error) {
	if !utf8.ValidString(expr) {
		return nil, malformed(field, "the regular expression is not valid UTF-8")
	}
	expr = spellEscapes.Replace(expr)
	if expr == `\s+$` || expr == `\s++$` {
		return trailingSpace{}, nil
	}
	bars, err := splitBars(field, expr)
	if err != nil {
		return nil, err
	}
	p := &pattern{}
	for i, alternative := range bars {
		named, ok := namedScanners[alternative]
		scan := named.scan
		switch {
		case !ok:
			if scan, err = compileSequence(field, alternative); err != nil {
				return nil, err
			}
		case named.requires != "" && !slices.Contains(bars[i:], named.requires):
			return nil, unsupported(field, "the alternative %q without %q after it", alternative, named.requires)
		}
		p.alternatives = append(p.alternatives, scan)
	}
	return p, nil
}

// spellEscapes replaces control characters with their escapes, because tokenizer files
// contain both forms.
var spellEscapes = strings.NewReplacer("\r", `\r`, "\n", `\n`, "\t", `\t`)

// splitBars splits an expression at the bars outside parentheses and brackets.
func splitBars(field, expr string) ([]string, error) {
	var parts []string
	depth, sets, start := 0, 0, 0
	for i := 0; i < len(expr); i++ {
		switch c := expr[i]; {
		case c == '\\':
			i++
		case c == '[':
			sets++
		case c == ']' && sets > 0:
			sets--
		case sets > 0:
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == '|' && depth == 0:
			parts = append(parts, expr[start:i])
			start = i + 1
		}
	}
	if depth != 0 || sets != 0 {
		return nil, malformed(field, "unbalanced brackets in %q", shorten(expr))
	}
	return append(parts, expr[start:]), nil
}

// item is a character set and its quantifier.
type item struct {
	set        *charSet
	min, max   int
	possessive bool // the match never returns a character
}

// compileSequence compiles an alternative that is a sequence of quantified character
// sets.
func compileSequence(field, expr string) (scanner, error) {
	p := &exprParser{field: field, expr: expr}
	var items []item
	for p.at < len(p.expr) {
		it, err := p.item()
		if err != nil {
			return nil, err
		}
		items = append(items, it)
	}
	if len(items) == 0 {
		return nil, unsupported(field, "an empty alternative of a regular expression")
	}
	if needsBacktracking(items) {
		return nil, unsupported(field, "the regular expression %q needs backtracking", shorten(expr))
	}
	optional := len(items) > 1 && items[0].optional() && !items[0].possessive
	if !optional {
		return func(text string, at int) int { return matchItems(items, text, at) }, nil
	}
	with, without := append([]item(nil), items...), items[1:]
	with[0].min = 1
	return func(text string, at int) int {
		if end := matchItems(with, text, at); end >= 0 {
			return end
		}
		return matchItems(without, text, at)
	}, nil
}

// optional reports whether the quantifier is ?.
func (it item) optional() bool { return it.min == 0 && it.max == 1 }

// needsBacktracking reports whether greedy matching could miss a match, or could fail
// after reading much text. Both happen if an item of variable length precedes an item
// that must match. An optional character is exempt if it is possessive or the first
// item; compileSequence tries a non-possessive first item both ways.
func needsBacktracking(items []item) bool {
	variable := false
	for i, it := range items {
		if variable && it.min > 0 {
			return true
		}
		tried := it.optional() && (i == 0 || it.possessive)
		variable = variable || it.min != it.max && !tried
	}
	return false
}

// matchItems matches each item greedily, without backtracking. It returns the end of
// the match, or -1.
func matchItems(items []item, text string, at int) int {
	for i := range items {
		end, count := items[i].set.run(text, at, items[i].max)
		if count < items[i].min {
			return -1
		}
		at = end
	}
	return at
}

// unlimited is the upper bound of the quantifiers + and *.
const unlimited = math.MaxInt

// shorten limits the length of an expression in an error message.
func shorten(expr string) string {
	const keep = 60
	if len(expr) > keep {
		return strings.ToValidUTF8(expr[:keep], "") + "…"
	}
	return expr
}
