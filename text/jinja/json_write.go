package jinja

import (
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// filterToJSON implements Python's json.dumps with ensure_ascii off, the behavior that
// chat templates expect: the separators ", " and ": ", keys in insertion order and no
// HTML escapes.
func filterToJSON(p *params, v value) (value, error) {
	// The first parameter of Jinja's own tojson is the indentation. A first argument
	// that is not a boolean is therefore the indentation.
	if _, isFlag := p.orDefault(0, false).(bool); !isFlag && p.isAbsent(1) {
		p.values[0], p.values[1] = absent{}, p.values[0]
	}
	w := &jsonWriter{m: p.r.meter, itemEnd: ", ", keyEnd: ": ", ascii: p.flag(0), sortKeys: p.flag(3)}
	if indent := p.orDefault(1, nil); indent != nil {
		text, err := indentText(indent)
		if err != nil {
			return nil, err
		}
		w.pretty, w.indent, w.itemEnd = true, text, ","
	}
	if separators := p.orDefault(2, nil); separators != nil {
		if err := w.setSeparators(p.r, separators); err != nil {
			return nil, err
		}
	}
	if err := w.value(v, 0); err != nil {
		return nil, err
	}
	return w.b.String(), nil
}

// jsonWriter writes a value as JSON.
type jsonWriter struct {
	m               *meter
	b               strings.Builder
	itemEnd, keyEnd string
	pretty          bool // one item per line, indented
	indent          string
	ascii, sortKeys bool
}

// setSeparators sets the separators from Python's (item, key) pair.
func (w *jsonWriter) setSeparators(r *renderer, v value) error {
	pair, err := r.sequence(v)
	if err != nil {
		return err
	}
	if len(pair) == 2 {
		item, ok := plain(pair[0]).(string)
		key, ok2 := plain(pair[1]).(string)
		if ok && ok2 {
			w.itemEnd, w.keyEnd = item, key
			return nil
		}
	}
	return runtimeErrorf("tojson: separators must be two strings")
}

// write appends s and charges its length.
func (w *jsonWriter) write(s string) error {
	if w.b.Len()+len(s) > maxOutput {
		return limitErrorf("the JSON of tojson exceeds %d MiB", maxOutput>>20)
	}
	if err := w.m.chargeBytes(len(s)); err != nil {
		return err
	}
	w.b.WriteString(s)
	return nil
}

// newline starts a line with the indentation of depth if pretty is set.
func (w *jsonWriter) newline(depth int) error {
	if !w.pretty {
		return nil
	}
	// The check precedes the allocation of the indentation.
	if len(w.indent)*depth > maxOutput {
		return limitErrorf("the JSON of tojson exceeds %d MiB", maxOutput>>20)
	}
	return w.write("\n" + strings.Repeat(w.indent, depth))
}

// value writes a value. depth ends the traversal of cycles.
func (w *jsonWriter) value(v value, depth int) error {
	if depth > maxValueDepth {
		return limitErrorf("the value of tojson nests deeper than %d", maxValueDepth)
	}
	if err := w.m.chargeSteps(1); err != nil {
		return err
	}
	switch v := v.(type) {
	case *list:
		return w.array(v.items, depth)
	case *tuple:
		return w.array(v.items, depth)
	case *dict:
		return w.object(v, depth)
	case string:
		return w.text(v)
	case markup:
		return w.text(string(v))
	}
	s, ok := jsonScalar(v)
	if !ok {
		return runtimeErrorf("Object of type %s is not JSON serializable", typeName(v))
	}
	return w.write(s)
}

// jsonScalar formats a number, a boolean or null. The result is false for other values.
func jsonScalar(v value) (string, bool) {
	switch v := v.(type) {
	case nil:
		return "null", true
	case bool:
		if v {
			return "true", true
		}
		return "false", true
	case int64:
		return formatInt(v), true
	case bigInt:
		return string(v), true
	case float64:
		switch {
		case math.IsNaN(v):
			return "NaN", true
		case math.IsInf(v, 1):
			return "Infinity", true
		case math.IsInf(v, -1):
			return "-Infinity", true
		}
		return formatFloat(v), true
	}
	return "", false
}

// array writes a list or tuple.
func (w *jsonWriter) array(items []value, depth int) error {
	if len(items) == 0 {
		return w.write("[]")
	}
	separator := "["
	for _, item := range items {
		if err := w.write(separator); err != nil {
			return err
		}
		if err := w.newline(depth + 1); err != nil {
			return err
		}
		if err := w.value(item, depth+1); err != nil {
			return err
		}
		separator = w.itemEnd
	}
	if err := w.newline(depth); err != nil {
		return err
	}
	return w.write("]")
}

// object writes the pairs in insertion order, or sorted.
func (w *jsonWriter) object(d *dict, depth int) error {
	if len(d.keys) == 0 {
		return w.write("{}")
	}
	order, err := w.keyOrder(d)
	if err != nil {
		return err
	}
	separator := "{"
	for _, i := range order {
		if err := w.write(separator); err != nil {
			return err
		}
		if err := w.newline(depth + 1); err != nil {
			return err
		}
		if err := w.key(d.keys[i]); err != nil {
			return err
		}
		if err := w.value(d.values[i], depth+1); err != nil {
			return err
		}
		separator = w.itemEnd
	}
	if err := w.newline(depth); err != nil {
		return err
	}
	return w.write("}")
}

// keyOrder returns the positions of the pairs of d in output order.
func (w *jsonWriter) keyOrder(d *dict) ([]int, error) {
	if err := w.m.chargeSlots(len(d.keys)); err != nil {
		return nil, err
	}
	order := make([]int, len(d.keys))
	sortable := true
	for i, key := range d.keys {
		_, isText := key.(string)
		order[i], sortable = i, sortable && isText
	}
	if !w.sortKeys {
		return order, nil
	}
	if !sortable {
		return nil, runtimeErrorf("tojson: sort_keys needs keys that are strings")
	}
	slices.SortFunc(order, func(a, b int) int {
		return strings.Compare(d.keys[a].(string), d.keys[b].(string))
	})
	return order, nil
}

// key writes a key. As in Python, numbers and constants become strings.
func (w *jsonWriter) key(key value) error {
	s, ok := key.(string)
	if !ok {
		if s, ok = jsonScalar(key); !ok {
			return runtimeErrorf("keys must be str, int, float, bool or None, not %s", typeName(key))
		}
	}
	if err := w.text(s); err != nil {
		return err
	}
	return w.write(w.keyEnd)
}

// text writes a string with JSON escapes.
func (w *jsonWriter) text(s string) error {
	if err := w.write(`"`); err != nil {
		return err
	}
	from := 0
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r >= ' ' && r != '"' && r != '\\' && !(w.ascii && r > '~') {
			i += n
			continue
		}
		if err := w.write(s[from:i]); err != nil {
			return err
		}
		if err := w.write(jsonEscape(r)); err != nil {
			return err
		}
		i += n
		from = i
	}
	if err := w.write(s[from:]); err != nil {
		return err
	}
	return w.write(`"`)
}

// jsonEscape escapes a character, with the short escape if JSON has one.
func jsonEscape(r rune) string {
	switch r {
	case '"':
		return `\"`
	case '\\':
		return `\\`
	case '\n':
		return `\n`
	case '\r':
		return `\r`
	case '\t':
		return `\t`
	case '\b':
		return `\b`
	case '\f':
		return `\f`
	}
	if r >= 0x10000 { // encode as a surrogate pair
		r -= 0x10000
		return jsonEscape(0xd800+r>>10) + jsonEscape(0xdc00+r&0x3ff)
	}
	const hex = "0123456789abcdef"
	return `\u` + string([]byte{hex[r>>12&15], hex[r>>8&15], hex[r>>4&15], hex[r&15]})
}
