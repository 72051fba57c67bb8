package jinja

import "slices"

// parseBody parses text and statements up to a tag whose name is in ends. It consumes
// and returns that name. Without ends it parses to the end of the source.
func (p *parser) parseBody(ends ...string) (body []stmt, end string, err error) {
	if err := p.enterNesting(); err != nil {
		return nil, "", err
	}
	defer p.leaveNesting()
	for {
		t := p.next()
		switch t.kind {
		case tokText:
			body = append(body, &textStmt{at(t.line), t.text})
		case tokOutput:
			x, err := p.parseTuple(true)
			if err != nil {
				return nil, "", err
			}
			if err := p.expectKind(tokOutEnd); err != nil {
				return nil, "", err
			}
			body = append(body, &outputStmt{at(t.line), x})
		case tokTag:
			if name := p.peek(); name.kind == tokName && slices.Contains(ends, name.text) {
				return body, p.next().text, nil
			}
			s, err := p.parseTag()
			if err != nil {
				return nil, "", err
			}
			if err := p.expectKind(tokTagEnd); err != nil {
				return nil, "", err
			}
			body = append(body, s)
		default: // outside tags lex emits only these tokens and tokEOF
			if len(ends) > 0 {
				return nil, "", p.fail("the template ends before the expected {%% %s %%}", ends[len(ends)-1])
			}
			return body, "", nil
		}
	}
}

// parseBlock parses the end of an opening tag and its body up to the end tag. parseBody
// consumes the end of the end tag.
func (p *parser) parseBlock(ends ...string) ([]stmt, string, error) {
	p.skipOperator(":") // Jinja accepts Python's colon
	if err := p.expectKind(tokTagEnd); err != nil {
		return nil, "", err
	}
	return p.parseBody(ends...)
}

// unsupportedTags lists the statements of Jinja outside the supported subset, with
// advice.
var unsupportedTags = map[string]string{
	"include":    "a chat template must be one file",
	"import":     "a chat template must be one file",
	"from":       "a chat template must be one file",
	"extends":    "a chat template must be one file",
	"autoescape": "prompts are never escaped; remove the tag",
	"do":         "use {% set %} with a namespace",
	"trans":      "translations are not available",
	"debug":      "remove the tag",
}

// parseTag parses one statement after {% and leaves the final %} unconsumed.
func (p *parser) parseTag() (stmt, error) {
	line := p.here()
	name, err := p.expectName()
	if err != nil {
		return nil, err
	}
	switch name {
	case "if":
		return p.parseIf(line)
	case "for":
		return p.parseFor(line)
	case "set":
		return p.parseSet(line)
	case "macro":
		return p.parseMacro(line)
	case "call":
		return p.parseCallBlock(line)
	case "filter":
		return p.parseFilterBlock(line)
	case "with":
		return p.parseWith(line)
	case "block":
		return p.parseNamedBlock(line)
	case "generation":
		// transformers uses the tag in training to mark the assistant's tokens.
		// Rendering writes its body.
		body, _, err := p.parseBlock("endgeneration")
		return &scopeStmt{at: line, body: body}, err
	case "print":
		return p.parsePrint(line)
	case "break", "continue":
		if p.loops == 0 {
			return nil, p.fail("'%s' outside a loop", name)
		}
		if name == "break" {
			return &breakStmt{line}, nil
		}
		return &continueStmt{line}, nil
	}
	if advice, ok := unsupportedTags[name]; ok {
		return nil, p.unsupported(int(line), "{% "+name+" %}", advice)
	}
	if len(name) > 3 && name[:3] == "end" || name == "else" || name == "elif" {
		return nil, p.fail("{%% %s %%} has no matching opening tag", name)
	}
	return nil, p.unsupported(int(line), "{% "+name+" %}", "unknown tag")
}

// parsePrint parses {% print a, b %}, which writes the concatenation of its values.
func (p *parser) parsePrint(line at) (stmt, error) {
	var parts []expr
	for p.peek().kind != tokTagEnd {
		if len(parts) > 0 {
			if err := p.expectOperator(","); err != nil {
				return nil, err
			}
		}
		x, err := p.parseExpr()
		if err != nil {
			return nil, err
		}
		parts = append(parts, x)
	}
	return &outputStmt{line, &concatExpr{line, parts}}, nil
}

