package token

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// exprParser parses one alternative of a regular expression.
type exprParser struct {
	field string
	expr  string
	at    int
}

// item parses a character set and its quantifier.
func (p *exprParser) item() (item, error) {
	set, err := p.set()
	if err != nil {
		return item{}, err
	}
	it := item{set: set, min: 1, max: 1}
	if p.at == len(p.expr) {
		return it, nil
	}
	switch p.expr[p.at] {
	case '+':
		it.max = unlimited
	case '*':
		it.min, it.max = 0, unlimited
	case '?':
		it.min = 0
	case '{':
		return p.bounds(it)
	default:
		return it, nil
	}
	p.at++
	return p.possessive(it)
}

// maxRepeat is the maximum repeat count. It bounds the text that an alternative reads
// without a match. The highest count in published tokenizers is 512.
const maxRepeat = 1000

// bounds parses {n}, {n,} or {n,m}.
func (p *exprParser) bounds(it item) (item, error) {
	inside, _, ok := strings.Cut(p.expr[p.at+1:], "}")
	low, high, two := strings.Cut(inside, ",")
	n, err := strconv.ParseUint(low, 10, 16)
	if !ok || err != nil || n > maxRepeat {
		return it, p.unsupported("the quantifier", p.expr[p.at:])
	}
	it.min, it.max = int(n), int(n)
	switch {
	case two && high == "":
		it.max = unlimited
	case two:
		m, err := strconv.ParseUint(high, 10, 16)
		if err != nil || m < n || m > maxRepeat {
			return it, p.unsupported("the quantifier", p.expr[p.at:])
		}
		it.max = int(m)
	}
	p.at += len(inside) + 2
	return p.possessive(it)
}

// possessive parses the + that may follow a quantifier.
func (p *exprParser) possessive(it item) (item, error) {
	if p.at < len(p.expr) && p.expr[p.at] == '+' {
		it.possessive = true
		p.at++
	}
	if p.at < len(p.expr) && strings.IndexByte("?*+{", p.expr[p.at]) >= 0 {
		return it, p.unsupported("the double quantifier", p.expr)
	}
	return it, nil
}

// unsupported returns an error that names the construct and the expression.
func (p *exprParser) unsupported(what, expr string) error {
	return unsupported(p.field, "%s in the regular expression %q", what, shorten(expr))
}

// set parses an expression that matches one character.
func (p *exprParser) set() (*charSet, error) {
	if p.expr[p.at] == '[' {
		return p.brackets()
	}
	if p.expr[p.at] == '\\' {
		classes, r, err := p.escape()
		if err != nil {
			return nil, err
		}
		return newCharSet(classes, single(r), false), nil
	}
	r, width := utf8.DecodeRuneInString(p.expr[p.at:])
	if strings.ContainsRune(`.^$()|?*+{}]`, r) {
		return nil, p.unsupported("the construct "+strconv.Quote(string(r)), p.expr)
	}
	p.at += width
	return newCharSet(0, single(r), false), nil
}

// single returns the range of one character, or nil for notRune.
func single(r rune) []runeRange {
	if r == notRune {
		return nil
	}
	return []runeRange{{r, r}}
}

// brackets parses [...].
func (p *exprParser) brackets() (*charSet, error) {
	negated := strings.HasPrefix(p.expr[p.at:], "[^")
	classes, ranges, err := p.members()
	if err != nil {
		return nil, err
	}
	return newCharSet(classes, ranges, negated), nil
}

// members parses a pair of brackets and its content. A nested set adds its members.
func (p *exprParser) members() (classes class, ranges []runeRange, err error) {
	p.at++
	if p.at < len(p.expr) && p.expr[p.at] == '^' {
		p.at++
	}
	for p.at < len(p.expr) && p.expr[p.at] != ']' {
		rest := p.expr[p.at:]
		if strings.HasPrefix(rest, "&&") || strings.HasPrefix(rest, "[^") || strings.HasPrefix(rest, "[:") {
			return 0, nil, p.unsupported("the set operation "+strconv.Quote(rest[:2]), p.expr)
		}
		var more class
		var spans []runeRange
		if rest[0] == '[' {
			more, spans, err = p.members()
		} else {
			more, spans, err = p.span()
		}
		if err != nil {
			return 0, nil, err
		}
		classes |= more
		ranges = append(ranges, spans...)
	}
	if p.at == len(p.expr) {
		return 0, nil, p.unsupported("an open bracket", p.expr)
	}
	p.at++
	return classes, ranges, nil
}

// span parses a class, a character or a range of characters.
func (p *exprParser) span() (class, []runeRange, error) {
	classes, low, err := p.member()
	if err != nil || low == notRune {
		return classes, nil, err
	}
	rest := p.expr[p.at:]
	if len(rest) < 2 || rest[0] != '-' || rest[1] == ']' {
		return 0, single(low), nil
	}
	p.at++
	more, high, err := p.member()
	if err == nil && (more != 0 || high < low) {
		err = p.unsupported("the range", p.expr)
	}
	return 0, []runeRange{{low, high}}, err
}

// member parses a class or one character inside brackets.
func (p *exprParser) member() (class, rune, error) {
	if p.expr[p.at] == '\\' {
		return p.escape()
	}
	r, width := utf8.DecodeRuneInString(p.expr[p.at:])
	p.at += width
	return 0, r, nil
}

// propertyClasses maps the supported \p{…} properties.
var propertyClasses = map[string]class{
	"L": classLetter, "Lu": classUpper, "Lt": classUpper, "Ll": classLower,
	"Lm": classUncased, "Lo": classUncased, "M": classMark,
	"N": classNumber, "Nd": classDecimal, "P": classPunct, "S": classSymbol,
}

// escape parses \p{L}, \s, \n and similar escapes. The result is a class or a
// character. The groups do not overlap, so the complement of a class is also a class.
func (p *exprParser) escape() (classes class, r rune, err error) {
	rest := p.expr[p.at+1:]
	if rest == "" {
		return 0, notRune, p.unsupported("a lone backslash", p.expr)
	}
	c := rest[0]
	p.at += 2
	switch c {
	case 's':
		return classAnySpace, notRune, nil
	case 'S':
		return classAll &^ classAnySpace, notRune, nil
	case 'd':
		return classDecimal, notRune, nil
	case 'D':
		return classAll &^ classDecimal, notRune, nil
	case 'n':
		return 0, '\n', nil
	case 'r':
		return 0, '\r', nil
	case 't':
		return 0, '\t', nil
	case 'p', 'P':
		classes, err := p.property(rest)
		if c == 'P' {
			classes = classAll &^ classes
		}
		return classes, notRune, err
	}
	if c >= utf8.RuneSelf || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' {
		return 0, notRune, p.unsupported(`the escape \`+string(rune(c)), p.expr)
	}
	return 0, rune(c), nil
}

// property parses the {L} of \p{L}.
func (p *exprParser) property(rest string) (class, error) {
	if inside, ok := strings.CutPrefix(rest[1:], "{"); ok {
		name, _, closed := strings.Cut(inside, "}")
		if classes, known := propertyClasses[name]; closed && known {
			p.at += len(name) + 2
			return classes, nil
		}
	}
	return 0, p.unsupported(`the property \`+shorten(rest), p.expr)
}
