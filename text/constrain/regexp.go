package constrain

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Regexp compiles a regular expression, which the whole answer matches. Its syntax is that of JavaScript, without what
// looks around: assertions inside of the expression, references to groups.
func (k Compiler) Regexp(text string) (*Grammar, error) {
	if err := checkSource("the regular expression", text); err != nil {
		return nil, err
	}
	m := newMachine(k.meter())
	p := &regexpParser{text: text, spelling: &spelling{m: m}}
	root, err := p.parse(false)
	if err != nil {
		return nil, fmt.Errorf("%w: regular expression: %w", ErrLanguage, err)
	}
	return newGrammar(m, root, func(int) string { return "the expression" })
}

// Regexp is that of a [Compiler] without options.
func Regexp(text string) (*Grammar, error) { return Compiler{}.Regexp(text) }

// regexpParser compiles a regular expression.
type regexpParser struct {
	text string
	at   int
	*spelling
	depth int
}

// parse compiles the expression. With search it matches anywhere in a text, unless it is anchored.
func (p *regexpParser) parse(search bool) (expr, error) {
	if !utf8.ValidString(p.text) {
		return nothing, p.wrong("it is not valid UTF-8")
	}
	rest := empty
	if search {
		rest = p.m.repeat(p.anyRune(), 0, unlimited)
	}
	var ways []expr
	for {
		before, after := rest, rest
		if p.take("^") {
			before = empty
		}
		e, err := p.concatenation()
		if err != nil {
			return nothing, err
		}
		if p.take("$") {
			after = empty
		}
		ways = append(ways, p.m.sequence(before, e, after))
		switch {
		case p.at == len(p.text):
			return p.m.choice(ways...), p.m.err
		case !p.take("|"):
			return nothing, p.wrong("")
		}
	}
}

// wrong returns an error about what is at the position.
func (p *regexpParser) wrong(reason string) error {
	if reason == "" {
		rest := p.text[p.at:]
		if len(rest) > 12 {
			rest = strings.ToValidUTF8(rest[:12], "") + "…"
		}
		reason = strconv.Quote(rest) + " is not supported there"
	}
	return fmt.Errorf("at byte %d: %s", p.at, reason)
}

func (p *regexpParser) take(text string) bool {
	if !strings.HasPrefix(p.text[p.at:], text) {
		return false
	}
	p.at += len(text)
	return true
}

// alternatives parses what is inside of a group.
func (p *regexpParser) alternatives() (expr, error) {
	var ways []expr
	for {
		e, err := p.concatenation()
		if err != nil {
			return nothing, err
		}
		if ways = append(ways, e); !p.take("|") {
			return p.m.choice(ways...), nil
		}
	}
}

// concatenation parses items up to the end of an alternative.
func (p *regexpParser) concatenation() (expr, error) {
	var items []expr
	for p.at < len(p.text) {
		switch p.text[p.at] {
		case '|', ')', '$':
			return p.m.sequence(items...), nil
		}
		if text := p.plain(); text != "" {
			items = append(items, p.spelling.text(text))
			continue
		}
		e, err := p.atom()
		if err != nil {
			return nothing, err
		}
		if e, err = p.quantified(e); err != nil {
			return nothing, err
		}
		items = append(items, e)
	}
	return p.m.sequence(items...), nil
}

// plain returns the characters at the position that stand for themselves, without one that has a quantifier.
func (p *regexpParser) plain() string {
	rest := p.text[p.at:]
	end := strings.IndexAny(rest, `\^$.|?*+()[]{}`)
	if end < 0 {
		end = len(rest)
	} else if end > 0 && strings.IndexByte("?*+{", rest[end]) >= 0 {
		_, width := utf8.DecodeLastRuneInString(rest[:end])
		end -= width
	}
	p.at += end
	return rest[:end]
}

