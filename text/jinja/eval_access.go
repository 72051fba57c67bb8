package jinja

import (
	"strings"
	"unicode/utf8"
)

// attribute evaluates v.name. Attributes and methods take precedence over items.
func (r *renderer) attribute(v value, name string) (value, error) {
	found, ok, err := r.ownAttribute(v, name)
	if ok || err != nil {
		return found, err
	}
	if d, isDict := v.(*dict); isDict {
		if item, ok := d.get(name); ok {
			return item, r.chargeScan(len(name))
		}
	}
	return undefinedMember(v, name), nil
}

// subscript evaluates v[index]. Items take precedence over attributes.
func (r *renderer) subscript(v, index value) (value, error) {
	if u, ok := v.(*undefined); ok {
		return nil, u.err()
	}
	index = plain(index)
	name, isText := index.(string)
	if err := r.chargeScan(len(name)); err != nil {
		return nil, err
	}
	if item, ok, err := r.lookupItem(v, index); ok || err != nil {
		return item, err
	}
	if isText {
		if found, ok, err := r.ownAttribute(v, name); ok || err != nil {
			return found, err
		}
	}
	return undefinedMember(v, index), nil
}

// ownAttribute returns an attribute or method that the type of v defines.
func (r *renderer) ownAttribute(v value, name string) (value, bool, error) {
	switch v := v.(type) {
	case *undefined:
		return nil, false, v.err()
	case *namespace:
		item, ok := v.attrs.get(name)
		return item, ok, nil
	case *loop:
		return v.attribute(name)
	case *cycler:
		item, ok := v.attribute(name)
		return item, ok, nil
	case *macro:
		item, ok := v.attribute(name)
		return item, ok, nil
	case *tuple:
		for i, n := range v.names {
			if n == name {
				return v.items[i], true, nil
			}
		}
	}
	if strings.HasPrefix(name, "__") && strings.HasSuffix(name, "__") || isBlocked(v, name) {
		return &undefined{reason: "access to attribute " + quote(name) + " of " +
			quote(typeName(v)) + " object is unsafe."}, true, nil
	}
	if m := findMethod(v, name); m != nil {
		return &function{name, m}, true, nil
	}
	return nil, false, nil
}

// attribute returns an attribute of a macro.
func (m *macro) attribute(name string) (value, bool) {
	switch name {
	case "name":
		return m.def.name, true
	case "arguments":
		names := make([]value, len(m.def.params))
		for i, p := range m.def.params {
			names[i] = p.name
		}
		return &tuple{items: names}, true
	}
	return nil, false
}

// lookupItem returns v[index]. The result is false if v is not a container or has no
// such item.
func (r *renderer) lookupItem(v, index value) (value, bool, error) {
	if d, ok := v.(*dict); ok {
		item, found := d.get(index)
		return item, found, nil
	}
	i, _, isInt, ok := number(index)
	if !ok || !isInt {
		return nil, false, nil
	}
	switch v := v.(type) {
	case *list:
		return itemAt(i, len(v.items), func(i int) value { return v.items[i] })
	case *tuple:
		return itemAt(i, len(v.items), func(i int) value { return v.items[i] })
	case *rangeValue:
		return itemAt(i, v.len(), v.at)
	case string:
		return r.characterAt(v, i)
	case markup:
		return r.characterAt(string(v), i)
	}
	return nil, false, nil
}

// itemAt returns item i of n. A negative i counts from the end.
func itemAt(i int64, n int, at func(int) value) (value, bool, error) {
	if i < 0 {
		i += int64(n)
	}
	if i < 0 || i >= int64(n) {
		return nil, false, nil
	}
	return at(int(i)), true, nil
}

// characterAt returns character i of s.
func (r *renderer) characterAt(s string, i int64) (value, bool, error) {
	if err := r.chargeScan(len(s)); err != nil {
		return nil, false, err
	}
	if isASCII(s) {
		return itemAt(i, len(s), func(i int) value { return s[i : i+1] })
	}
	return itemAt(i, runeCount(s), func(i int) value {
		from := runeOffset(s, i)
		_, n := utf8.DecodeRuneInString(s[from:])
		return s[from : from+n]
	})
}

// runeOffset returns the byte offset of character i of s.
func runeOffset(s string, i int) int {
	offset := 0
	for ; i > 0 && offset < len(s); i-- {
		_, n := utf8.DecodeRuneInString(s[offset:])
		offset += n
	}
	return offset
}

