package token

import (
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// A pattern finds the words of a pre-tokenizer's regular expression.
//
// Vocabularies come with expressions in a dialect that has look-ahead, so
// neither Go's regexp nor a backtracking engine would do: the one cannot run
// them, the other can be made to run for ever. But they are all alternations
// of a few shapes. An expression is taken apart at its top-level bars; each
// alternative is either one of the hand-written scanners of pattern_scan.go or a
// sequence of character sets that needs no backtracking. Everything else is
// refused by name.
type pattern struct {
	alternatives []scanner
}

// scanner matches one alternative at a position and returns the match's end,
// or -1. It looks at no more text than a constant factor of what it, or the
// alternative after it, consumes.
type scanner func(text string, at int) int

// find returns the first match at or after a position; where there is none,
// both ends are the text's end.
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

// compilePattern translates a regular expression; field names it in errors.
func compilePattern(field, expr string) (finder, error) {
	if !utf8.ValidString(expr) {
		return nil, malformed(field, "a pattern that is not UTF-8")
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
			return nil, unsupported(field, "the pattern %q without %q behind it", alternative, named.requires)
		}
		p.alternatives = append(p.alternatives, scan)
	}
	return p, nil
}

// spellEscapes writes control characters in one way: files have them both as
// themselves and as escapes.
var spellEscapes = strings.NewReplacer("\r", `\r`, "\n", `\n`, "\t", `\t`)

// splitBars cuts an expression at the bars outside of parentheses and brackets.
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

// item is a character set with its quantifier.
type item struct {
	set        *charSet
	min, max   int
	possessive bool // never gives a character back
}

// compileSequence translates an alternative that is a sequence of quantified
// character sets.
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
		return nil, unsupported(field, "an empty alternative")
	}
	if needsBacktracking(items) {
		return nil, unsupported(field, "the pattern %q needs backtracking", shorten(expr))
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

func (it item) optional() bool { return it.min == 0 && it.max == 1 }

// needsBacktracking reports whether greedy matching may miss a match, or may
// fail only after a look at much text: where a part of variable length stands
// before one that must match. An optional character is no such part. If it is
// the first and not possessive it is tried both ways.
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

// unlimited is the upper bound of + and *.
const unlimited = math.MaxInt

// shorten keeps an expression in an error message readable.
func shorten(expr string) string {
	const keep = 60
	if len(expr) > keep {
		return strings.ToValidUTF8(expr[:keep], "") + "…"
	}
	return expr
}
