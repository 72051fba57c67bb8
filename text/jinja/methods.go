package jinja

import (
	"math"
	"slices"
)

// method implements a method of a Python type other than str.
type method = builtin[value, value]

// boundMethod is a method bound to its receiver.
type boundMethod func(c *call) (value, error)

// blockedMethods lists the methods that modify a value. As in Jinja's immutable
// sandbox, such a method is an undefined value, which fails when it is called.
var blockedMethods = map[string][]string{
	"dict": {"clear", "pop", "popitem", "setdefault", "update"},
	"list": {"append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"},
}

// isBlocked reports whether the sandbox blocks the method name of v.
func isBlocked(v value, name string) bool {
	return slices.Contains(blockedMethods[typeName(v)], name)
}

// findMethod returns a method of v's type, or nil.
func findMethod(v value, name string) boundMethod {
	switch v := v.(type) {
	case string:
		return findStringMethod(v, name)
	case markup:
		return findStringMethod(string(v), name)
	case *dict:
		return bindMethod(dictMethods, v, name)
	case *list, *tuple, *rangeValue:
		return bindMethod(sequenceMethods, v, name)
	case float64:
		return bindMethod(floatMethods, v, name)
	}
	return nil
}

// findStringMethod returns a method of str bound to s, or nil.
func findStringMethod(s, name string) boundMethod {
	// format itself reads attributes. Its entry in stringMethods, which the lookup of
	// attributes uses, would be an initialization cycle.
	if name == "format" {
		return func(c *call) (value, error) { return c.r.formatBraces(s, c.args, c.keywords) }
	}
	m, ok := stringMethods[name]
	if !ok {
		return nil
	}
	return func(c *call) (value, error) { return m.apply(c, s) }
}

// bindMethod binds the method name to v. It returns nil for an unknown name.
func bindMethod(methods map[string]method, v value, name string) boundMethod {
	m, ok := methods[name]
	if !ok {
		return nil
	}
	return func(c *call) (value, error) { return m.apply(c, v) }
}

// The methods per type. Names that end with ? are optional parameters.
var dictMethods = map[string]method{
	"get":    withParams(dictGet, "key", "default?"),
	"items":  withParams(dictItems),
	"keys":   withParams(dictItems),
	"values": withParams(dictItems),
	"copy":   withParams(unchanged),
}

var sequenceMethods = map[string]method{
	"count": withParams(sequenceCount, "value"),
	"index": withParams(sequenceIndex, "value"),
	"copy":  withParams(unchanged),
}

var floatMethods = map[string]method{
	"is_integer": withParams(func(_ *params, v value) (value, error) {
		f := v.(float64)
		return f == math.Trunc(f), nil
	}),
}

// unchanged implements copy(). Values are immutable, so the copy is the value.
func unchanged(_ *params, v value) (value, error) { return v, nil }

// dictGet implements get(). It fails for a key that is not hashable. In contrast,
// subscript finds nothing for such a key.
func dictGet(p *params, v value) (value, error) {
	d := v.(*dict)
	i, err := d.find(plain(p.values[0]))
	if err != nil || i < 0 {
		return p.orDefault(1, nil), err
	}
	return d.values[i], nil
}

// dictItems implements items(), keys() and values(). The name of the call selects one.
func dictItems(p *params, v value) (value, error) {
	return &dictView{v.(*dict), p.name}, nil
}

// sequenceCount counts the items that equal its argument.
func sequenceCount(p *params, v value) (value, error) {
	n := int64(0)
	return n, p.r.forEach(v, func(item value) error {
		equal, err := p.r.equal(item, p.values[0])
		if equal {
			n++
		}
		return err
	})
}

// sequenceIndex returns the position of the first item that equals its argument.
func sequenceIndex(p *params, v value) (value, error) {
	items, err := p.r.sequence(v)
	if err != nil {
		return nil, err
	}
	for i, item := range items {
		if equal, err := p.r.equal(item, p.values[0]); err != nil || equal {
			return int64(i), err
		}
	}
	return nil, runtimeErrorf("%s is not in list", reprShort(p.values[0]))
}
