package jinja

import (
	"math"
	"strings"
)

// binary evaluates an arithmetic operator.
func (r *renderer) binary(op string, l, rv value) (value, error) {
	if op == "+" {
		if v, ok, err := r.addMarkup(l, rv); ok || err != nil {
			return v, err
		}
	}
	// From here on markup behaves like a string.
	l, rv = plain(l), plain(rv)
	if s, ok := l.(string); ok && op == "%" {
		return r.formatPercent(s, rv)
	}
	for _, v := range []value{l, rv} {
		if u, ok := v.(*undefined); ok {
			return nil, u.err()
		}
	}
	if v, ok, err := r.sequenceOp(op, l, rv); ok || err != nil {
		return v, err
	}
	a, fa, aInt, aOK := number(l)
	b, fb, bInt, bOK := number(rv)
	if !aOK || !bOK {
		return nil, operandError(op, l, rv)
	}
	if aInt && bInt && op != "/" {
		return intOp(op, a, b)
	}
	return floatOp(op, fa, fb)
}

// addMarkup adds two strings of which at least one is markup. It escapes the other one.
// The result is false for other operands.
func (r *renderer) addMarkup(l, rv value) (value, bool, error) {
	lm, lok := l.(markup)
	rm, rok := rv.(markup)
	ls, lText := plain(l).(string)
	rs, rText := plain(rv).(string)
	if !lok && !rok || !lText || !rText {
		return nil, false, nil
	}
	if err := r.chargeString(5*len(ls) + 5*len(rs)); err != nil {
		return nil, false, err
	}
	if !lok {
		lm = escapeHTML(ls)
	}
	if !rok {
		rm = escapeHTML(rs)
	}
	return lm + rm, true, nil
}

// htmlEscaper replaces the characters that MarkupSafe replaces.
var htmlEscaper = strings.NewReplacer("&", "&amp;", ">", "&gt;", "<", "&lt;", "'", "&#39;", `"`, "&#34;")

// escapeHTML escapes like MarkupSafe.
func escapeHTML(s string) markup { return markup(htmlEscaper.Replace(s)) }

// operandError returns the error of a failed operation with Python's message.
func operandError(op string, l, rv value) error {
	if op == "+" {
		switch l.(type) {
		case string, *list, *tuple:
			return runtimeErrorf("can only concatenate %s (not %q) to %s", typeName(l), typeName(rv), typeName(l))
		}
	}
	for _, v := range []value{l, rv} {
		if _, ok := v.(bigInt); ok {
			return limitErrorf("integer arithmetic exceeds 64 bits")
		}
	}
	if op == "*" && (isRepeatable(l) || isRepeatable(rv)) {
		other := rv
		if !isRepeatable(l) {
			other = l
		}
		return runtimeErrorf("can't multiply sequence by non-int of type '%s'", typeName(other))
	}
	if op == "**" {
		op = "** or pow()"
	}
	return runtimeErrorf("unsupported operand type(s) for %s: '%s' and '%s'", op, typeName(l), typeName(rv))
}

// isRepeatable reports whether the operator * can repeat v.
func isRepeatable(v value) bool {
	switch v.(type) {
	case string, *list, *tuple:
		return true
	}
	return false
}

// sequenceOp adds two strings, lists or tuples, or repeats one. The result is false for
// other operands.
func (r *renderer) sequenceOp(op string, l, rv value) (value, bool, error) {
	switch op {
	case "+":
		return r.concatenate(l, rv)
	case "*":
		n, _, isInt, ok := number(rv)
		if ok && isInt {
			return r.repeat(l, n)
		}
		if n, _, isInt, ok = number(l); ok && isInt {
			return r.repeat(rv, n)
		}
	}
	return nil, false, nil
}

// concatenate adds two sequences of the same type.
func (r *renderer) concatenate(l, rv value) (value, bool, error) {
	switch a := l.(type) {
	case string:
		if b, ok := rv.(string); ok {
			if err := r.chargeString(len(a) + len(b)); err != nil {
				return nil, true, err
			}
			return a + b, true, nil
		}
	case *list:
		if b, ok := rv.(*list); ok {
			items, err := r.concatItems(a.items, b.items)
			return &list{items}, true, err
		}
	case *tuple:
		if b, ok := rv.(*tuple); ok {
			items, err := r.concatItems(a.items, b.items)
			return &tuple{items: items}, true, err
		}
	}
	return nil, false, nil
}

// concatItems returns a copy. Lists are immutable, so it cannot extend an operand.
func (r *renderer) concatItems(a, b []value) ([]value, error) {
	if err := r.chargeSlots(len(a) + len(b) + 1); err != nil {
		return nil, err
	}
	return append(append(make([]value, 0, len(a)+len(b)), a...), b...), nil
}

