package jinja

import "strings"

// signal states how a loop body ended.
type signal uint8

const (
	signalNone signal = iota
	signalBreak
	signalContinue
)

// exec executes statements in s until a statement breaks or continues the enclosing
// loop.
func (r *renderer) exec(body []stmt, s *scope) (signal, error) {
	if err := r.enter(); err != nil {
		return signalNone, err
	}
	defer r.leave()
	for _, st := range body {
		if err := r.chargeSteps(1); err != nil {
			return signalNone, locate(err, st.line())
		}
		sig, err := r.execStmt(st, s)
		if err != nil {
			return signalNone, locate(err, st.line())
		}
		if sig != signalNone {
			return sig, nil
		}
	}
	return signalNone, nil
}

// execStmt executes one statement.
func (r *renderer) execStmt(st stmt, s *scope) (signal, error) {
	switch st := st.(type) {
	case *textStmt:
		return signalNone, r.write(st.text)
	case *outputStmt:
		v, err := r.eval(st.x, s)
		if err != nil {
			return signalNone, err
		}
		return signalNone, r.print(v)
	case *ifStmt:
		return r.execIf(st, s)
	case *forStmt:
		return r.execFor(st, s)
	case *setStmt:
		v, err := r.eval(st.value, s)
		if err != nil {
			return signalNone, err
		}
		return signalNone, r.assign(st.target, v, s)
	case *setBlockStmt:
		v, err := r.captureFiltered(st.body, st.filter, s)
		if err != nil {
			return signalNone, err
		}
		return signalNone, r.assign(st.target, v, s)
	// A macro refers to the scope of its definition, so it sees later assignments in
	// that scope.
	case *macroStmt:
		s.set(st.def.name, &macro{st.def, s})
		return signalNone, r.chargeSlots(macroSlots)
	case *callBlockStmt:
		v, err := r.evalCall(st.call, s, &macro{st.caller, s})
		if err != nil {
			return signalNone, err
		}
		return signalNone, r.print(v)
	case *filterBlockStmt:
		v, err := r.captureFiltered(st.body, st.filter, s)
		if err != nil {
			return signalNone, err
		}
		return signalNone, r.print(v)
	case *withStmt:
		return r.execWith(st, s)
	case *scopeStmt:
		if st.fromRoot {
			s = r.root
		}
		return r.exec(st.body, newScope(s))
	case *breakStmt:
		return signalBreak, nil
	case *continueStmt:
		return signalContinue, nil
	}
	return signalNone, runtimeErrorf("unknown statement %T", st)
}

// write appends text to the output.
func (r *renderer) write(text string) error {
	if r.out.Len()+len(text) > maxOutput {
		return limitErrorf("the output exceeds %d MiB", maxOutput>>20)
	}
	if err := r.chargeBytes(len(text)); err != nil {
		return err
	}
	r.out.WriteString(text)
	return nil
}

// print writes the text of {{ v }}.
func (r *renderer) print(v value) error {
	text, err := r.str(v)
	if err != nil {
		return err
	}
	return r.write(text)
}

// capture executes body and returns its text instead of writing it.
func (r *renderer) capture(body []stmt, s *scope) (string, error) {
	return r.captureFunc(func() error {
		_, err := r.exec(body, s)
		return err
	})
}

// captureFunc returns the text that do writes.
func (r *renderer) captureFunc(do func() error) (string, error) {
	outer := r.out
	defer func() { r.out = outer }()
	r.out = &strings.Builder{}
	err := do()
	return r.out.String(), err
}

// captureFiltered captures body in a new scope and applies a chain of filters.
func (r *renderer) captureFiltered(body []stmt, filter expr, s *scope) (value, error) {
	text, err := r.capture(body, newScope(s))
	if err != nil || filter == nil {
		return text, err
	}
	if chain, ok := filter.(*filterExpr); ok {
		return r.evalFilter(chain, s, text)
	}
	return r.eval(filter, s)
}

// execIf executes the first branch whose condition is true. An if block has no scope of
// its own.
func (r *renderer) execIf(st *ifStmt, s *scope) (signal, error) {
	for _, b := range st.branches {
		test, err := r.eval(b.test, s)
		if err != nil {
			return signalNone, err
		}
		if truthy(test) {
			return r.exec(b.body, s)
		}
	}
	return r.exec(st.otherwise, s)
}

// execWith evaluates all values before it binds a target, so the values do not see the
// targets.
func (r *renderer) execWith(st *withStmt, s *scope) (signal, error) {
	values, err := r.evalAll(st.values, s)
	if err != nil {
		return signalNone, err
	}
	inner := newScope(s)
	for i, t := range st.targets {
		if err := r.assign(t, values[i], inner); err != nil {
			return signalNone, err
		}
	}
	return r.exec(st.body, inner)
}

// assign binds t to v in s.
func (r *renderer) assign(t target, v value, s *scope) error {
	switch t := t.(type) {
	case *nameTarget:
		s.set(t.name, v)
		return nil
	case *namespaceTarget:
		holder, err := r.lookupName(t.name, s)
		if err != nil {
			return err
		}
		ns, ok := holder.(*namespace)
		if !ok {
			return runtimeErrorf("cannot assign attribute on non-namespace object")
		}
		if err := r.chargeSlots(2); err != nil {
			return err
		}
		return ns.attrs.set(t.attr, v)
	case *tupleTarget:
		return r.unpack(t, v, s)
	}
	return runtimeErrorf("cannot assign to %T", t)
}

// unpack binds several targets to the items of v.
func (r *renderer) unpack(t *tupleTarget, v value, s *scope) error {
	if !isIterable(v) {
		return runtimeErrorf("cannot unpack non-iterable %s object", typeName(v))
	}
	items, err := r.sequence(v)
	switch {
	case err != nil:
		return err
	case len(items) < len(t.items):
		return runtimeErrorf("not enough values to unpack (expected %d, got %d)", len(t.items), len(items))
	case len(items) > len(t.items):
		return runtimeErrorf("too many values to unpack (expected %d)", len(t.items))
	}
	for i, item := range t.items {
		if err := r.assign(item, items[i], s); err != nil {
			return err
		}
	}
	return nil
}
