package jinja

import "fmt"

// parse parses a source into statements.
func parse(source string) ([]stmt, error) {
	tokens, err := lex(source)
	if err != nil {
		return nil, err
	}
	p := &parser{tokens: tokens}
	body, _, err := p.parseBody()
	if err == nil {
		err = p.unknown
	}
	return body, err
}

// parser builds the syntax tree by recursive descent. It implements Jinja's grammar and
// operator precedence.
type parser struct {
	tokens []token
	pos    int
	// nesting is the number of open blocks and brackets. loops is the number of
	// enclosing for bodies, of which break and continue need at least one.
	nesting int
	loops   int
	// unknown is the error about the first unknown filter or test that rendering
	// certainly reaches. parse returns it. The parser discards it at the end of a
	// branch that may never run; rendering then reports it if it reaches the filter or
	// test.
	unknown error
	// macros holds the definitions that enclose the current token, innermost last.
	macros []*macroDef
	blocks []string // names of the {% block %} tags so far
}

// peek returns the next token without consuming it.
func (p *parser) peek() token { return p.tokens[p.pos] }

// peekAfter returns the token after the next one.
func (p *parser) peekAfter() token { return p.tokens[min(p.pos+1, len(p.tokens)-1)] }

// next consumes and returns a token. It does not consume tokEOF.
func (p *parser) next() token {
	t := p.tokens[p.pos]
	if t.kind != tokEOF {
		p.pos++
	}
	return t
}

// here returns the line of the next token.
func (p *parser) here() at { return at(p.peek().line) }

func (p *parser) isOperator(op string) bool {
	t := p.peek()
	return t.kind == tokOperator && t.text == op
}

func (p *parser) isName(name string) bool { return p.peek().isName(name) }

func (t token) isName(name string) bool { return t.kind == tokName && t.text == name }

// skipOperator consumes op if it is the next token.
func (p *parser) skipOperator(op string) bool {
	if p.isOperator(op) {
		p.pos++
		return true
	}
	return false
}

// skipName consumes a keyword if it is the next token.
func (p *parser) skipName(name string) bool {
	if p.isName(name) {
		p.pos++
		return true
	}
	return false
}

// expectOperator consumes op or returns an error.
func (p *parser) expectOperator(op string) error {
	if !p.skipOperator(op) {
		return p.fail("expected '%s', got %s", op, p.peek())
	}
	return nil
}

// expectName consumes an identifier or returns an error.
func (p *parser) expectName() (string, error) {
	if p.peek().kind != tokName {
		return "", p.fail("expected a name, got %s", p.peek())
	}
	return p.next().text, nil
}

// expectKind consumes a token of a kind or returns an error.
func (p *parser) expectKind(kind tokenKind) error {
	if p.peek().kind != kind {
		return p.fail("expected %s, got %s", token{kind: kind}, p.peek())
	}
	p.next()
	return nil
}

// fail returns a syntax error at the next token.
func (p *parser) fail(format string, args ...any) error {
	return &Error{Kind: ErrSyntax, Line: p.peek().line, Reason: fmt.Sprintf(format, args...)}
}

// unsupported returns an error that names a construct outside the supported subset and
// gives advice.
func (p *parser) unsupported(line int, construct, advice string) error {
	return &Error{Kind: ErrUnsupported, Line: line, Construct: construct, Reason: advice}
}

// noteUnknown records the first unknown filter or test.
func (p *parser) noteUnknown(err error, line at) {
	if p.unknown == nil {
		p.unknown = locate(err, int(line))
	}
}

// enterNesting starts a nested construct, and leaveNesting ends it. The limit turns
// deep nesting into an error before the stack grows large.
func (p *parser) enterNesting() error {
	p.nesting++
	if p.nesting > maxNesting {
		return locate(limitErrorf("blocks or brackets nest deeper than %d", maxNesting), p.peek().line)
	}
	return nil
}

func (p *parser) leaveNesting() { p.nesting-- }

// countChain counts the operators of one chain.
func (p *parser) countChain(count *int) error {
	*count++
	if *count > maxChain {
		return locate(limitErrorf("a chain has more than %d operators", maxChain), p.peek().line)
	}
	return nil
}

// String describes a token for error messages.
func (t token) String() string {
	switch t.kind {
	case tokEOF:
		return "end of template"
	case tokText:
		return "text"
	case tokOutput:
		return "'{{'"
	case tokOutEnd:
		return "'}}'"
	case tokTag:
		return "'{%'"
	case tokTagEnd:
		return "'%}'"
	case tokString:
		return "a string"
	default:
		return "'" + t.text + "'"
	}
}