// parseIf parses all branches. It discards errors about unknown filters in the
// branches, because a branch may never run.
func (p *parser) parseIf(line at) (stmt, error) {
	unknown := p.unknown
	defer func() { p.unknown = unknown }()
	s := &ifStmt{at: line}
	for end := "elif"; end == "elif"; {
		test, err := p.parseTuple(false)
		if err != nil {
			return nil, err
		}
		var body []stmt
		body, end, err = p.parseBlock("elif", "else", "endif")
		if err != nil {
			return nil, err
		}
		s.branches = append(s.branches, branch{test, body})
		if end == "else" {
			s.otherwise, _, err = p.parseBlock("endif")
			if err != nil {
				return nil, err
			}
		}
	}
	return s, nil
}

// parseFor parses {% for target in iter [if test] [recursive] %}…[{% else %}…]{% endfor
// %}.
func (p *parser) parseFor(line at) (stmt, error) {
	s := &forStmt{at: line}
	var err error
	if s.target, err = p.parseTarget(false, "in"); err != nil {
		return nil, err
	}
	if n, ok := s.target.(*nameTarget); ok && n.name == "loop" {
		return nil, p.fail("cannot assign to the special variable 'loop'")
	}
	if !p.skipName("in") {
		return nil, p.fail("expected 'in', got %s", p.peek())
	}
	if s.iter, err = p.parseTuple(false, "recursive"); err != nil {
		return nil, err
	}
	if p.skipName("if") {
		if s.test, err = p.parseExpr(); err != nil {
			return nil, err
		}
	}
	s.recursive = p.skipName("recursive")
	p.loops++
	body, end, err := p.parseBlock("else", "endfor")
	p.loops--
	if err != nil {
		return nil, err
	}
	s.body = body
	if end == "else" {
		s.otherwise, _, err = p.parseBlock("endfor")
	}
	return s, err
}

// parseSet parses {% set x = value %} and {% set x | filters %}…{% endset %}.
func (p *parser) parseSet(line at) (stmt, error) {
	t, err := p.parseTarget(true)
	if err != nil {
		return nil, err
	}
	if p.skipOperator("=") {
		value, err := p.parseTuple(true)
		return &setStmt{line, t, value}, err
	}
	var filter expr
	if p.isOperator("|") {
		if filter, err = p.parseFilters(nil, nil); err != nil {
			return nil, err
		}
	}
	body, _, err := p.parseBlock("endset")
	return &setBlockStmt{line, t, filter, body}, err
}

// parseFilterBlock parses {% filter a|b %}…{% endfilter %}.
func (p *parser) parseFilterBlock(line at) (stmt, error) {
	head, err := p.parseFilter(nil)
	if err != nil {
		return nil, err
	}
	filter, err := p.parseFilters(head, nil)
	if err != nil {
		return nil, err
	}
	body, _, err := p.parseBlock("endfilter")
	return &filterBlockStmt{line, filter, body}, err
}

// parseWith parses {% with a = 1, b = 2 %}…{% endwith %}.
func (p *parser) parseWith(line at) (stmt, error) {
	s := &withStmt{at: line}
	for p.peek().kind != tokTagEnd {
		if len(s.targets) > 0 {
			if err := p.expectOperator(","); err != nil {
				return nil, err
			}
		}
		t, err := p.parseTarget(false)
		if err != nil {
			return nil, err
		}
		if err := p.expectOperator("="); err != nil {
			return nil, err
		}
		value, err := p.parseExpr()
		if err != nil {
			return nil, err
		}
		s.targets, s.values = append(s.targets, t), append(s.values, value)
	}
	var err error
	s.body, _, err = p.parseBlock("endwith")
	return s, err
}

// parseNamedBlock parses {% block name [scoped] [required] %}. Without template
// inheritance the body renders in place.
func (p *parser) parseNamedBlock(line at) (stmt, error) {
	name, err := p.expectName()
	if err != nil {
		return nil, err
	}
	if slices.Contains(p.blocks, name) {
		return nil, p.fail("block '%s' is a duplicate", name)
	}
	if p.blocks = append(p.blocks, name); len(p.blocks) > maxNesting {
		return nil, locate(limitErrorf("the template has more than %d blocks", maxNesting), int(line))
	}
	scoped := p.skipName("scoped")
	p.skipName("required")
	// A break in the block cannot refer to a loop outside the block.
	loops := p.loops
	p.loops = 0
	body, _, err := p.parseBlock("endblock")
	p.loops = loops
	p.skipName(name)
	return &scopeStmt{line, !scoped, body}, err
}
