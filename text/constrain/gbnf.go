package constrain

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// GBNF compiles a grammar in the notation of llama.cpp: rules of the form name ::= alternatives, of which root is
// the language.
func (k Compiler) GBNF(text string) (*Grammar, error) {
	if err := checkSource("the grammar", text); err != nil {
		return nil, err
	}
	m := newMachine(k.meter())
	p := &gbnfParser{text: text, spelling: &spelling{m: m}, rules: map[string]*gbnfRule{}}
	root, err := p.parse()
	if err != nil {
		return nil, err
	}
	return newGrammar(m, root, func(rule int) string { return "rule " + p.names[rule] })
}

// GBNF is that of a [Compiler] without options.
func GBNF(text string) (*Grammar, error) { return Compiler{}.GBNF(text) }

// gbnfRule is a rule that is named, and perhaps not yet defined.
type gbnfRule struct {
	e       expr
	index   int
	defined bool
	at      int // where it is first named
}

// gbnfParser compiles a grammar.
type gbnfParser struct {
	text string
	at   int
	*spelling
	rules map[string]*gbnfRule
	names []string // by index
	depth int
}

// parse compiles the rules.
func (p *gbnfParser) parse() (expr, error) {
	if !utf8.ValidString(p.text) {
		return nothing, fmt.Errorf("%w: the grammar is not valid UTF-8", ErrLanguage)
	}
	for p.space(true); p.at < len(p.text); p.space(true) {
		if err := p.define(); err != nil {
			return nothing, err
		}
		if p.m.err != nil {
			return nothing, p.m.err
		}
	}
	for _, name := range p.names {
		if r := p.rules[name]; !r.defined {
			p.at = r.at
			return nothing, p.wrong("rule %q is not defined", name)
		}
	}
	root, ok := p.rules["root"]
	if !ok {
		return nothing, p.wrong(`a rule "root" is missing`)
	}
	return root.e, nil
}

// wrong returns an error at the position.
func (p *gbnfParser) wrong(format string, args ...any) error {
	line := 1 + strings.Count(p.text[:p.at], "\n")
	return fmt.Errorf("%w: grammar, line %d, byte %d: %s", ErrLanguage, line, p.at, fmt.Sprintf(format, args...))
}

// space skips white space and comments, and with lines also the ends of lines.
func (p *gbnfParser) space(lines bool) {
	for p.at < len(p.text) {
		switch c := p.text[p.at]; {
		case c == '#':
			for p.at < len(p.text) && p.text[p.at] != '\n' {
				p.at++
			}
		case c == ' ', c == '\t', lines && (c == '\n' || c == '\r'):
			p.at++
		default:
			return
		}
	}
}

// name parses the name of a rule.
func (p *gbnfParser) name() (string, error) {
	start := p.at
	for p.at < len(p.text) && isName(p.text[p.at]) {
		p.at++
	}
	if p.at == start {
		return "", p.wrong("expected a name, found %s", p.found())
	}
	return p.text[start:p.at], nil
}

func isName(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
}

// found quotes what is at the position.
func (p *gbnfParser) found() string {
	if p.at == len(p.text) {
		return "the end"
	}
	rest := p.text[p.at:]
	return strconv.Quote(strings.ToValidUTF8(rest[:min(len(rest), 12)], ""))
}

// rule returns the rule with a name.
func (p *gbnfParser) rule(name string) *gbnfRule {
	r, ok := p.rules[name]
	if !ok {
		r = &gbnfRule{at: p.at - len(name)}
		r.e, r.index = p.m.rule()
		p.rules[name], p.names = r, append(p.names, name)
	}
	return r
}

// define parses the definition of a rule.
func (p *gbnfParser) define() error {
	name, err := p.name()
	if err != nil {
		return err
	}
	r := p.rule(name)
	if r.defined {
		return p.wrong("rule %q is defined twice", name)
	}
	p.space(false)
	if !strings.HasPrefix(p.text[p.at:], "::=") {
		return p.wrong("expected ::=, found %s", p.found())
	}
	p.at += len("::=")
	p.space(true)
	e, err := p.alternatives(false)
	if err != nil {
		return err
	}
	p.m.rules[r.index], r.defined = e, true
	if p.at < len(p.text) && p.text[p.at] != '\n' && p.text[p.at] != '\r' {
		return p.wrong("expected the end of the line, found %s", p.found())
	}
	return nil
}

// alternatives parses alternatives. Inside of parentheses they may continue on further lines.
func (p *gbnfParser) alternatives(inside bool) (expr, error) {
	var ways []expr
	for {
		e, err := p.sequence(inside)
		if err != nil {
			return nothing, err
		}
		ways = append(ways, e)
		if p.at == len(p.text) || p.text[p.at] != '|' {
			return p.m.choice(ways...), nil
		}
		p.at++
		p.space(true)
	}
}

// sequence parses items up to the end of an alternative.
func (p *gbnfParser) sequence(inside bool) (expr, error) {
	var items []expr
	for p.at < len(p.text) {
		e, more, err := p.item()
		if err != nil {
			return nothing, err
		}
		if !more {
			break
		}
		for { // a quantified item may be quantified again
			p.space(inside)
			before := p.at
			if e, err = p.quantified(e); err != nil {
				return nothing, err
			}
			if p.at == before {
				break
			}
		}
		items = append(items, e)
	}
	return p.m.sequence(items...), nil
}

