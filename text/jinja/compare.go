package jinja

import (
	"math/big"
	"strings"
)

// compare evaluates one comparison operator.
func (r *renderer) compare(op string, l, rv value) (bool, error) {
	l, rv = plain(l), plain(rv)
	switch op {
	case "==":
		return r.equal(l, rv)
	case "!=":
		same, err := r.equal(l, rv)
		return !same, err
	case "in":
		return r.contains(rv, l)
	case "not in":
		found, err := r.contains(rv, l)
		return !found, err
	}
	order, err := r.order(op, l, rv, 0)
	if err != nil {
		return false, err
	}
	switch op {
	case "<":
		return order == less, nil
	case "<=":
		return order == less || order == same, nil
	case ">":
		return order == greater, nil
	}
	return order == greater || order == same, nil
}

// equal implements Python's ==.
func (r *renderer) equal(a, b value) (bool, error) { return r.equalDepth(a, b, 0) }

// equalDepth compares containers item by item. depth ends the comparison of cycles.
// Each item costs a step, because a shared item is compared once per reference.
func (r *renderer) equalDepth(a, b value, depth int) (bool, error) {
	if depth > maxValueDepth {
		return false, limitErrorf("compared values nest deeper than %d", maxValueDepth)
	}
	if err := r.chargeSteps(1); err != nil {
		return false, err
	}
	a, b = plain(a), plain(b)
	switch x := a.(type) {
	case nil:
		return b == nil, nil
	case string:
		y, ok := b.(string)
		if !ok || len(x) != len(y) {
			return false, nil
		}
		return x == y, r.chargeScan(len(x))
	case *undefined:
		_, ok := b.(*undefined)
		return ok, nil
	case *list:
		y, ok := b.(*list)
		return r.equalItems(ok, x.items, func() []value { return y.items }, depth)
	case *tuple:
		y, ok := b.(*tuple)
		return r.equalItems(ok, x.items, func() []value { return y.items }, depth)
	case *dict:
		y, ok := b.(*dict)
		return r.equalDicts(ok, x, y, depth)
	case *rangeValue:
		y, ok := b.(*rangeValue)
		return ok && equalRanges(x, y), nil
	case bigInt:
		y, ok := b.(bigInt)
		return ok && x == y, nil
	}
	if _, _, _, ok := number(a); ok {
		if _, _, _, ok = number(b); ok {
			return compareNumbers(a, b) == same, nil
		}
		return false, nil
	}
	return a == b, nil // pointers compare by identity
}

