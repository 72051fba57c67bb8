package jinja

import (
	"strings"
	"unicode"
)

// test computes "v is name(args)".
type test = builtin[value, bool]

// tests are Jinja's built-in tests.
var tests = map[string]test{
	"boolean":     ofType(func(v value) bool { _, ok := v.(bool); return ok }),
	"callable":    ofType(isCallable),
	"defined":     ofType(func(v value) bool { return !isUndefined(v) }),
	"undefined":   ofType(isUndefined),
	"none":        ofType(func(v value) bool { return v == nil }),
	"true":        ofType(func(v value) bool { return v == true }),
	"false":       ofType(func(v value) bool { return v == false }),
	"integer":     ofType(isInteger),
	"float":       ofType(func(v value) bool { _, ok := v.(float64); return ok }),
	"number":      ofType(isNumber),
	"string":      ofType(func(v value) bool { _, ok := plain(v).(string); return ok }),
	"escaped":     ofType(func(v value) bool { _, ok := v.(markup); return ok }),
	"mapping":     ofType(func(v value) bool { _, ok := v.(*dict); return ok }),
	"sequence":    ofType(isSequence),
	"iterable":    ofType(isIterable),
	"lower":       testCase(unicode.IsLower, unicode.IsUpper),
	"upper":       testCase(unicode.IsUpper, unicode.IsLower),
	"odd":         testRemainder(2, 1),
	"even":        testRemainder(2, 0),
	"divisibleby": takes(testDivisible, "num"),
	"in":          comparing("in"),
	"==":          comparing("=="),
	"eq":          comparing("=="),
	"equalto":     comparing("=="),
	"!=":          comparing("!="),
	"ne":          comparing("!="),
	"<":           comparing("<"),
	"lt":          comparing("<"),
	"lessthan":    comparing("<"),
	"<=":          comparing("<="),
	"le":          comparing("<="),
	">":           comparing(">"),
	"gt":          comparing(">"),
	"greaterthan": comparing(">"),
	">=":          comparing(">="),
	"ge":          comparing(">="),
	"sameas":      takes(testSame, "other"),
	"filter":      takes(testIsFilter),
	"test":        takes(testIsTest),
}

// hasTest lets the parser refuse unknown tests before anything runs.
func hasTest(name string) bool { _, ok := tests[name]; return ok }

func unknownTest(name string) error {
	return &Error{Kind: ErrUnsupported, Construct: "test '" + name + "'", Reason: "no test of this name is available"}
}

// applyTest runs a test by name.
func (r *run) applyTest(name string, v value, args []value, keywords []keyword) (bool, error) {
	t, ok := r.tests[name]
	if !ok {
		return false, unknownTest(name)
	}
	return t.apply(&call{r, name, args, keywords}, v)
}

// ofType makes a test without arguments.
func ofType(holds func(value) bool) test {
	return takes(func(_ *params, v value) (bool, error) { return holds(v), nil })
}

func isUndefined(v value) bool { _, ok := v.(*undefined); return ok }

// isInteger does not hold for booleans, though number does.
func isInteger(v value) bool {
	switch v.(type) {
	case int64, bigInt:
		return true
	}
	return false
}

// isCallable holds for what can be called, if only to fail.
func isCallable(v value) bool {
	switch v.(type) {
	case *function, *macro, *loop, *undefined: // Jinja's undefined has a __call__
		return true
	}
	return false
}

// isSequence holds for what has a length and items: mappings and strings too.
func isSequence(v value) bool {
	switch v.(type) {
	case *dictView:
		return false
	}
	_, ok := length(v)
	return ok
}

// comparing makes a test that compares with its argument.
func comparing(op string) test {
	return takes(func(p *params, v value) (bool, error) { return p.r.compare(op, v, p.values[0]) }, "other")
}

// testCase holds when s has letters of the wanted case and none of the other.
func testCase(want, other func(rune) bool) test {
	return takes(func(p *params, v value) (bool, error) {
		s, err := textOperand(p, v)
		return strings.ContainsFunc(s, want) && !strings.ContainsFunc(s, other), err
	})
}

// testRemainder makes odd and even.
func testRemainder(divisor, want int64) test {
	return takes(func(p *params, v value) (bool, error) { return hasRemainder(p.r, v, divisor, want) })
}

// testDivisible holds when num divides v.
func testDivisible(p *params, v value) (bool, error) {
	return hasRemainder(p.r, v, p.values[0], 0)
}

// hasRemainder computes with %, which fails for what is no number.
func hasRemainder(r *run, v, divisor value, want int64) (bool, error) {
	rest, err := r.binary("%", v, divisor)
	if err != nil {
		return false, err
	}
	return r.equal(rest, want)
}

// testSame is Python's "is": identity for containers, equality for the rest.
func testSame(p *params, v value) (bool, error) {
	if s, ok := plain(v).(string); ok {
		other, isText := plain(p.values[0]).(string)
		return isText && s == other, p.r.scan(len(s))
	}
	return v == p.values[0], nil
}

// testIsFilter holds when v names a filter, so that a template can ask before use.
func testIsFilter(p *params, v value) (bool, error) {
	name, _ := plain(v).(string)
	_, ok := p.r.filters[name]
	return ok, nil
}

// testIsTest holds when v names a test.
func testIsTest(p *params, v value) (bool, error) {
	name, _ := plain(v).(string)
	_, ok := p.r.tests[name]
	return ok, nil
}