// quantified parses the quantifier of an item. That one prefers few repetitions changes nothing about what matches.
func (p *regexpParser) quantified(e expr) (expr, error) {
	low, high := 1, 1
	switch {
	case p.take("*"):
		low, high = 0, unlimited
	case p.take("+"):
		high = unlimited
	case p.take("?"):
		low = 0
	case strings.HasPrefix(p.text[p.at:], "{"):
		inside, _, ok := strings.Cut(p.text[p.at+1:], "}")
		if low, high, ok = bounds(inside, ok); !ok {
			return nothing, p.wrong("")
		}
		p.at += len(inside) + 2
	default:
		return e, nil
	}
	p.take("?")
	if p.at < len(p.text) && strings.IndexByte("*+?{", p.text[p.at]) >= 0 {
		return nothing, p.wrong("")
	}
	return p.m.repeat(e, low, high), p.m.err
}

// bounds parses what is in the braces of a quantifier.
func bounds(inside string, ok bool) (low, high int, valid bool) {
	first, second, two := strings.Cut(inside, ",")
	low, err := strconv.Atoi(first)
	if high = low; two && second == "" {
		high = unlimited
	} else if two && err == nil {
		high, err = strconv.Atoi(second)
	}
	valid = ok && err == nil && low >= 0 && low <= maxBound && high <= maxBound && (high == unlimited || high >= low) && strings.Trim(inside, "0123456789,") == "" // no signs
	return low, high, valid
}

// atom parses a character, a class or a group.
func (p *regexpParser) atom() (expr, error) {
	r, width := utf8.DecodeRuneInString(p.text[p.at:])
	switch r {
	case '(':
		return p.group()
	case '[':
		set, err := p.brackets()
		return p.set(set), err
	case '\\':
		set, err := p.escape(false)
		return p.set(set), err
	case '.':
		p.at++
		return p.set(lineEnds.negate()), nil
	case '^', '*', '+', '?', '{', '}', ']':
		return nothing, p.wrong("")
	}
	p.at += width
	return p.one(r), nil
}

// one returns an expression for one character.
func (p *regexpParser) one(r rune) expr { return p.set(single(r)) }

// group parses a group.
func (p *regexpParser) group() (expr, error) {
	if p.depth++; p.depth > maxNesting {
		return nothing, p.wrong(fmt.Sprintf("groups nest deeper than %d", maxNesting))
	}
	defer func() { p.depth-- }()
	start := p.at
	p.at++
	if p.take("?<") {
		name, _, ok := strings.Cut(p.text[p.at:], ">")
		if !ok || name == "" || strings.ContainsAny(name[:1], "=!") {
			p.at = start
			return nothing, p.wrong("")
		}
		p.at += len(name) + 1
	} else if strings.HasPrefix(p.text[p.at:], "?") && !p.take("?:") {
		p.at = start
		return nothing, p.wrong("")
	}
	e, err := p.alternatives()
	if err != nil {
		return nothing, err
	}
	if !p.take(")") {
		return nothing, p.wrong("a closing parenthesis is missing")
	}
	return e, nil
}

// The classes of characters, as JavaScript has them.
var (
	lineEnds  = newRuneSet(runeRange{'\n', '\n'}, runeRange{'\r', '\r'}, runeRange{0x2028, 0x2029})
	digits    = runeSet{{'0', '9'}}
	wordRunes = newRuneSet(runeRange{'0', '9'}, runeRange{'A', 'Z'}, runeRange{'_', '_'}, runeRange{'a', 'z'})
	spaces    = newRuneSet(append([]runeRange{{'\t', '\r'}, {0xFEFF, 0xFEFF}, {0x2028, 0x2029}}, tableSet(unicode.Zs)...)...)
)

// brackets parses [...].
func (p *regexpParser) brackets() (runeSet, error) {
	p.at++
	negated := p.take("^")
	var ranges []runeRange
	for !p.take("]") {
		set, err := p.member()
		if err != nil {
			return nil, err
		}
		if rest := p.text[p.at:]; len(rest) > 1 && rest[0] == '-' && rest[1] != ']' {
			p.at++
			end, err := p.member()
			if err != nil {
				return nil, err
			}
			if !isSingle(set) || !isSingle(end) || end[0].low < set[0].low {
				return nil, p.wrong("the range before it is not one of two characters in order")
			}
			set = runeSet{{set[0].low, end[0].low}}
		}
		ranges = append(ranges, set...)
	}
	set := newRuneSet(ranges...)
	if negated {
		return set.negate(), nil
	}
	return set.without(runeSet{{0xD800, 0xDFFF}}), nil
}