// item parses a literal, a class, a group or the name of a rule. more is false at the end of an alternative.
func (p *gbnfParser) item() (e expr, more bool, err error) {
	switch c := p.text[p.at]; {
	case c == '"':
		e, err = p.literal()
	case c == '[':
		e, err = p.brackets()
	case c == '.':
		p.at++
		e = p.anyRune()
	case c == '(':
		e, err = p.group()
	case isName(c):
		var name string
		name, err = p.name()
		e = p.rule(name).e
	case c == '|' || c == ')' || c == '\n' || c == '\r':
		return nothing, false, nil
	case c == '<' || c == '!':
		err = p.wrong("%s is not supported: tokens have no text of their own here; what the model thinks before its answer is free without a rule", p.found())
	case strings.IndexByte("*+?{", c) >= 0:
		err = p.wrong("the quantifier %s has nothing before it", p.found())
	default:
		err = p.wrong("%s is not supported", p.found())
	}
	return e, true, err
}

// group parses (...).
func (p *gbnfParser) group() (expr, error) {
	if p.depth++; p.depth > maxNesting {
		return nothing, p.wrong("groups nest deeper than %d", maxNesting)
	}
	defer func() { p.depth-- }()
	p.at++
	p.space(true)
	e, err := p.alternatives(true)
	if err != nil {
		return nothing, err
	}
	if p.at == len(p.text) || p.text[p.at] != ')' {
		return nothing, p.wrong("expected ), found %s", p.found())
	}
	p.at++
	return e, nil
}

// quantified parses the quantifier of an item.
func (p *gbnfParser) quantified(e expr) (expr, error) {
	if p.at == len(p.text) {
		return e, nil
	}
	low, high := 0, unlimited
	switch p.text[p.at] {
	case '*':
	case '+':
		low = 1
	case '?':
		high = 1
	case '{':
		inside, _, ok := strings.Cut(p.text[p.at+1:], "}")
		length := len(inside)
		if low, high, ok = bounds(strings.ReplaceAll(inside, " ", ""), ok); !ok {
			return nothing, p.wrong("the quantifier %s is not valid", p.found())
		}
		p.at += length + 1
	default:
		return e, nil
	}
	p.at++
	return p.m.repeat(e, low, high), p.m.err
}

// literal parses "...".
func (p *gbnfParser) literal() (expr, error) {
	p.at++
	var text []byte
	for p.at < len(p.text) && p.text[p.at] != '"' {
		r, err := p.character()
		if err != nil {
			return nothing, err
		}
		text = utf8.AppendRune(text, r)
	}
	if p.at == len(p.text) {
		return nothing, p.wrong("a closing quotation mark is missing")
	}
	p.at++
	return p.m.literal(string(text)), nil
}

// brackets parses [...].
func (p *gbnfParser) brackets() (expr, error) {
	p.at++
	negated := strings.HasPrefix(p.text[p.at:], "^")
	if negated {
		p.at++
	}
	var ranges []runeRange
	for p.at < len(p.text) && p.text[p.at] != ']' {
		low, err := p.character()
		if err != nil {
			return nothing, err
		}
		high := low
		if rest := p.text[p.at:]; len(rest) > 1 && rest[0] == '-' && rest[1] != ']' {
			p.at++
			if high, err = p.character(); err != nil {
				return nothing, err
			}
			if high < low {
				return nothing, p.wrong("the range before it is not in order")
			}
		}
		ranges = append(ranges, runeRange{low, high})
	}
	if p.at == len(p.text) {
		return nothing, p.wrong("a closing bracket is missing")
	}
	p.at++
	set := newRuneSet(ranges...)
	if negated {
		set = set.negate()
	}
	return p.set(set.without(runeSet{{0xD800, 0xDFFF}})), nil
}

// character parses a character or its escape.
func (p *gbnfParser) character() (rune, error) {
	r, width := utf8.DecodeRuneInString(p.text[p.at:])
	if r != '\\' {
		p.at += width
		return r, nil
	}
	rest := p.text[p.at+1:]
	if rest == "" {
		return 0, p.wrong("a lone backslash")
	}
	if digits, ok := map[byte]int{'x': 2, 'u': 4, 'U': 8}[rest[0]]; ok {
		if len(rest) > digits {
			x, err := strconv.ParseUint(rest[1:1+digits], 16, 32)
			if err == nil && x <= utf8.MaxRune && utf8.ValidRune(rune(x)) {
				p.at += 2 + digits
				return rune(x), nil
			}
		}
		return 0, p.wrong("the escape %s is not a character", p.found())
	}
	r, ok := map[byte]rune{'n': '\n', 'r': '\r', 't': '\t', '\\': '\\', '"': '"', '[': '[', ']': ']', '-': '-'}[rest[0]]
	if !ok {
		return 0, p.wrong("the escape %s is not supported", p.found())
	}
	p.at += 2
	return r, nil
}
