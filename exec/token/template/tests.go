package template

import (
	"strings"
	"unicode"
)

// testFunc computes "v is name(args)".
type testFunc func(c *call, v value) (bool, error)

// tests are Jinja's built-in tests.
var tests = map[string]testFunc{
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
	"divisibleby": testDivisible,
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
	"sameas":      testSame,
	"filter":      func(c *call, v value) (bool, error) { return named(c, v, hasFilterIn(c.r)) },
	"test":        func(c *call, v value) (bool, error) { return named(c, v, hasTestIn(c.r)) },
}

func hasTest(name string) bool { return tests[name] != nil }

func hasFilterIn(r *run) func(string) bool {
	return func(name string) bool { return r.filters[name] != nil }
}

func hasTestIn(r *run) func(string) bool {
	return func(name string) bool { return r.tests[name] != nil }
}

func unknownTest(name string) error {
	return &Error{Kind: ErrUnsupported, Construct: "test '" + name + "'", Reason: "no test of this name is available"}
}

// applyTest runs a test by name.
func (r *run) applyTest(name string, v value, args []value, keywords []keyword) (bool, error) {
	t := r.tests[name]
	if t == nil {
		return false, unknownTest(name)
	}
	return t(&call{r, name, args, keywords}, v)
}

// ofType makes a test without arguments.
func ofType(holds func(value) bool) testFunc {
	return func(c *call, v value) (bool, error) {
		_, err := c.bind(0)
		return err == nil && holds(v), err
	}
}

func isUndefined(v value) bool { _, ok := v.(*undefined); return ok }

func isInteger(v value) bool {
	switch v.(type) {
	case int64, bigInt:
		return true
	}
	return false
}

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
func comparing(op string) testFunc {
	return func(c *call, v value) (bool, error) {
		p, err := c.bind(1, "other")
		if err != nil {
			return false, err
		}
		return c.r.compare(op, v, p.values[0])
	}
}

// testCase holds when s has letters of the wanted case and none of the other.
func testCase(want, other func(rune) bool) testFunc {
	return func(c *call, v value) (bool, error) {
		if _, err := c.bind(0); err != nil {
			return false, err
		}
		s, err := textOperand(c, v)
		return strings.ContainsFunc(s, want) && !strings.ContainsFunc(s, other), err
	}
}

func testRemainder(divisor, want int64) testFunc {
	return func(c *call, v value) (bool, error) {
		if _, err := c.bind(0); err != nil {
			return false, err
		}
		return hasRemainder(c, v, divisor, want)
	}
}

func testDivisible(c *call, v value) (bool, error) {
	p, err := c.bind(1, "num")
	if err != nil {
		return false, err
	}
	return hasRemainder(c, v, p.values[0], 0)
}

func hasRemainder(c *call, v, divisor value, want int64) (bool, error) {
	rest, err := c.r.binary("%", v, divisor)
	if err != nil {
		return false, err
	}
	return c.r.equal(rest, want)
}

// testSame is Python's "is": identity for containers, equality for the rest.
func testSame(c *call, v value) (bool, error) {
	p, err := c.bind(1, "other")
	if err != nil {
		return false, err
	}
	if s, ok := plain(v).(string); ok {
		other, isText := plain(p.values[0]).(string)
		return isText && s == other, c.r.scan(len(s))
	}
	return v == p.values[0], nil
}

func named(c *call, v value, exists func(string) bool) (bool, error) {
	if _, err := c.bind(0); err != nil {
		return false, err
	}
	name, ok := plain(v).(string)
	return ok && exists(name), nil
}
