package jinja

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
)

// converter converts Go values to template values and counts their bytes.
type converter struct{ size int }

// convert copies v, so the result shares no memory with the caller. field is the path
// of v for error messages.
func (cv *converter) convert(v any, field string, depth int) (value, error) {
	if depth > maxValueDepth {
		return nil, inputErrorf(field, "nests deeper than %d", maxValueDepth)
	}
	// The total size determines the allocation limit of the rendering.
	cv.size += valueSize
	switch v := v.(type) {
	case nil, bool, int64:
		return v, nil
	case string:
		cv.size += len(v)
		return v, nil
	case int:
		return int64(v), nil
	case int32:
		return int64(v), nil
	case float32:
		return float64(v), nil
	case float64:
		return v, nil
	case json.Number:
		return convertNumber(v, field)
	case Message:
		return cv.message(v)
	case *Object:
		return cv.object(v.Keys(), v.values, field, depth)
	// Go maps have no order. Sorting makes the output deterministic.
	case map[string]any:
		keys := make([]string, 0, len(v))
		for key := range v {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		return cv.object(keys, v, field, depth)
	case []any:
		return convertSlice(cv, v, field, depth)
	case []string:
		return convertSlice(cv, v, field, depth)
	case []Message:
		return convertSlice(cv, v, field, depth)
	case []map[string]any:
		return convertSlice(cv, v, field, depth)
	}
	return nil, inputErrorf(field, "has the unsupported Go type %T", v)
}

// convertSlice converts a slice whose element type convert supports.
func convertSlice[T any](cv *converter, items []T, field string, depth int) (value, error) {
	out := make([]value, len(items))
	for i, item := range items {
		var err error
		if out[i], err = cv.convert(item, field+"["+strconv.Itoa(i)+"]", depth+1); err != nil {
			return nil, err
		}
	}
	return &list{out}, nil
}

// object converts a mapping and preserves the order of keys, which tojson and loops
// expose.
func (cv *converter) object(keys []string, values map[string]any, field string, depth int) (value, error) {
	d := newDict()
	for _, key := range keys {
		v, err := cv.convert(values[key], field+"."+key, depth+1)
		if err != nil {
			return nil, err
		}
		cv.size += len(key) + valueSize
		if err := d.set(key, v); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// message converts a Message to a mapping with the keys role and content.
func (cv *converter) message(m Message) (value, error) {
	cv.size += len(m.Role) + len(m.Content)
	d := newDict()
	if err := d.set("role", m.Role); err != nil {
		return nil, err
	}
	return d, d.set("content", m.Content)
}

// convertNumber converts a JSON number as Python does: to an integer unless it has a
// fraction or an exponent.
func convertNumber(n json.Number, field string) (value, error) {
	s := n.String()
	if strings.ContainsAny(s, ".eE") {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil && !math.IsInf(f, 0) {
			return nil, inputErrorf(field, "%.40q is not a number", s)
		}
		return f, nil
	}
	if i, err := strconv.ParseInt(s, 10, 64); err == nil {
		return i, nil
	}
	digits := strings.TrimPrefix(s, "-")
	if digits == "" || strings.Trim(digits, "0123456789") != "" || len(digits) > maxDigits {
		return nil, inputErrorf(field, "%.40q is not an integer of at most %d digits", s, maxDigits)
	}
	return bigInt(s), nil
}

// parsePythonInt implements Python's int(s, base). It accepts surrounding white space,
// underscores between digits, and the prefix of bases 2, 8 and 16.
func parsePythonInt(s string, base int) (value, bool) {
	s = strings.TrimFunc(s, isSpace)
	sign := ""
	if signAt(s, 0) != 0 {
		sign, s = s[:1], s[1:]
	}
	prefix := map[int]string{2: "0b", 8: "0o", 16: "0x"}[base]
	if prefix != "" && len(s) > 2 && strings.EqualFold(s[:2], prefix) {
		s = strings.TrimPrefix(s[2:], "_")
	}
	if s == "" || s[0] == '_' || strings.HasSuffix(s, "_") || strings.Contains(s, "__") || base != 0 && (base < 2 || base > 36) {
		return nil, false
	}
	if base != 0 {
		s = strings.ReplaceAll(s, "_", "")
	}
	if signAt(s, 0) != 0 {
		return nil, false
	}
	i, err := strconv.ParseInt(sign+s, base, 64)
	if err != nil && base == 10 && len(s) <= maxDigits && strings.Trim(s, "0123456789") == "" {
		return bigInt(strings.TrimPrefix(sign, "+") + strings.TrimLeft(s, "0")), true
	}
	return i, err == nil
}

// toFloat implements Python's float() for numbers and strings.
func toFloat(v value) (float64, bool) {
	switch v := v.(type) {
	case string:
		s := strings.ToLower(strings.TrimFunc(v, isSpace))
		if strings.HasPrefix(strings.TrimLeft(s, "+-"), "0x") || strings.ContainsAny(s, "pP") || len(s) > maxDigits {
			return 0, false
		}
		if strings.HasPrefix(s, "_") || strings.HasSuffix(s, "_") || strings.Contains(s, "__") {
			return 0, false
		}
		f, err := strconv.ParseFloat(strings.ReplaceAll(s, "_", ""), 64)
		return f, err == nil || math.IsInf(f, 0)
	case bigInt:
		f, _ := exactFloat(v).Float64()
		return f, true
	}
	_, f, _, ok := number(v)
	return f, ok
}

// roundFloat rounds the exact value of f to digits decimal places, half to even.
// Negative digits round to powers of ten.
func roundFloat(f float64, digits int) float64 {
	switch {
	case math.IsInf(f, 0) || math.IsNaN(f) || digits > 320:
		return f
	case digits < -308:
		return 0
	case digits < 0:
		scale := math.Pow(10, float64(-digits))
		return math.RoundToEven(f/scale) * scale
	}
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(f, 'f', digits, 64), 64) // FormatFloat's output always parses
	return rounded
}