// repeat evaluates v * n for a string, list or tuple.
func (r *renderer) repeat(v value, n int64) (value, bool, error) {
	switch v := v.(type) {
	case string:
		if n <= 0 || v == "" {
			return "", true, nil
		}
		if n > maxOutput {
			return nil, true, r.chargeString(-1)
		}
		if err := r.chargeString(len(v) * int(n)); err != nil {
			return nil, true, err
		}
		return strings.Repeat(v, int(n)), true, nil
	case *list:
		items, err := r.repeatItems(v.items, n)
		return &list{items}, true, err
	case *tuple:
		items, err := r.repeatItems(v.items, n)
		return &tuple{items: items}, true, err
	}
	return nil, false, nil
}

// repeatItems repeats items n times.
func (r *renderer) repeatItems(items []value, n int64) ([]value, error) {
	if n <= 0 || len(items) == 0 {
		return nil, nil
	}
	if n > maxAlloc {
		return nil, r.chargeSlots(-1)
	}
	if err := r.chargeSlots(len(items) * int(n)); err != nil {
		return nil, err
	}
	out := make([]value, 0, len(items)*int(n))
	for range n {
		out = append(out, items...)
	}
	return out, nil
}

// unary evaluates a sign.
func unary(op string, v value) (value, error) {
	if u, ok := v.(*undefined); ok {
		return nil, u.err()
	}
	i, f, isInt, ok := number(v)
	switch {
	case !ok:
		return nil, runtimeErrorf("bad operand type for unary %s: '%s'", op, typeName(v))
	case op == "+" && isInt:
		return i, nil
	case op == "+":
		return f, nil
	case isInt:
		return intOp("-", 0, i)
	}
	return -f, nil
}

// intOp evaluates an operator on integers. Python's integers are unbounded. A result
// beyond 64 bits is an error here.
func intOp(op string, a, b int64) (value, error) {
	switch op {
	case "+":
		if c := a + b; (c > a) == (b > 0) {
			return c, nil
		}
		return nil, overflow()
	case "-":
		if c := a - b; (c < a) == (b > 0) {
			return c, nil
		}
		return nil, overflow()
	case "*":
		return multiply(a, b)
	case "**":
		return power(a, b)
	}
	if b == 0 {
		if op == "%" {
			return nil, runtimeErrorf("integer modulo by zero")
		}
		return nil, runtimeErrorf("integer division or modulo by zero")
	}
	if a == math.MinInt64 && b == -1 {
		if op == "%" {
			return int64(0), nil
		}
		return nil, overflow()
	}
	quotient, rest := a/b, a%b
	if rest != 0 && (rest < 0) != (b < 0) { // Python rounds down, Go rounds towards zero
		quotient, rest = quotient-1, rest+b
	}
	if op == "%" {
		return rest, nil
	}
	return quotient, nil
}

// overflow returns the error for a result beyond 64 bits.
func overflow() error { return limitErrorf("an integer exceeds 64 bits") }

// multiply detects overflow by dividing the product.
func multiply(a, b int64) (value, error) {
	if a == 0 || b == 0 {
		return int64(0), nil
	}
	// The division of the minimum integer by -1 overflows, so the product needs a
	// separate check for these operands.
	c := a * b
	if c/b != a || a == -1 && b == math.MinInt64 || b == -1 && a == math.MinInt64 {
		return nil, overflow()
	}
	return c, nil
}

// power multiplies repeated squares, so it needs at most 63 iterations.
func power(a, b int64) (value, error) {
	if b < 0 {
		return floatOp("**", float64(a), float64(b))
	}
	result, base := value(int64(1)), value(a)
	var err error
	for {
		if b&1 == 1 {
			if result, err = multiply(result.(int64), base.(int64)); err != nil {
				return nil, err
			}
		}
		if b >>= 1; b == 0 {
			return result, nil
		}
		if base, err = multiply(base.(int64), base.(int64)); err != nil {
			return nil, err
		}
	}
}

// floatOp evaluates an operator on floats. As in Python, division by zero is an error,
// and // and % round down.
func floatOp(op string, a, b float64) (value, error) {
	switch op {
	case "+":
		return a + b, nil
	case "-":
		return a - b, nil
	case "*":
		return a * b, nil
	case "**":
		if a == 0 && b < 0 {
			return nil, runtimeErrorf("0.0 cannot be raised to a negative power")
		}
		if a < 0 && b != math.Trunc(b) {
			return nil, runtimeErrorf("a negative number cannot be raised to a fractional power")
		}
		return math.Pow(a, b), nil
	}
	if b == 0 {
		switch op {
		case "/":
			return nil, runtimeErrorf("division by zero")
		case "%":
			return nil, runtimeErrorf("float modulo")
		}
		return nil, runtimeErrorf("float floor division by zero")
	}
	switch op {
	case "/":
		return a / b, nil
	case "//":
		return math.Floor(a / b), nil
	}
	rest := math.Mod(a, b)
	if rest != 0 && (rest < 0) != (b < 0) {
		rest += b
	}
	return rest, nil
}
