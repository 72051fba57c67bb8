package jinja

import "strings"

// renderer is the state of one rendering.
type renderer struct {
	*meter
	root *scope
	// out receives the output. Macros and set blocks replace it to capture their text.
	out     *strings.Builder
	filters map[string]filter
	tests   map[string]test
}

// eval evaluates an expression. An error has the line of the innermost node.
func (r *renderer) eval(x expr, s *scope) (value, error) {
	if err := r.enter(); err != nil {
		return nil, locate(err, x.line())
	}
	v, err := r.evalNode(x, s)
	r.leave()
	if err != nil {
		return nil, locate(err, x.line())
	}
	return v, nil
}

// evalNode evaluates a node by its type. eval adds the metering and the line of an
// error.
func (r *renderer) evalNode(x expr, s *scope) (value, error) {
	switch x := x.(type) {
	case *constant:
		return x.value, nil
	case *nameExpr:
		return r.lookupName(x.name, s)
	case *attributeExpr:
		v, err := r.eval(x.x, s)
		if err != nil {
			return nil, err
		}
		return r.attribute(v, x.name)
	case *subscriptExpr:
		v, index, err := r.evalPair(x.x, x.index, s)
		if err != nil {
			return nil, err
		}
		return r.subscript(v, index)
	case *sliceExpr:
		return r.evalSlice(x, s)
	case *callExpr:
		return r.evalCall(x, s, nil)
	case *filterExpr:
		return r.evalFilter(x, s, nil)
	case *testExpr:
		return r.evalTest(x, s)
	case *binaryExpr:
		l, rv, err := r.evalPair(x.l, x.r, s)
		if err != nil {
			return nil, err
		}
		return r.binary(x.op, l, rv)
	case *unaryExpr:
		v, err := r.eval(x.x, s)
		if err != nil {
			return nil, err
		}
		return unary(x.op, v)
	case *notExpr:
		v, err := r.eval(x.x, s)
		return !truthy(v), err
	case *logicalExpr:
		v, err := r.eval(x.l, s)
		if err != nil || truthy(v) != x.and {
			return v, err
		}
		return r.eval(x.r, s)
	case *compareExpr:
		return r.evalCompare(x, s)
	case *concatExpr:
		return r.evalConcat(x, s)
	case *conditionalExpr:
		return r.evalConditional(x, s)
	case *listExpr:
		items, err := r.evalAll(x.items, s)
		return &list{items}, err
	case *tupleExpr:
		items, err := r.evalAll(x.items, s)
		return &tuple{items: items}, err
	case *dictExpr:
		return r.evalDict(x, s)
	}
	return nil, runtimeErrorf("unknown expression %T", x)
}

// lookupName returns the value of a name, or an undefined value.
func (r *renderer) lookupName(name string, s *scope) (value, error) {
	v, ok, searched := s.lookup(name)
	if !ok {
		v = &undefined{reason: quote(name) + " is undefined"}
	}
	return v, r.chargeSteps(searched / 4)
}

// evalPair evaluates two operands from left to right.
func (r *renderer) evalPair(a, b expr, s *scope) (x, y value, err error) {
	if x, err = r.eval(a, s); err != nil {
		return nil, nil, err
	}
	y, err = r.eval(b, s)
	return x, y, err
}

// evalAll evaluates items in order.
func (r *renderer) evalAll(items []expr, s *scope) ([]value, error) {
	if err := r.chargeSlots(len(items) + 1); err != nil {
		return nil, err
	}
	values := make([]value, len(items))
	for i, item := range items {
		v, err := r.eval(item, s)
		if err != nil {
			return nil, err
		}
		values[i] = v
	}
	return values, nil
}