func isSingle(s runeSet) bool { return len(s) == 1 && s[0].low == s[0].high }

// member parses a character or a class inside of brackets.
func (p *regexpParser) member() (runeSet, error) {
	if p.at >= len(p.text) {
		return nil, p.wrong("a closing bracket is missing")
	}
	if p.text[p.at] == '\\' {
		return p.escape(true)
	}
	r, width := utf8.DecodeRuneInString(p.text[p.at:])
	p.at += width
	return single(r), nil
}

// escape parses an escape.
func (p *regexpParser) escape(inside bool) (runeSet, error) {
	start := p.at
	fail := func() (runeSet, error) {
		p.at = start
		return nil, p.wrong("")
	}
	if p.at++; p.at >= len(p.text) {
		return fail()
	}
	r, width := utf8.DecodeRuneInString(p.text[p.at:])
	p.at += width
	switch r {
	case 'd':
		return digits, nil
	case 'D':
		return digits.negate(), nil
	case 'w':
		return wordRunes, nil
	case 'W':
		return wordRunes.negate(), nil
	case 's':
		return spaces, nil
	case 'S':
		return spaces.negate(), nil
	case 'n':
		return single('\n'), nil
	case 'r':
		return single('\r'), nil
	case 't':
		return single('\t'), nil
	case 'f':
		return single('\f'), nil
	case 'v':
		return single('\v'), nil
	case 'x':
		return p.code(2, fail)
	case 'u':
		if p.take("{") {
			digits, _, _ := strings.Cut(p.text[p.at:], "}")
			set, err := p.code(len(digits), fail)
			if err == nil && !p.take("}") {
				return fail()
			}
			return set, err
		}
		return p.code(4, fail)
	case 'c':
		if p.at < len(p.text) && (p.text[p.at]|0x20 >= 'a' && p.text[p.at]|0x20 <= 'z') {
			p.at++
			return single(rune(p.text[p.at-1] & 0x1F)), nil
		}
		return fail()
	case 'p', 'P':
		return p.property(r == 'P', fail)
	case '0':
		if p.at < len(p.text) && p.text[p.at] >= '0' && p.text[p.at] <= '9' {
			return fail()
		}
		return single(0), nil
	case 'b':
		if inside {
			return single('\b'), nil
		}
		return fail()
	}
	if r >= utf8.RuneSelf || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
		return fail()
	}
	return single(r), nil
}

// code parses the hexadecimal number of a character.
func (p *regexpParser) code(n int, fail func() (runeSet, error)) (runeSet, error) {
	if n == 0 || n > 6 || p.at+n > len(p.text) {
		return fail()
	}
	x, err := strconv.ParseUint(p.text[p.at:p.at+n], 16, 32)
	if err != nil || !utf8.ValidRune(rune(x)) {
		return fail()
	}
	p.at += n
	return single(rune(x)), nil
}

// property parses what follows \p: a category or a script of Unicode.
func (p *regexpParser) property(negated bool, fail func() (runeSet, error)) (runeSet, error) {
	if !p.take("{") {
		return fail()
	}
	name, _, ok := strings.Cut(p.text[p.at:], "}")
	if !ok {
		return fail()
	}
	kind, value, two := strings.Cut(name, "=")
	var table *unicode.RangeTable
	switch {
	case !two, kind == "gc", kind == "General_Category":
		table = unicode.Categories[value]
		if !two {
			table = unicode.Categories[name]
		}
	case kind == "sc", kind == "Script":
		table = unicode.Scripts[value]
	}
	if long := map[string]*unicode.RangeTable{"Letter": unicode.L, "Number": unicode.N, "Punctuation": unicode.P, "Symbol": unicode.S, "Uppercase_Letter": unicode.Lu, "Lowercase_Letter": unicode.Ll, "Decimal_Number": unicode.Nd}; table == nil && !two {
		table = long[name]
	}
	if table == nil {
		return fail()
	}
	p.at += len(name) + 1
	set := tableSet(table)
	if negated {
		set = set.negate()
	}
	return set, nil
}
