package jinja

import (
	"math"
	"math/big"
	"strconv"
)

// A value is one of: nil (None), bool, int64, float64, bigInt, string, markup,
// *list, *tuple, *dict, *dictView, *span (a range), *iterator (a lazy sequence),
// *undefined, *namespace, *function, *macro, *loop, *cycler. Values are immutable
// except namespaces and the position of iterators, loops and cyclers.
type value = any

// list is a Python list; identity is the pointer.
type list struct{ items []value }

// tuple is a Python tuple; names label its items as attributes where set (groupby).
type tuple struct {
	items []value
	names []string
}

// bigInt is an integer beyond 64 bits, kept as decimal digits: messages may carry
// one, and it prints as it came, but takes part in no arithmetic.
type bigInt string

// markup is a string marked by |safe or |escape: adding a plain string to it
// escapes that string, as in Jinja. Elsewhere it acts as a string.
type markup string

// undefined stands for what does not exist. It prints as nothing and is false;
// most uses fail with its message.
type undefined struct {
	reason string
}

// namespace is the mutable object whose attributes {% set ns.x = … %} changes.
type namespace struct{ attrs *dict }

// rangeValue is Python's range object.
type rangeValue struct{ start, stop, stride int64 }

// len counts without running through the range.
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

// dictView is what dict.items(), keys() and values() return.
type dictView struct {
	dict *dict
	kind string // "items", "keys" or "values"
}

func (v *dictView) at(i int) value {
	switch v.kind {
	case "keys":
		return v.dict.keys[i]
	case "values":
		return v.dict.values[i]
	}
	return &tuple{items: []value{v.dict.keys[i], v.dict.values[i]}}
}

// function is a callable that Go implements.
type function struct {
	name string
	call func(c *call) (value, error)
}

// plain turns markup into an ordinary string.
func plain(v value) value {
	if m, ok := v.(markup); ok {
		return string(m)
	}
	return v
}

// truthy is Python's bool().
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

// length is Python's len(), in characters for strings; ok is false for values
// that have none.
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

// typeName is the name of v's Python type, for messages.
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

// number returns v as an integer or a float where it is a number; booleans count
// as 0 and 1, as in Python.
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

// parseInteger reads a literal of base 2, 8, 10 or 16.
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
