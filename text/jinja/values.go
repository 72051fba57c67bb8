package jinja

import (
	"math"
	"math/big"
	"strconv"
)

// A value has one of these types: nil (None), bool, int64, float64, bigInt, string,
// markup, *list, *tuple, *dict, *dictView, *rangeValue, *iterator (a lazy sequence),
// *undefined, *namespace, *function, *macro, *loop or *cycler. Values are immutable
// except for namespaces and the positions of iterators, loops and cyclers.
type value = any

// list is a Python list. Its pointer is its identity.
type list struct{ items []value }

// tuple is a Python tuple. names, if not nil, makes the items available as attributes
// (for groupby).
type tuple struct {
	items []value
	names []string
}

// bigInt is an integer with more than 64 bits, stored as decimal digits. Messages may
// contain such an integer. It prints unchanged and does not support arithmetic.
type bigInt string

// markup is a string that |safe or |escape has marked. As in Jinja, adding a plain
// string to it escapes that string. Otherwise it behaves like a string.
type markup string

// undefined is the value of a name, attribute or item that does not exist. It prints as
// the empty string and is false. Most other operations fail with reason.
type undefined struct {
	reason string
}

// namespace is the mutable object whose attributes {% set ns.x = … %} assigns.
type namespace struct{ attrs *dict }

// rangeValue is Python's range object.
type rangeValue struct{ start, stop, stride int64 }

// len computes the length without iterating.
func (s *rangeValue) len() int {
	switch {
	case s.stride > 0 && s.start < s.stop:
		return int((s.stop-s.start-1)/s.stride) + 1
	case s.stride < 0 && s.start > s.stop:
		return int((s.start-s.stop-1)/-s.stride) + 1
	}
	return 0
}

func (s *rangeValue) at(i int) value { return s.start + int64(i)*s.stride }

// dictView is the result of dict.items(), keys() or values().
type dictView struct {
	dict *dict
	kind string // "items", "keys" or "values"
}

// at returns key i, value i or pair i of the dict.
func (v *dictView) at(i int) value {
	switch v.kind {
	case "keys":
		return v.dict.keys[i]
	case "values":
		return v.dict.values[i]
	}
	return &tuple{items: []value{v.dict.keys[i], v.dict.values[i]}}
}

// function is a callable implemented in Go.
type function struct {
	name string
	call func(c *call) (value, error)
}

// plain converts markup to a string. Other values stay unchanged.
func plain(v value) value {
	if m, ok := v.(markup); ok {
		return string(m)
	}
	return v
}

// truthy implements Python's bool().
func truthy(v value) bool {
	switch v := v.(type) {
	case nil, *undefined:
		return false
	case bool:
		return v
	case int64:
		return v != 0
	case float64:
		return v != 0
	case string:
		return v != ""
	case markup:
		return v != ""
	}
	if n, ok := length(v); ok {
		return n > 0
	}
	return true
}

// length implements Python's len(). The length of a string is its number of characters.
// ok is false for values without a length.
func length(v value) (n int, ok bool) {
	switch v := v.(type) {
	case string:
		return runeCount(v), true
	case markup:
		return runeCount(string(v)), true
	case *list:
		return len(v.items), true
	case *tuple:
		return len(v.items), true
	case *dict:
		return len(v.keys), true
	case *dictView:
		return len(v.dict.keys), true
	case *rangeValue:
		return v.len(), true
	case *undefined:
		return 0, true
	}
	return 0, false
}

// typeName returns the name of v's Python type for error messages.
func typeName(v value) string {
	switch v := v.(type) {
	case nil:
		return "NoneType"
	case bool:
		return "bool"
	case int64, bigInt:
		return "int"
	case float64:
		return "float"
	case string:
		return "str"
	case markup:
		return "Markup"
	case *list:
		return "list"
	case *tuple:
		return "tuple"
	case *dict:
		return "dict"
	case *dictView:
		return "dict_" + v.kind
	case *rangeValue:
		return "range"
	case *iterator:
		return "generator"
	case *undefined:
		return "Undefined"
	case *namespace:
		return "Namespace"
	case *macro:
		return "Macro"
	case *loop:
		return "LoopContext"
	case *cycler:
		return "Cycler"
	}
	return "function"
}

// number returns v as an integer and a float. ok is false if v is not a number. As in
// Python, booleans count as 0 and 1.
func number(v value) (i int64, f float64, isInt, ok bool) {
	switch v := v.(type) {
	case bool:
		if v {
			return 1, 1, true, true
		}
		return 0, 0, true, true
	case int64:
		return v, float64(v), true, true
	case float64:
		return 0, v, false, true
	}
	return 0, 0, false, false
}

// parseInteger parses a literal of base 2, 8, 10 or 16.
func parseInteger(s string) (value, error) {
	if i, err := strconv.ParseInt(s, 0, 64); err == nil {
		return i, nil
	}
	if len(s) > 1 && s[0] == '0' {
		return nil, &Error{Kind: ErrSyntax, Reason: "the number " + strconv.Quote(s) + " is malformed"}
	}
	return nil, limitErrorf("the number %.40s… exceeds 64 bits", s)
}

// floatToInt truncates f towards zero.
func floatToInt(f float64) (value, error) {
	switch {
	case math.IsNaN(f):
		return nil, runtimeErrorf("cannot convert float NaN to integer")
	case math.IsInf(f, 0):
		return nil, runtimeErrorf("cannot convert float infinity to integer")
	case math.Abs(f) < math.MaxInt64:
		return int64(f), nil
	}
	i, _ := big.NewFloat(f).Int(nil)
	return bigInt(i.String()), nil
}