// equalItems compares two sequences of the same type. It calls other only if sameType
// is set.
func (r *renderer) equalItems(sameType bool, xs []value, other func() []value, depth int) (bool, error) {
	if !sameType || len(xs) != len(other()) {
		return false, nil
	}
	for i, y := range other() {
		if ok, err := r.equalDepth(xs[i], y, depth+1); err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

// equalDicts compares two dicts. As in Python, the order of keys does not matter.
func (r *renderer) equalDicts(sameType bool, x, y *dict, depth int) (bool, error) {
	if !sameType || len(x.keys) != len(y.keys) {
		return false, nil
	}
	for i, key := range x.keys {
		v, ok := y.get(key)
		if !ok {
			return false, nil
		}
		if ok, err := r.equalDepth(x.values[i], v, depth+1); err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

// equalRanges reports whether two ranges yield the same numbers.
func equalRanges(x, y *rangeValue) bool {
	n := x.len()
	return n == y.len() && (n == 0 || x.start == y.start && (n == 1 || x.stride == y.stride))
}

// ordering is the result of comparing two values.
type ordering int8

const (
	less      ordering = -1
	same      ordering = 0
	greater   ordering = 1
	unordered ordering = 2 // an operand is NaN
)

// order compares two numbers, strings or sequences. op appears in the error message for
// types without an order.
func (r *renderer) order(op string, a, b value, depth int) (ordering, error) {
	if depth > maxValueDepth {
		return unordered, limitErrorf("compared values nest deeper than %d", maxValueDepth)
	}
	if err := r.chargeSteps(1); err != nil {
		return unordered, err
	}
	a, b = plain(a), plain(b)
	for _, v := range []value{a, b} {
		if u, ok := v.(*undefined); ok {
			return unordered, u.err()
		}
	}
	switch x := a.(type) {
	case string:
		if y, ok := b.(string); ok {
			return ordering(strings.Compare(x, y)), r.chargeScan(min(len(x), len(y)))
		}
	case *list:
		if y, ok := b.(*list); ok {
			return r.orderItems(op, x.items, y.items, depth)
		}
	case *tuple:
		if y, ok := b.(*tuple); ok {
			return r.orderItems(op, x.items, y.items, depth)
		}
	default:
		if isNumber(a) && isNumber(b) {
			return compareNumbers(a, b), nil
		}
	}
	return unordered, runtimeErrorf("'%s' not supported between instances of '%s' and '%s'", op, typeName(a), typeName(b))
}

// orderItems orders two sequences by their first different items.
func (r *renderer) orderItems(op string, xs, ys []value, depth int) (ordering, error) {
	for i := range min(len(xs), len(ys)) {
		equal, err := r.equalDepth(xs[i], ys[i], depth+1)
		if err != nil {
			return unordered, err
		}
		if !equal {
			return r.order(op, xs[i], ys[i], depth+1)
		}
	}
	return compareNumbers(int64(len(xs)), int64(len(ys))), nil
}

// isNumber reports whether v is a number. As in Python, booleans are integers.
func isNumber(v value) bool {
	if _, ok := v.(bigInt); ok {
		return true
	}
	_, _, _, ok := number(v)
	return ok
}

// compareNumbers orders two numbers exactly, including integers with more than 64 bits.
func compareNumbers(a, b value) ordering {
	i, f, aInt, aOK := number(a)
	j, g, bInt, bOK := number(b)
	switch {
	case aOK && bOK && aInt && bInt:
		return orderingOf(i < j, i > j)
	case aOK && bOK && !aInt && !bInt, f != f || g != g:
		if f != f || g != g {
			return unordered
		}
		return orderingOf(f < g, f > g)
	}
	x, y := exactFloat(a), exactFloat(b)
	return ordering(x.Cmp(y))
}

// orderingOf converts the results of two comparisons to an ordering.
func orderingOf(isLess, isGreater bool) ordering {
	switch {
	case isLess:
		return less
	case isGreater:
		return greater
	}
	return same
}

// exactFloat converts a number without rounding. v must not be NaN.
func exactFloat(v value) *big.Float {
	if digits, ok := v.(bigInt); ok {
		i, _ := new(big.Int).SetString(string(digits), 10)
		return new(big.Float).SetInt(i)
	}
	i, f, isInt, _ := number(v)
	if isInt {
		return new(big.Float).SetInt64(i)
	}
	return big.NewFloat(f)
}

// contains implements Python's "item in container".
func (r *renderer) contains(container, item value) (bool, error) {
	switch c := container.(type) {
	case string:
		s, ok := item.(string)
		if !ok {
			return false, runtimeErrorf("'in <string>' requires string as left operand, not %s", typeName(item))
		}
		return strings.Contains(c, s), r.chargeScan(len(c) + len(s))
	case *dict:
		i, err := c.find(item)
		return i >= 0, err
	case *dictView:
		if c.kind == "keys" {
			i, err := c.dict.find(item)
			return i >= 0, err
		}
	}
	it, err := iterate(container)
	if err != nil {
		return false, runtimeErrorf("argument of type '%s' is not iterable", typeName(container))
	}
	for {
		v, ok, err := it.next()
		if err != nil || !ok {
			return false, err
		}
		if found, err := r.equal(v, item); err != nil || found {
			return found, err
		}
	}
}
