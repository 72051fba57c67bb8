package template

import (
	"math"
	"slices"
)

// method implements v.name(args) for a Python type.
type method func(c *call, v value) (value, error)

// refusedMethods change a value or reach outside the sandbox; as in Jinja's
// immutable sandbox they exist only as undefined values that fail when called.
var refusedMethods = map[string][]string{
	"dict": {"clear", "pop", "popitem", "setdefault", "update"},
	"list": {"append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"},
}

func refused(v value, name string) bool {
	return slices.Contains(refusedMethods[typeName(v)], name)
}

// findMethod returns a method of v's type, or nil.
func findMethod(v value, name string) method {
	switch v.(type) {
	case string, markup:
		// format reads attributes itself, so it cannot stand in the table that
		// reading attributes consults.
		if name == "format" {
			return func(c *call, v value) (value, error) { return c.r.formatBraces(plain(v).(string), c.args, c.keywords) }
		}
		if m, ok := stringMethods[name]; ok {
			return func(c *call, v value) (value, error) { return m(c, plain(v).(string)) }
		}
	case *dict:
		return dictMethods[name]
	case *list, *tuple, *span:
		return sequenceMethods[name]
	case float64:
		return floatMethods[name]
	}
	return nil
}

var dictMethods = map[string]method{
	"get":    dictGet,
	"items":  dictItems,
	"keys":   dictItems,
	"values": dictItems,
	"copy":   unchanged,
}

var sequenceMethods = map[string]method{
	"count": sequenceCount,
	"index": sequenceIndex,
	"copy":  unchanged,
}

var floatMethods = map[string]method{
	"is_integer": func(c *call, v value) (value, error) {
		f := v.(float64)
		_, err := c.bind(0)
		return f == math.Trunc(f), err
	},
}

// unchanged is copy(): values never change, so the copy is the value itself.
func unchanged(c *call, v value) (value, error) {
	_, err := c.bind(0)
	return v, err
}

func dictGet(c *call, v value) (value, error) {
	p, err := c.bind(1, "key", "default")
	if err != nil {
		return nil, err
	}
	d := v.(*dict)
	i, err := d.find(plain(p.values[0]))
	if err != nil || i < 0 {
		return p.or(1, nil), err
	}
	return d.values[i], nil
}

// dictItems is items(), keys() or values(), by the name it was called by.
func dictItems(c *call, v value) (value, error) {
	_, err := c.bind(0)
	return &dictView{v.(*dict), c.name}, err
}

func sequenceCount(c *call, v value) (value, error) {
	p, err := c.bind(1, "value")
	if err != nil {
		return nil, err
	}
	n := int64(0)
	return n, c.r.each(v, func(item value) error {
		equal, err := c.r.equal(item, p.values[0])
		if equal {
			n++
		}
		return err
	})
}

func sequenceIndex(c *call, v value) (value, error) {
	p, err := c.bind(1, "value")
	if err != nil {
		return nil, err
	}
	items, err := c.r.sequence(v)
	if err != nil {
		return nil, err
	}
	for i, item := range items {
		if equal, err := c.r.equal(item, p.values[0]); err != nil || equal {
			return int64(i), err
		}
	}
	return nil, runtimeErrorf("%s is not in list", reprShort(p.values[0]))
}
