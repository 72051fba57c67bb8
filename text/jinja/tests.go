package jinja

import (
	"strings"
	"unicode"
)

// test implements "v is name(args)".
type test = builtin[value, bool]

// tests are Jinja's built-in tests.
var tests = map[string]test{
	"boolean":     typeTest(func(v value) bool { _, ok := v.(bool); return ok }),
	"callable":    typeTest(isCallable),
	"defined":     typeTest(func(v value) bool { return !isUndefined(v) }),
	"undefined":   typeTest(isUndefined),
	"none":        typeTest(func(v value) bool { return v == nil }),
	"true":        typeTest(func(v value) bool { return v == true }),
	"false":       typeTest(func(v value) bool { return v == false }),
	"integer":     typeTest(isInteger),
	"float":       typeTest(func(v value) bool { _, ok := v.(float64); return ok }),
	"number":      typeTest(isNumber),
	"string":      typeTest(func(v value) bool { _, ok := plain(v).(string); return ok }),
	"escaped":     typeTest(func(v value) bool { _, ok := v.(markup); return ok }),
	"mapping":     typeTest(func(v value) bool { _, ok := v.(*dict); return ok }),
	"sequence":    typeTest(isSequence),
	"iterable":    typeTest(isIterable),
	"lower":       caseTest(unicode.IsLower, unicode.IsUpper),
	"upper":       caseTest(unicode.IsUpper, unicode.IsLower),
	"odd":         remainderTest(2, 1),
	"even":        remainderTest(2, 0),
	"divisibleby": withParams(testDivisible, "num"),
	"in":          comparisonTest("in"),
	"==":          comparisonTest("=="),
	"eq":          comparisonTest("=="),
	"equalto":     comparisonTest("=="),
	"!=":          comparisonTest("!="),
	"ne":          comparisonTest("!="),
	"<":           comparisonTest("<"),
	"lt":          comparisonTest("<"),
	"lessthan":    comparisonTest("<"),
	"<=":          comparisonTest("<="),
	"le":          comparisonTest("<="),
	">":           comparisonTest(">"),
	"gt":          comparisonTest(">"),
	"greaterthan": comparisonTest(">"),
	">=":          comparisonTest(">="),
	"ge":          comparisonTest(">="),
	"sameas":      withParams(testSameAs, "other"),
	"filter":      withParams(testIsFilter),
	"test":        withParams(testIsTest),
}

// hasTest reports whether a test exists. The parser calls it to reject unknown tests.
func hasTest(name string) bool { _, ok := tests[name]; return ok }

// unknownTest returns the error for an unknown test.
func unknownTest(name string) error {
	return &Error{Kind: ErrUnsupported, Construct: "test '" + name + "'", Reason: "no test has this name"}
}

// applyTest applies a test by name.
func (r *renderer) applyTest(name string, v value, args []value, keywords []keyword) (bool, error) {
	t, ok := r.tests[name]
	if !ok {
		return false, unknownTest(name)
	}
	return t.apply(&call{r, name, args, keywords}, v)
}

// typeTest returns a test without arguments.
func typeTest(holds func(value) bool) test {
	return withParams(func(_ *params, v value) (bool, error) { return holds(v), nil })
}

func isUndefined(v value) bool { _, ok := v.(*undefined); return ok }

// isInteger reports whether v is an integer. In contrast to isNumber it excludes
// booleans.
func isInteger(v value) bool {
	switch v.(type) {
	case int64, bigInt:
		return true
	}
	return false
}

// isCallable reports whether v has a __call__ method in Jinja.
func isCallable(v value) bool {
	switch v.(type) {
	case *function, *macro, *loop, *undefined: // Jinja's undefined has a __call__ that fails
		return true
	}
	return false
}

// isSequence reports whether v has a length and items. Mappings and strings do.
func isSequence(v value) bool {
	switch v.(type) {
	case *dictView:
		return false
	}
	_, ok := length(v)
	return ok
}

// comparisonTest returns a test that compares v with its argument.
func comparisonTest(op string) test {
	return withParams(func(p *params, v value) (bool, error) { return p.r.compare(op, v, p.values[0]) }, "other")
}

// caseTest returns a test that reports whether v has letters of the wanted case and
// none of the other.
func caseTest(want, other func(rune) bool) test {
	return withParams(func(p *params, v value) (bool, error) {
		s, err := textOperand(p, v)
		return strings.ContainsFunc(s, want) && !strings.ContainsFunc(s, other), err
	})
}

// remainderTest returns the test odd or even.
func remainderTest(divisor, want int64) test {
	return withParams(func(p *params, v value) (bool, error) { return hasRemainder(p.r, v, divisor, want) })
}

// testDivisible reports whether num divides v.
func testDivisible(p *params, v value) (bool, error) {
	return hasRemainder(p.r, v, p.values[0], 0)
}

// hasRemainder evaluates v % divisor, which fails if v is not a number.
func hasRemainder(r *renderer, v, divisor value, want int64) (bool, error) {
	rest, err := r.binary("%", v, divisor)
	if err != nil {
		return false, err
	}
	return r.equal(rest, want)
}

// testSameAs implements Python's "is": containers compare by identity, other values by
// equality.
func testSameAs(p *params, v value) (bool, error) {
	if s, ok := plain(v).(string); ok {
		other, isText := plain(p.values[0]).(string)
		return isText && s == other, p.r.chargeScan(len(s))
	}
	return v == p.values[0], nil
}

// testIsFilter reports whether v is the name of a filter, so a template can check for a
// filter before it uses it.
func testIsFilter(p *params, v value) (bool, error) {
	name, _ := plain(v).(string)
	_, ok := p.r.filters[name]
	return ok, nil
}

// testIsTest reports whether v is the name of a test.
func testIsTest(p *params, v value) (bool, error) {
	name, _ := plain(v).(string)
	_, ok := p.r.tests[name]
	return ok, nil
}
