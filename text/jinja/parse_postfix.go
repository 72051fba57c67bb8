package jinja

// parsePostfix parses the attributes, subscripts and calls after x.
func (p *parser) parsePostfix(x expr, chain *int) (expr, error) {
	for {
		line := p.here()
		var err error
		switch {
		case p.skipOperator("."):
			x, err = p.parseAttribute(line, x)
		case p.skipOperator("["):
			x, err = p.parseSubscript(line, x)
		case p.isOperator("("):
			x, err = p.parseCall(line, x)
		default:
			return x, nil
		}
		if err != nil {
			return nil, err
		}
		if err := p.countChain(chain); err != nil {
			return nil, err
		}
	}
}

// parseAttribute parses the name or the number after a dot, as in pair.0.
func (p *parser) parseAttribute(line at, x expr) (expr, error) {
	t := p.next()
	switch t.kind {
	case tokName:
		return &attributeExpr{line, x, t.text}, nil
	case tokInteger:
		index, err := parseInteger(t.text)
		return &subscriptExpr{line, x, &constant{line, index}}, locate(err, t.line)
	}
	return nil, p.fail("expected a name or number after '.'")
}

// parseSubscript parses an index or a slice after its opening bracket.
func (p *parser) parseSubscript(line at, x expr) (expr, error) {
	var bounds [3]expr
	part, isSlice := 0, false
	for !p.isOperator("]") {
		if p.isOperator(",") && !isSlice && bounds[0] != nil {
			return p.parseTupleIndex(line, x, bounds[0])
		}
		if p.skipOperator(":") {
			isSlice = true
			if part++; part > 2 {
				return nil, p.fail("a slice has at most three parts")
			}
			continue
		}
		if bounds[part] != nil {
			return nil, p.fail("expected ']', got %s", p.peek())
		}
		bound, err := p.parseExpr()
		if err != nil {
			return nil, err
		}
		bounds[part] = bound
	}
	p.next()
	switch {
	case isSlice:
		return &sliceExpr{line, x, bounds[0], bounds[1], bounds[2]}, nil
	case bounds[0] == nil:
		return nil, p.fail("an index is missing between '[' and ']'")
	}
	return &subscriptExpr{line, x, bounds[0]}, nil
}

// parseTupleIndex parses the rest of x[first, …], whose index is a tuple.
func (p *parser) parseTupleIndex(line at, x, first expr) (expr, error) {
	p.next()
	items, err := p.parseItems("]")
	return &subscriptExpr{line, x, &tupleExpr{line, append([]expr{first}, items...)}}, err
}

// parseCall parses the arguments of a call of x.
func (p *parser) parseCall(line at, x expr) (expr, error) {
	args, err := p.parseArguments()
	return &callExpr{line, x, args}, err
}

// parseArguments parses an argument list in Python's order: positional, keyword, *args,
// **kwargs.
func (p *parser) parseArguments() (arguments, error) {
	var args arguments
	if err := p.expectOperator("("); err != nil {
		return args, err
	}
	for first := true; !p.skipOperator(")"); first = false {
		if !first {
			if err := p.expectOperator(","); err != nil {
				return args, err
			}
			if p.skipOperator(")") {
				break
			}
		}
		if err := p.parseArgument(&args); err != nil {
			return args, err
		}
	}
	return args, nil
}

// parseArgument parses one argument. It rejects an order that Python rejects.
func (p *parser) parseArgument(args *arguments) error {
	var err error
	misplaced := args.doubleStar != nil
	switch {
	case p.skipOperator("**"):
		args.doubleStar, err = p.parseExpr()
	case p.skipOperator("*"):
		misplaced = misplaced || args.star != nil
		args.star, err = p.parseExpr()
	case p.peek().kind == tokName && p.peekAfter().kind == tokOperator && p.peekAfter().text == "=":
		name := p.next().text
		p.next()
		var value expr
		value, err = p.parseExpr()
		args.keywords = append(args.keywords, keywordExpr{name, value})
	default:
		misplaced = misplaced || args.star != nil || len(args.keywords) > 0
		var value expr
		value, err = p.parseExpr()
		args.positional = append(args.positional, value)
	}
	if err == nil && misplaced {
		return p.fail("a positional argument follows a keyword argument or an unpacked argument")
	}
	return err
}

// parseFilters parses the filters, tests and calls after x. chain counts the operators
// of the chain; nil starts a new count.
func (p *parser) parseFilters(x expr, chain *int) (expr, error) {
	if chain == nil {
		chain = new(int)
	}
	for {
		line := p.here()
		var err error
		switch {
		case p.skipOperator("|"):
			x, err = p.parseFilter(x)
		case x != nil && p.skipName("is"):
			x, err = p.parseTest(line, x)
		case x != nil && p.isOperator("("):
			x, err = p.parseCall(line, x)
		default:
			return x, nil
		}
		if err != nil {
			return nil, err
		}
		if err := p.countChain(chain); err != nil {
			return nil, err
		}
	}
}

// dottedName parses the name of a filter or test.
func (p *parser) dottedName() (string, error) {
	name, err := p.expectName()
	for err == nil && p.skipOperator(".") {
		var part string
		part, err = p.expectName()
		name += "." + part
	}
	return name, err
}

// parseFilter parses the name and the arguments of a filter after the bar.
func (p *parser) parseFilter(x expr) (expr, error) {
	line := p.here()
	name, err := p.dottedName()
	if err != nil {
		return nil, err
	}
	if !hasFilter(name) {
		p.noteUnknown(unknownFilter(name), line)
	}
	f := &filterExpr{at: line, x: x, name: name}
	if p.isOperator("(") {
		f.args, err = p.parseArguments()
	}
	return f, err
}

// parseTest parses a test after "is". A single argument needs no parentheses.
func (p *parser) parseTest(line at, x expr) (expr, error) {
	negated := p.skipName("not")
	name, err := p.dottedName()
	if err != nil {
		return nil, err
	}
	if !hasTest(name) {
		p.noteUnknown(unknownTest(name), line)
	}
	t := &testExpr{at: line, x: x, name: name}
	switch {
	case p.isOperator("("):
		t.args, err = p.parseArguments()
	case p.startsTestArgument():
		if p.isName("is") {
			return nil, p.fail("tests cannot be chained with 'is'")
		}
		var arg expr
		if arg, err = p.parsePrimary(); err == nil {
			chain := 0
			arg, err = p.parsePostfix(arg, &chain)
		}
		t.args.positional = []expr{arg}
	}
	if err != nil {
		return nil, err
	}
	if negated {
		return &notExpr{line, t}, nil
	}
	return t, nil
}

// startsTestArgument reports whether an argument without parentheses follows a test.
func (p *parser) startsTestArgument() bool {
	t := p.peek()
	switch t.kind {
	case tokString, tokInteger, tokFloat:
		return true
	case tokName:
		return t.text != "else" && t.text != "or" && t.text != "and"
	}
	return p.isOperator("[") || p.isOperator("{")
}
