package jinja

import (
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// runeCount returns the number of characters. Each invalid byte counts as one.
func runeCount(s string) int { return utf8.RuneCountInString(s) }

// isASCII reports whether every character of s is a single byte. This common case needs
// no decoding.
func isASCII(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func formatInt(i int64) string { return strconv.FormatInt(i, 10) }

// formatFloat implements Python's repr of a float: the shortest digits that parse to
// the same value, with an exponent below 1e-4 and from 1e16.
func formatFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	}
	s := strconv.FormatFloat(f, 'e', -1, 64)
	exponent, _ := strconv.Atoi(s[strings.IndexByte(s, 'e')+1:])
	if f != 0 && (exponent < -4 || exponent >= 16) {
		return s
	}
	s = strconv.FormatFloat(f, 'f', -1, 64)
	if strings.IndexByte(s, '.') < 0 {
		s += ".0"
	}
	return s
}

// str implements Python's str(), which {{ v }} prints. An undefined value becomes the
// empty string.
func (m *meter) str(v value) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case markup:
		return string(v), nil
	case *undefined:
		return "", nil
	case int64:
		return formatInt(v), nil
	}
	w := &reprWriter{m: m}
	if err := w.repr(v, 0); err != nil {
		return "", err
	}
	return w.b.String(), nil
}

// reprWriter writes Python's repr() of a value.
type reprWriter struct {
	m *meter
	b strings.Builder
}

// write appends s and charges its length.
func (w *reprWriter) write(s string) error {
	if w.b.Len()+len(s) > maxOutput {
		return limitErrorf("a printed value exceeds %d MiB", maxOutput>>20)
	}
	w.b.WriteString(s)
	return w.m.chargeBytes(len(s))
}

// repr writes a value. depth ends the traversal of cycles.
func (w *reprWriter) repr(v value, depth int) error {
	if depth > maxValueDepth {
		return limitErrorf("a printed value nests deeper than %d", maxValueDepth)
	}
	switch v := v.(type) {
	case *list:
		return w.sequence("[", v.items, "]", depth)
	case *tuple:
		if len(v.items) == 1 {
			return w.sequence("(", v.items, ",)", depth)
		}
		return w.sequence("(", v.items, ")", depth)
	case *dict:
		return w.dict(v, depth)
	case *dictView:
		items := make([]value, len(v.dict.keys))
		if err := w.m.chargeSlots(len(items)); err != nil {
			return err
		}
		for i := range items {
			items[i] = v.at(i)
		}
		return w.sequence("dict_"+v.kind+"([", items, "])", depth)
	case *namespace:
		if err := w.write("<Namespace "); err != nil {
			return err
		}
		if err := w.dict(v.attrs, depth); err != nil {
			return err
		}
		return w.write(">")
	}
	return w.write(reprScalar(v))
}

// sequence writes items between two brackets.
func (w *reprWriter) sequence(open string, items []value, end string, depth int) error {
	if err := w.write(open); err != nil {
		return err
	}
	for i, item := range items {
		if i > 0 {
			if err := w.write(", "); err != nil {
				return err
			}
		}
		if err := w.repr(item, depth+1); err != nil {
			return err
		}
	}
	return w.write(end)
}

// dict writes the pairs in insertion order.
func (w *reprWriter) dict(d *dict, depth int) error {
	separator := "{"
	for i, key := range d.keys {
		if err := w.write(separator); err != nil {
			return err
		}
		if err := w.repr(key, depth+1); err != nil {
			return err
		}
		if err := w.write(": "); err != nil {
			return err
		}
		if err := w.repr(d.values[i], depth+1); err != nil {
			return err
		}
		separator = ", "
	}
	if len(d.keys) == 0 {
		return w.write("{}")
	}
	return w.write("}")
}

// reprScalar implements repr() for values other than containers.
func reprScalar(v value) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		if v {
			return "True"
		}
		return "False"
	case int64:
		return formatInt(v)
	case bigInt:
		return string(v)
	case float64:
		return formatFloat(v)
	case string:
		return quote(v)
	case markup:
		return "Markup(" + quote(string(v)) + ")"
	case *rangeValue:
		s := "range(" + formatInt(v.start) + ", " + formatInt(v.stop)
		if v.stride != 1 {
			s += ", " + formatInt(v.stride)
		}
		return s + ")"
	case *undefined:
		return "Undefined"
	case *macro:
		return "<Macro " + quote(v.def.name) + ">"
	case *function:
		return "<function " + v.name + ">"
	}
	return "<" + typeName(v) + " object>"
}

// quote implements Python's repr() of a string. The quotes are single unless s contains
// single but no double quotes.
func quote(s string) string {
	q := byte('\'')
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		q = '"'
	}
	var b strings.Builder
	b.Grow(len(s) + 2)
	b.WriteByte(q)
	for _, r := range s {
		switch {
		case r == rune(q) || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			b.WriteString(escapeRune(r))
		}
	}
	b.WriteByte(q)
	return b.String()
}

// escapeRune escapes a non-printable character as \xNN, \uNNNN or \UNNNNNNNN.
func escapeRune(r rune) string {
	kind, digits := `\U`, 8
	switch {
	case r < 0x100:
		kind, digits = `\x`, 2
	case r < 0x10000:
		kind, digits = `\u`, 4
	}
	hex := strconv.FormatInt(int64(r), 16)
	return kind + strings.Repeat("0", digits-len(hex)) + hex
}
