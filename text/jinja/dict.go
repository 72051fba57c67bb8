package jinja

import (
	"math"
	"strings"
)

// dict is a Python dict: it keeps the order of insertion.
type dict struct {
	keys, values []value
	index        map[any]int // hashKey of each key → position
}

func newDict() *dict { return &dict{} }

// smallDict is the size up to which a dict of string keys is searched without an index.
const smallDict = 8

// noneKey, floatKey and tupleKey are hash keys that no other value can equal.
type (
	noneKey  struct{}
	floatKey uint64
	tupleKey string
	bigKey   string
	refKey   struct{ ref any }
)

// hashKey returns a comparable Go value that equals another's exactly when
// Python's == holds for the two: 1, 1.0 and True are one key.
func hashKey(v value) (any, error) { return hashKeyDepth(v, 0) }

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

// hashTuple builds a key from the items' keys, each with its kind and length so
// that different tuples never collide.
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
			return nil, limitErrorf("a tuple key of more than %d bytes", maxKeyText)
		}
		b.WriteString(part)
	}
	return tupleKey(b.String()), nil
}

// hashText writes a key so that no two different keys read alike: kind, length, text.
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

// find returns the position of key, or -1; an unhashable key is an error.
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

// makeIndex switches from searching to an index, when the dict grows or gets a key that is no string.
func (d *dict) makeIndex() {
	d.index = make(map[any]int, len(d.keys))
	for i, k := range d.keys {
		h, _ := hashKey(k) // keys were hashable when they came in
		d.index[h] = i
	}
}

// get returns the value of key; an unhashable key is absent.
func (d *dict) get(key value) (value, bool) {
	i, err := d.find(key)
	if err != nil || i < 0 {
		return nil, false
	}
	return d.values[i], true
}

// set adds or replaces key. Only the code that builds a dict, and namespaces, call
// it: values are immutable once a template sees them.
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
