package jinja

import (
	"math"
	"strconv"
	"strings"
)

// formatText truncates s to the precision and pads it to the width.
func (r *renderer) formatText(sp spec, s string) (string, error) {
	if sp.precision >= 0 && sp.precision < runeCount(s) {
		s = s[:runeOffset(s, sp.precision)]
	}
	return r.pad(s, sp.width, sp.fill, sp.align)
}

// formatInteger formats i in base 10, 16, 8 or 2.
func (r *renderer) formatInteger(sp spec, i int64) (string, error) {
	base, prefix := 10, ""
	switch sp.verb {
	case 'x', 'X':
		base, prefix = 16, "0"+string(sp.verb)
	case 'o':
		base, prefix = 8, "0o"
	case 'b':
		base, prefix = 2, "0b"
	}
	// The unsigned negation is also correct for the minimum integer.
	magnitude := uint64(i)
	if i < 0 {
		magnitude = -magnitude
	}
	digits := strconv.FormatUint(magnitude, base)
	if sp.verb == 'X' {
		digits = strings.ToUpper(digits)
	}
	if missing := sp.precision - len(digits); missing > 0 {
		digits = strings.Repeat("0", missing) + digits
	}
	if !sp.alternate {
		prefix = ""
	}
	return r.padNumber(sp, i < 0, prefix, groupThousands(digits, sp.comma))
}

// formatReal formats f for the verbs e, f, g and %.
func (r *renderer) formatReal(sp spec, f float64) (string, error) {
	precision, verb, suffix := sp.precision, sp.verb, ""
	if precision < 0 {
		precision = 6
	}
	if verb == '%' {
		f, verb, suffix = f*100, 'f', "%"
	}
	negative := math.Signbit(f)
	digits := ""
	switch {
	case math.IsNaN(f):
		digits, negative = "nan", false
	case math.IsInf(f, 0):
		digits = "inf"
	case verb == 'g' || verb == 'G':
		digits = formatGeneral(math.Abs(f), max(precision, 1), sp.alternate)
	default:
		digits = strconv.FormatFloat(math.Abs(f), verb|0x20, precision, 64)
	}
	if verb >= 'A' && verb <= 'Z' {
		digits = strings.ToUpper(digits)
	}
	return r.padNumber(sp, negative, "", groupThousands(digits, sp.comma)+suffix)
}

// formatUntyped formats f for a str.format directive with a precision but without a
// type. It formats like g and adds at least one digit after the point.
func (r *renderer) formatUntyped(sp spec, f float64) (string, error) {
	switch {
	case math.IsNaN(f):
		return r.padNumber(sp, false, "", "nan")
	case math.IsInf(f, 0):
		return r.padNumber(sp, math.Signbit(f), "", "inf")
	}
	digits := formatGeneral(math.Abs(f), max(sp.precision, 1), sp.alternate)
	if !strings.ContainsAny(digits, ".e") {
		digits += ".0"
	}
	return r.padNumber(sp, math.Signbit(f), "", groupThousands(digits, sp.comma))
}

// formatGeneral implements C's %g: precision significant digits, and an exponent below
// 1e-4 and from 10^precision. It removes trailing zeros unless keepZeros is set.
func formatGeneral(f float64, precision int, keepZeros bool) string {
	s := strconv.FormatFloat(f, 'e', precision-1, 64)
	mark := strings.IndexByte(s, 'e')
	exponent, _ := strconv.Atoi(s[mark+1:]) // FormatFloat's output always parses
	tail := s[mark:]
	if exponent >= -4 && exponent < precision {
		s, tail = strconv.FormatFloat(f, 'f', precision-1-exponent, 64), ""
	} else {
		s = s[:mark]
	}
	if !keepZeros && strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s + tail
}

// groupThousands inserts a separator between groups of three digits before the point.
func groupThousands(digits string, separator byte) string {
	if separator == 0 {
		return digits
	}
	integer, rest := digits, ""
	if i := strings.IndexAny(digits, ".e"); i >= 0 {
		integer, rest = digits[:i], digits[i:]
	}
	var b strings.Builder
	for i := range len(integer) {
		if i > 0 && (len(integer)-i)%3 == 0 {
			b.WriteByte(separator)
		}
		b.WriteByte(integer[i])
	}
	return b.String() + rest
}

// padNumber adds the sign and the prefix and pads the number. With align '=' the
// padding is between the prefix and the digits.
func (r *renderer) padNumber(sp spec, negative bool, prefix, digits string) (string, error) {
	sign := ""
	if negative {
		sign = "-"
	} else if sp.sign == '+' || sp.sign == ' ' {
		sign = string(sp.sign)
	}
	if sp.align != '=' {
		return r.pad(sign+prefix+digits, sp.width, sp.fill, sp.align)
	}
	padded, err := r.pad(digits, sp.width-len(sign)-len(prefix), sp.fill, '>')
	return sign + prefix + padded, err
}
