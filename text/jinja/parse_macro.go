package jinja

// parseMacro parses {% macro name(params) %}…{% endmacro %}.
func (p *parser) parseMacro(line at) (stmt, error) {
	name, err := p.expectName()
	if err != nil {
		return nil, err
	}
	def := &macroDef{name: name}
	if err := p.parseSignature(def); err != nil {
		return nil, err
	}
	return &macroStmt{line, def}, p.parseMacroBody(def, "endmacro")
}

// parseCallBlock parses {% call(params) macro(args) %}…{% endcall %}.
func (p *parser) parseCallBlock(line at) (stmt, error) {
	def := &macroDef{name: "caller"}
	if p.isOperator("(") {
		if err := p.parseSignature(def); err != nil {
			return nil, err
		}
	}
	x, err := p.parseExpr()
	if err != nil {
		return nil, err
	}
	call, ok := x.(*callExpr)
	if !ok {
		return nil, p.fail("a call block requires a macro call")
	}
	return &callBlockStmt{line, call, def}, p.parseMacroBody(def, "endcall")
}

// parseMacroBody parses the body of def. A break in the body cannot refer to a loop
// outside the macro.
func (p *parser) parseMacroBody(def *macroDef, end string) error {
	loops := p.loops
	p.loops = 0
	p.macros = append(p.macros, def)
	body, _, err := p.parseBlock(end)
	p.macros = p.macros[:len(p.macros)-1]
	p.loops = loops
	def.body = body
	return err
}

// noteImplicitName records that a macro body uses caller, kwargs or varargs. It marks
// all enclosing definitions, because an inner body may refer to the binding of an outer
// one.
func (p *parser) noteImplicitName(name string) {
	for _, def := range p.macros {
		switch name {
		case "caller":
			def.usesCaller = true
		case "kwargs":
			def.usesKwargs = true
		case "varargs":
			def.usesVarargs = true
		}
	}
}

// parseSignature parses the parameters of a macro or call block.
func (p *parser) parseSignature(def *macroDef) error {
	if err := p.expectOperator("("); err != nil {
		return err
	}
	for !p.isOperator(")") {
		if len(def.params) > 0 {
			if err := p.expectOperator(","); err != nil {
				return err
			}
		}
		name, err := p.expectName()
		if err != nil {
			return err
		}
		prm := param{name: name}
		if p.skipOperator("=") {
			if prm.fallback, err = p.parseExpr(); err != nil {
				return err
			}
		} else if n := len(def.params); n > 0 && def.params[n-1].fallback != nil {
			return p.fail("parameter '%s' without a default follows one with a default", name)
		}
		def.params = append(def.params, prm)
	}
	return p.expectOperator(")")
}

// parseTarget parses the target of an assignment: a name, a tuple of targets or, if
// attributes is set, an attribute of a namespace. stop names the keywords that end the
// target.
func (p *parser) parseTarget(attributes bool, stop ...string) (target, error) {
	if err := p.enterNesting(); err != nil {
		return nil, err
	}
	defer p.leaveNesting()
	line := p.here()
	var items []target
	isTuple := false
	for {
		if p.atTupleEnd(stop) && isTuple {
			break
		}
		t, err := p.parseTargetItem(attributes)
		if err != nil {
			return nil, err
		}
		items = append(items, t)
		if !p.skipOperator(",") {
			break
		}
		isTuple = true
	}
	if !isTuple {
		return items[0], nil
	}
	return &tupleTarget{line, items}, nil
}

// parseTargetItem parses a name, an attribute of a namespace or targets in parentheses.
func (p *parser) parseTargetItem(attributes bool) (target, error) {
	line := p.here()
	if p.skipOperator("(") {
		t, err := p.parseTarget(attributes)
		if err != nil {
			return nil, err
		}
		return t, p.expectOperator(")")
	}
	name, err := p.expectName()
	if err != nil {
		return nil, err
	}
	switch name {
	case "true", "false", "none", "True", "False", "None":
		return nil, p.fail("cannot assign to '%s'", name)
	}
	if attributes && p.skipOperator(".") {
		attr, err := p.expectName()
		return &namespaceTarget{line, name, attr}, err
	}
	return &nameTarget{line, name}, nil
}
