package jinja

import "unicode/utf8"

// iterator yields values lazily and only once, like Python's generators. Filters such
// as map and selectattr return one.
type iterator struct {
	next func() (v value, ok bool, err error)
}

// sliceIterator iterates over items.
func sliceIterator(items []value) *iterator {
	i := 0
	return &iterator{func() (value, bool, error) {
		if i == len(items) {
			return nil, false, nil
		}
		i++
		return items[i-1], true, nil
	}}
}

// indexIterator iterates over at(0) … at(n-1).
func indexIterator(n int, at func(int) value) *iterator {
	i := 0
	return &iterator{func() (value, bool, error) {
		if i == n {
			return nil, false, nil
		}
		i++
		return at(i - 1), true, nil
	}}
}

// iterate implements Python's iter(). An iterator is its own iterator.
func iterate(v value) (*iterator, error) {
	switch v := v.(type) {
	case *iterator:
		return v, nil
	case *list:
		return sliceIterator(v.items), nil
	case *tuple:
		return sliceIterator(v.items), nil
	case *dict:
		return sliceIterator(v.keys), nil
	case *dictView:
		return indexIterator(len(v.dict.keys), v.at), nil
	case *rangeValue:
		return indexIterator(v.len(), v.at), nil
	case string:
		return stringIterator(v), nil
	case markup:
		return stringIterator(string(v)), nil
	case *undefined:
		return sliceIterator(nil), nil
	case *loop:
		return v.remaining(), nil
	}
	return nil, runtimeErrorf("'%s' object is not iterable", typeName(v))
}

// stringIterator iterates over the characters of s.
func stringIterator(s string) *iterator {
	return &iterator{func() (value, bool, error) {
		if s == "" {
			return nil, false, nil
		}
		_, n := utf8.DecodeRuneInString(s)
		c := s[:n]
		s = s[n:]
		return c, true, nil
	}}
}

// isIterable reports whether iterate succeeds.
func isIterable(v value) bool {
	_, err := iterate(v)
	return err == nil
}

// collect returns all items of v in a new slice, which it charges.
func (m *meter) collect(v value) ([]value, error) {
	it, err := iterate(v)
	if err != nil {
		return nil, err
	}
	// A sequence of known length fails before the first item is copied.
	if n, ok := length(v); ok {
		if err := m.chargeSlots(n); err != nil {
			return nil, err
		}
	}
	var items []value
	for {
		v, ok, err := it.next()
		if err != nil || !ok {
			return items, err
		}
		if err := m.chargeSlots(1); err != nil {
			return nil, err
		}
		items = append(items, v)
	}
}

// sequence returns the items of v. It does not copy the items of a list or tuple, so
// the caller must not modify the result.
func (m *meter) sequence(v value) ([]value, error) {
	switch v := v.(type) {
	case *list:
		return v.items, m.chargeSteps(1)
	case *tuple:
		return v.items, m.chargeSteps(1)
	}
	return m.collect(v)
}
