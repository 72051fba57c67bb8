package jinja

import (
	"math"
	"strings"
)

// dict is a Python dict. It preserves the insertion order.
type dict struct {
	keys, values []value
	index        map[any]int // hashKey of a key → position
}

func newDict() *dict { return &dict{} }

// smallDict is the maximum size at which set searches a dict of string keys without an
// index.
const smallDict = 8

// These types are hash keys. Their distinct types prevent equality with the hash keys
// of other values.
type (
	noneKey  struct{}
	floatKey uint64
	tupleKey string
	bigKey   string
	refKey   struct{ ref any }
)

// hashKey returns a comparable Go value. Two hash keys are equal if and only if
// Python's == holds for the values: 1, 1.0 and True have the same key.
func hashKey(v value) (any, error) { return hashKeyDepth(v, 0) }

// hashKeyDepth implements hashKey. depth limits the nesting of tuples.
func hashKeyDepth(v value, depth int) (any, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case markup:
		return string(v), nil
	case nil:
		return noneKey{}, nil
	case bool, int64:
		i, _, _, _ := number(v)
		return i, nil
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return int64(v), nil
		}
		return floatKey(math.Float64bits(v)), nil
	case bigInt:
		return bigKey(v), nil
	case *undefined:
		return refKey{"undefined"}, nil
	case *tuple:
		return hashTuple(v, depth)
	case *list, *dict:
		return nil, runtimeErrorf("unhashable type: '%s'", typeName(v))
	}
	return refKey{v}, nil
}

// hashTuple builds a key from the keys of the items. Each item's text has a kind and a
// length, so different tuples have different keys.
func hashTuple(t *tuple, depth int) (any, error) {
	if depth > maxNesting {
		return nil, limitErrorf("a tuple key nests deeper than %d", maxNesting)
	}
	var b strings.Builder
	for _, item := range t.items {
		key, err := hashKeyDepth(item, depth+1)
		if err != nil {
			return nil, err
		}
		part := hashText(key)
		if b.Len()+len(part) > maxKeyText {
			return nil, limitErrorf("a tuple key exceeds %d bytes", maxKeyText)
		}
		b.WriteString(part)
	}
	return tupleKey(b.String()), nil
}

// hashText returns the kind, length and text of a key. Different keys have different
// texts, except for values that compare by identity, which all have the text "u".
func hashText(key any) string {
	switch k := key.(type) {
	case string:
		return "s" + formatInt(int64(len(k))) + ":" + k
	case int64:
		return "i" + formatInt(k) + ":"
	case floatKey:
		return "f" + formatInt(int64(k)) + ":"
	case bigKey:
		return "b" + string(k) + ":"
	case tupleKey:
		return "t" + formatInt(int64(len(k))) + ":" + string(k)
	case noneKey:
		return "n"
	}
	return "u"
}

// find returns the position of key, or -1. A key that is not hashable is an error.
func (d *dict) find(key value) (int, error) {
	if s, ok := key.(string); ok && d.index == nil {
		for i, k := range d.keys {
			if k == s {
				return i, nil
			}
		}
		return -1, nil
	}
	h, err := hashKey(key)
	if err != nil {
		return -1, err
	}
	if d.index == nil {
		d.makeIndex()
	}
	if i, ok := d.index[h]; ok {
		return i, nil
	}
	return -1, nil
}

// makeIndex builds the index. find and set need it when the dict grows or when a key is
// not a string.
func (d *dict) makeIndex() {
	d.index = make(map[any]int, len(d.keys))
	for i, k := range d.keys {
		h, _ := hashKey(k) // every key in the dict is hashable
		d.index[h] = i
	}
}

// get returns the value of key. A key that is not hashable does not exist.
func (d *dict) get(key value) (value, bool) {
	i, err := d.find(key)
	if err != nil || i < 0 {
		return nil, false
	}
	return d.values[i], true
}

// set adds or replaces key. Only code that builds a dict and assignments to namespaces
// may call it, because values are immutable once a template can access them.
func (d *dict) set(key, v value) error {
	key = plain(key)
	if _, ok := key.(string); (!ok || len(d.keys) >= smallDict) && d.index == nil {
		d.makeIndex()
	}
	i, err := d.find(key)
	if err != nil {
		return err
	}
	if i >= 0 {
		d.values[i] = v
		return nil
	}
	if d.index != nil {
		h, err := hashKey(key)
		if err != nil {
			return err
		}
		d.index[h] = len(d.keys)
	}
	d.keys = append(d.keys, key)
	d.values = append(d.values, v)
	return nil
}