// undefinedMember returns the undefined value for an attribute or item that v does not
// have.
func undefinedMember(v, name value) value {
	object := typeName(v) + " object"
	if v == nil {
		object = "None"
	}
	if s, ok := name.(string); ok {
		return &undefined{reason: quote(object) + " has no attribute " + quote(s)}
	}
	return &undefined{reason: object + " has no element " + reprShort(name)}
}

// reprShort returns the repr() of a scalar, or the type of a container, for error
// messages.
func reprShort(v value) string {
	switch v.(type) {
	case *list, *tuple, *dict, *dictView, *namespace:
		return "<" + typeName(v) + ">"
	}
	return reprScalar(v)
}

// slice evaluates v[low:high:stride]. An omitted bound is nil.
func (r *renderer) slice(v, low, high, stride value) (value, error) {
	if u, ok := v.(*undefined); ok {
		return nil, u.err()
	}
	v = plain(v)
	n, sliceable := length(v)
	switch v.(type) {
	case *dict:
		return nil, runtimeErrorf("unhashable type: 'slice'")
	// A dict view has a length, but Python does not support its indexing.
	case *dictView:
		sliceable = false
	}
	if !sliceable {
		return nil, runtimeErrorf("'%s' object is not subscriptable", typeName(v))
	}
	part, err := sliceRange(low, high, stride, n)
	if err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case string:
		return r.sliceText(v, part)
	case *rangeValue:
		return &rangeValue{v.start + part.start*v.stride, v.start + part.stop*v.stride, v.stride * part.stride}, nil
	case *tuple:
		items, err := r.sliceItems(v.items, part)
		return &tuple{items: items}, err
	default:
		items, err := r.sliceItems(v.(*list).items, part)
		return &list{items}, err
	}
}

// sliceRange converts the bounds of a slice over n items to a range of indexes.
func sliceRange(low, high, stride value, n int) (rangeValue, error) {
	step, err := sliceBound(stride, 1)
	if err != nil {
		return rangeValue{}, err
	}
	if step == 0 {
		return rangeValue{}, runtimeErrorf("slice step cannot be zero")
	}
	// A larger step also selects a single item. The limit prevents overflow.
	step = max(min(step, maxAlloc), -maxAlloc)
	first, last := int64(0), int64(n)
	if step < 0 {
		first, last = int64(n)-1, -1
	}
	clamp := func(bound value, fallback int64) (int64, error) {
		i, err := sliceBound(bound, fallback)
		if err != nil || bound == nil {
			return i, err
		}
		if i < 0 {
			i += int64(n)
		}
		if step < 0 {
			return max(min(i, int64(n)-1), -1), nil
		}
		return max(min(i, int64(n)), 0), nil
	}
	if first, err = clamp(low, first); err != nil {
		return rangeValue{}, err
	}
	last, err = clamp(high, last)
	return rangeValue{first, last, step}, err
}

// sliceBound converts one bound. nil is an omitted bound.
func sliceBound(v value, fallback int64) (int64, error) {
	if v == nil {
		return fallback, nil
	}
	i, _, isInt, ok := number(v)
	if !ok || !isInt {
		return 0, runtimeErrorf("slice indices must be integers or None or have an __index__ method")
	}
	return i, nil
}

// sliceItems returns the selected items. Contiguous items share memory with the
// original, because lists are immutable.
func (r *renderer) sliceItems(items []value, part rangeValue) ([]value, error) {
	n := part.len()
	if part.stride == 1 {
		return items[part.start : int(part.start)+n : int(part.start)+n], r.chargeSlots(1)
	}
	if err := r.chargeSlots(n + 1); err != nil {
		return nil, err
	}
	out := make([]value, n)
	for i := range out {
		out[i] = items[part.start+int64(i)*part.stride]
	}
	return out, nil
}

// sliceText slices by characters. A contiguous slice shares memory with s.
func (r *renderer) sliceText(s string, part rangeValue) (value, error) {
	if err := r.chargeScan(len(s)); err != nil {
		return nil, err
	}
	n := part.len()
	ascii := isASCII(s)
	if part.stride == 1 && ascii {
		return s[part.start : int(part.start)+n], nil
	}
	if part.stride == 1 {
		from := runeOffset(s, int(part.start))
		return s[from : from+runeOffset(s[from:], n)], nil
	}
	if err := r.chargeString(4 * len(s)); err != nil {
		return nil, err
	}
	runes := []rune(s)
	out := make([]rune, n)
	for i := range out {
		out[i] = runes[part.start+int64(i)*part.stride]
	}
	return string(out), nil
}
