package jinja

import (
	"slices"
	"strconv"
	"strings"
)

// The functions in this file follow the precedence of Jinja's operators from lowest to
// highest: conditional, or, and, not, comparison, + and -, ~, * / // %, **, sign.

// parseExpr parses an expression without top-level commas.
func (p *parser) parseExpr() (expr, error) {
	if err := p.enterNesting(); err != nil {
		return nil, err
	}
	defer p.leaveNesting()
	return p.parseConditional()
}

// parseTuple parses an expression, or several expressions separated by commas without
// parentheses. stop names the keywords that end the tuple.
func (p *parser) parseTuple(conditional bool, stop ...string) (expr, error) {
	line := p.here()
	var items []expr
	isTuple := false
	for !p.atTupleEnd(stop) {
		parse := p.parseExpr
		if !conditional {
			parse = p.parseOr
		}
		x, err := parse()
		if err != nil {
			return nil, err
		}
		items = append(items, x)
		if !p.skipOperator(",") {
			break
		}
		isTuple = true
	}
	switch {
	case isTuple:
		return &tupleExpr{line, items}, nil
	case len(items) == 0:
		return nil, p.fail("expected an expression, got %s", p.peek())
	}
	return items[0], nil
}

// atTupleEnd reports whether a tuple without parentheses ends here, for example after a
// trailing comma.
func (p *parser) atTupleEnd(stop []string) bool {
	t := p.peek()
	switch t.kind {
	case tokOutEnd, tokTagEnd:
		return true
	case tokName:
		return slices.Contains(stop, t.text)
	}
	return p.isOperator(")")
}

// parseConditional parses "a if test else b". It discards errors about unknown filters
// in a and b, because the template may never evaluate them.
func (p *parser) parseConditional() (expr, error) {
	line, unknown := p.here(), p.unknown
	x, err := p.parseOr()
	if err != nil {
		return nil, err
	}
	for chain := 0; p.skipName("if"); {
		if err := p.countChain(&chain); err != nil {
			return nil, err
		}
		test, err := p.parseOr()
		if err != nil {
			return nil, err
		}
		var otherwise expr
		if p.skipName("else") {
			if otherwise, err = p.parseExpr(); err != nil {
				return nil, err
			}
		}
		p.unknown = unknown
		x = &conditionalExpr{line, test, x, otherwise}
	}
	return x, nil
}

func (p *parser) parseOr() (expr, error)  { return p.parseLogical("or", p.parseAnd) }
func (p *parser) parseAnd() (expr, error) { return p.parseLogical("and", p.parseNot) }

// parseLogical parses a chain of and operators or a chain of or operators.
func (p *parser) parseLogical(word string, operand func() (expr, error)) (expr, error) {
	line := p.here()
	x, err := operand()
	for chain := 0; err == nil && p.skipName(word); {
		if err := p.countChain(&chain); err != nil {
			return nil, err
		}
		var y expr
		y, err = operand()
		x = &logicalExpr{line, word == "and", x, y}
	}
	return x, err
}

// parseNot parses not, which has a lower precedence than comparisons: not a == b
// negates a == b.
func (p *parser) parseNot() (expr, error) {
	line := p.here()
	if !p.skipName("not") {
		return p.parseCompare()
	}
	if err := p.enterNesting(); err != nil {
		return nil, err
	}
	defer p.leaveNesting()
	x, err := p.parseNot()
	return &notExpr{line, x}, err
}

// comparisonOperator consumes a comparison operator. It returns "" if the next token is
// none.
func (p *parser) comparisonOperator() string {
	t := p.peek()
	switch {
	case t.kind == tokOperator && slices.Contains([]string{"==", "!=", "<", "<=", ">", ">="}, t.text):
		return p.next().text
	case p.skipName("in"):
		return "in"
	case t.isName("not") && p.peekAfter().isName("in"):
		p.pos += 2
		return "not in"
	}
	return ""
}

// parseCompare parses a chain of comparisons.
func (p *parser) parseCompare() (expr, error) {
	line := p.here()
	first, err := p.parseSum()
	if err != nil {
		return nil, err
	}
	var rest []comparison
	for op := p.comparisonOperator(); op != ""; op = p.comparisonOperator() {
		x, err := p.parseSum()
		if err != nil {
			return nil, err
		}
		rest = append(rest, comparison{op, x})
	}
	if rest == nil {
		return first, nil
	}
	return &compareExpr{line, first, rest}, nil
}

// parseBinary parses a left-associative chain of the operators ops.
func (p *parser) parseBinary(operand func() (expr, error), ops ...string) (expr, error) {
	line := p.here()
	x, err := operand()
	for chain := 0; err == nil; {
		t := p.peek()
		if t.kind != tokOperator || !slices.Contains(ops, t.text) {
			return x, nil
		}
		if err := p.countChain(&chain); err != nil {
			return nil, err
		}
		p.next()
		var y expr
		y, err = operand()
		x = &binaryExpr{line, t.text, x, y}
	}
	return nil, err
}