// evalDict evaluates a dict. Of two equal keys the later value and the earlier position
// apply.
func (r *renderer) evalDict(x *dictExpr, s *scope) (value, error) {
	if err := r.chargeSlots(4 * (len(x.keys) + 1)); err != nil {
		return nil, err
	}
	d := newDict()
	for i := range x.keys {
		key, v, err := r.evalPair(x.keys[i], x.values[i], s)
		if err != nil {
			return nil, err
		}
		if err := d.set(key, v); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// evalCompare evaluates a chain of comparisons until one is false. It evaluates each
// operand at most once.
func (r *renderer) evalCompare(x *compareExpr, s *scope) (value, error) {
	left, err := r.eval(x.first, s)
	if err != nil {
		return nil, err
	}
	for _, link := range x.rest {
		right, err := r.eval(link.x, s)
		if err != nil {
			return nil, err
		}
		holds, err := r.compare(link.op, left, right)
		if err != nil || !holds {
			return false, err
		}
		left = right
	}
	return true, nil
}

// evalConcat evaluates the ~ operator: it concatenates the texts of the parts.
func (r *renderer) evalConcat(x *concatExpr, s *scope) (value, error) {
	var b strings.Builder
	for _, part := range x.parts {
		v, err := r.eval(part, s)
		if err != nil {
			return nil, err
		}
		text, err := r.str(v)
		if err != nil {
			return nil, err
		}
		if b.Len()+len(text) > maxOutput {
			return nil, limitErrorf("a string exceeds %d MiB", maxOutput>>20)
		}
		if err := r.chargeBytes(len(text)); err != nil {
			return nil, err
		}
		b.WriteString(text)
	}
	return b.String(), nil
}

// evalConditional evaluates the condition and then the selected branch. Without an else
// the result may be an undefined value.
func (r *renderer) evalConditional(x *conditionalExpr, s *scope) (value, error) {
	test, err := r.eval(x.test, s)
	switch {
	case err != nil:
		return nil, err
	case truthy(test):
		return r.eval(x.then, s)
	case x.otherwise != nil:
		return r.eval(x.otherwise, s)
	}
	return &undefined{reason: "the inline if-expression on line " + formatInt(int64(x.line())) +
		" evaluated to false and no else section was defined."}, nil
}

// evalSlice evaluates a slice. It passes an omitted bound as nil.
func (r *renderer) evalSlice(x *sliceExpr, s *scope) (value, error) {
	v, err := r.eval(x.x, s)
	if err != nil {
		return nil, err
	}
	var bounds [3]value
	for i, bound := range []expr{x.low, x.high, x.stride} {
		if bound == nil {
			continue
		}
		if bounds[i], err = r.eval(bound, s); err != nil {
			return nil, err
		}
	}
	return r.slice(v, bounds[0], bounds[1], bounds[2])
}

// evalFilter applies the filter of x to its operand. The first filter of a block has no
// operand and applies to input.
func (r *renderer) evalFilter(x *filterExpr, s *scope, input value) (value, error) {
	v, err := input, error(nil)
	// A chain of filters recurses here instead of in eval, so that input reaches the
	// first filter.
	switch inner := x.x.(type) {
	case nil:
	case *filterExpr:
		if err = r.enter(); err != nil {
			return nil, err
		}
		v, err = r.evalFilter(inner, s, input)
		r.leave()
	default:
		v, err = r.eval(inner, s)
	}
	if err != nil {
		return nil, locate(err, x.line())
	}
	args, keywords, err := r.evalArguments(&x.args, s)
	if err != nil {
		return nil, err
	}
	v, err = r.applyFilter(x.name, v, args, keywords)
	return v, locate(err, x.line())
}

// evalTest evaluates "x is name(args)".
func (r *renderer) evalTest(x *testExpr, s *scope) (value, error) {
	v, err := r.eval(x.x, s)
	if err != nil {
		return nil, err
	}
	args, keywords, err := r.evalArguments(&x.args, s)
	if err != nil {
		return nil, err
	}
	holds, err := r.applyTest(x.name, v, args, keywords)
	return holds, err
}