func (p *parser) parseSum() (expr, error) { return p.parseBinary(p.parseConcat, "+", "-") }

// parseConcat parses a chain of ~ operators.
func (p *parser) parseConcat() (expr, error) {
	line := p.here()
	x, err := p.parseProduct()
	if err != nil || !p.isOperator("~") {
		return x, err
	}
	parts := []expr{x}
	for p.skipOperator("~") {
		if x, err = p.parseProduct(); err != nil {
			return nil, err
		}
		parts = append(parts, x)
	}
	return &concatExpr{line, parts}, nil
}

func (p *parser) parseProduct() (expr, error) {
	return p.parseBinary(p.parsePower, "*", "/", "//", "%")
}

// parsePower parses **, which is left-associative in Jinja but not in Python.
func (p *parser) parsePower() (expr, error) {
	return p.parseBinary(func() (expr, error) { return p.parseUnary(true) }, "**")
}

// parseUnary parses an operand with an optional sign. Filters and tests apply to the
// signed value: -1|abs is 1.
func (p *parser) parseUnary(filters bool) (expr, error) {
	var x expr
	var err error
	if t := p.peek(); p.isOperator("-") || p.isOperator("+") {
		if err := p.enterNesting(); err != nil {
			return nil, err
		}
		p.next()
		x, err = p.parseUnary(false)
		p.leaveNesting()
		x = &unaryExpr{at(t.line), t.text, x}
	} else {
		x, err = p.parsePrimary()
	}
	if err != nil {
		return nil, err
	}
	chain := 0
	if x, err = p.parsePostfix(x, &chain); err != nil || !filters {
		return x, err
	}
	return p.parseFilters(x, &chain)
}

// parsePrimary parses a name, a literal or an expression in brackets.
func (p *parser) parsePrimary() (expr, error) {
	t := p.peek()
	line := at(t.line)
	switch t.kind {
	case tokName:
		p.next()
		return p.nameOrConstant(t), nil
	case tokString:
		var text strings.Builder
		for p.peek().kind == tokString { // Python concatenates adjacent strings
			text.WriteString(p.next().text)
		}
		return &constant{line, text.String()}, nil
	case tokInteger:
		p.next()
		value, err := parseInteger(t.text)
		return &constant{line, value}, locate(err, t.line)
	case tokFloat:
		p.next()
		value, _ := strconv.ParseFloat(t.text, 64) // as in Python a huge literal is inf
		return &constant{line, value}, nil
	}
	switch {
	case p.skipOperator("("):
		return p.parseParenthesized(line)
	case p.skipOperator("["):
		items, err := p.parseItems("]")
		return &listExpr{line, items}, err
	case p.skipOperator("{"):
		return p.parseDict(line)
	}
	return nil, p.fail("unexpected %s", t)
}

// nameOrConstant accepts the constants in the spellings of Jinja and of Python.
func (p *parser) nameOrConstant(t token) expr {
	line := at(t.line)
	switch t.text {
	case "true", "True":
		return &constant{line, true}
	case "false", "False":
		return &constant{line, false}
	case "none", "None":
		return &constant{line, nil}
	}
	p.noteImplicitName(t.text)
	return &nameExpr{line, t.text}
}

// parseParenthesized parses a tuple or an expression in parentheses.
func (p *parser) parseParenthesized(line at) (expr, error) {
	if p.skipOperator(")") {
		return &tupleExpr{at: line}, nil
	}
	x, err := p.parseTuple(true)
	if err != nil {
		return nil, err
	}
	return x, p.expectOperator(")")
}

// parseItems parses expressions separated by commas up to the bracket end.
func (p *parser) parseItems(end string) ([]expr, error) {
	var items []expr
	for !p.skipOperator(end) {
		if len(items) > 0 {
			if err := p.expectOperator(","); err != nil {
				return nil, err
			}
			if p.skipOperator(end) {
				break
			}
		}
		x, err := p.parseExpr()
		if err != nil {
			return nil, err
		}
		items = append(items, x)
	}
	return items, nil
}

// parseDict parses the pairs after the opening brace.
func (p *parser) parseDict(line at) (expr, error) {
	d := &dictExpr{at: line}
	for !p.skipOperator("}") {
		if len(d.keys) > 0 {
			if err := p.expectOperator(","); err != nil {
				return nil, err
			}
			if p.skipOperator("}") {
				break
			}
		}
		key, err := p.parseExpr()
		if err != nil {
			return nil, err
		}
		if err := p.expectOperator(":"); err != nil {
			return nil, err
		}
		value, err := p.parseExpr()
		if err != nil {
			return nil, err
		}
		d.keys, d.values = append(d.keys, key), append(d.values, value)
	}
	return d, nil
}
