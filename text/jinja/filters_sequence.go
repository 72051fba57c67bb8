package jinja

import "strings"

// forEach calls do for every item of v.
func (r *renderer) forEach(v value, do func(value) error) error {
	it, err := iterate(v)
	if err != nil {
		return err
	}
	for {
		item, ok, err := it.next()
		if err != nil || !ok {
			return err
		}
		if err := r.chargeSteps(1); err != nil {
			return err
		}
		if err := do(item); err != nil {
			return err
		}
	}
}

// filterList returns the items as a list. A string becomes a list of characters.
func filterList(p *params, v value) (value, error) {
	items, err := p.r.collect(v)
	return &list{items}, err
}

// filterFirst reads at most one item of a lazy sequence.
func filterFirst(p *params, v value) (value, error) {
	it, err := iterate(v)
	if err != nil {
		return nil, err
	}
	item, ok, err := it.next()
	if !ok && err == nil {
		return &undefined{reason: "No first item, sequence was empty."}, nil
	}
	return item, err
}

// filterLast fails for a lazy sequence, as in Jinja.
func filterLast(p *params, v value) (value, error) {
	if _, lazy := v.(*iterator); lazy {
		return nil, runtimeErrorf("'generator' object is not reversible")
	}
	items, err := p.r.sequence(v)
	if err == nil && len(items) == 0 {
		return &undefined{reason: "No last item, sequence was empty."}, nil
	}
	if err != nil {
		return nil, err
	}
	return items[len(items)-1], nil
}

// filterReverse reverses a string. For other sequences it returns an iterator, as in
// Python.
func filterReverse(p *params, v value) (value, error) {
	items, err := p.r.collect(v)
	if err != nil {
		return nil, err
	}
	for i, j := 0, len(items)-1; i < j; i, j = i+1, j-1 {
		items[i], items[j] = items[j], items[i]
	}
	if _, isText := plain(v).(string); isText {
		return p.r.joinText(items, "")
	}
	return sliceIterator(items), nil
}

// joinText concatenates the texts of the items with a separator.
func (r *renderer) joinText(items []value, separator string) (string, error) {
	var b strings.Builder
	for i, item := range items {
		text, err := r.str(item)
		if err != nil {
			return "", err
		}
		if i > 0 {
			text = separator + text
		}
		if b.Len()+len(text) > maxOutput {
			return "", r.chargeString(-1)
		}
		if err := r.chargeBytes(len(text)); err != nil {
			return "", err
		}
		b.WriteString(text)
	}
	return b.String(), nil
}

// filterJoin joins the texts of the items. In contrast, str.join requires strings.
func filterJoin(p *params, v value) (value, error) {
	separator, err := p.r.str(p.orDefault(0, ""))
	if err != nil {
		return nil, err
	}
	items, err := p.r.collect(v)
	if err != nil {
		return nil, err
	}
	if attribute := p.orDefault(1, nil); attribute != nil {
		get := p.r.attributeGetter(attribute)
		for i := range items {
			if items[i], err = get(items[i]); err != nil {
				return nil, err
			}
		}
	}
	return p.r.joinText(items, separator)
}

// filterItems implements dict.items(). It treats an undefined value as an empty
// mapping.
func filterItems(p *params, v value) (value, error) {
	switch v := v.(type) {
	case *undefined:
		return sliceIterator(nil), nil
	case *dict:
		return iterate(&dictView{v, "items"})
	}
	return nil, runtimeErrorf("Can only get item pairs from a mapping.")
}

// filterBatch splits a sequence into lists of a given length.
func filterBatch(p *params, v value) (value, error) {
	size, err := p.int(0, 0)
	if err != nil {
		return nil, err
	}
	items, err := p.r.collect(v)
	if err != nil {
		return nil, err
	}
	if err := p.r.chargeSlots(2 * len(items)); err != nil {
		return nil, err
	}
	var batches []value
	for len(items) > 0 {
		n := len(items)
		if size > 0 && size < n {
			n = size
		}
		// The capacity limit prevents the fill values from overwriting the next batch.
		part := items[:n:n]
		items = items[n:]
		for fill := p.orDefault(1, nil); fill != nil && len(part) < size; {
			if err := p.r.chargeSlots(1); err != nil {
				return nil, err
			}
			part = append(part, fill)
		}
		batches = append(batches, &list{part})
	}
	return sliceIterator(batches), nil
}

// filterSlice splits a sequence into a given number of lists. The longer lists come
// first.
func filterSlice(p *params, v value) (value, error) {
	n, err := p.int(0, 0)
	if err != nil {
		return nil, err
	}
	if n <= 0 {
		return nil, runtimeErrorf("slice: the number of slices must be positive")
	}
	items, err := p.r.collect(v)
	if err != nil {
		return nil, err
	}
	if err := p.r.chargeSlots(4 * min(n, maxAlloc)); err != nil {
		return nil, err
	}
	parts := make([]value, n)
	for i, from := 0, 0; i < n; i++ {
		to := from + len(items)/n
		long := i < len(items)%n
		if long {
			to++
		}
		// The capacity limit prevents the fill value from overwriting the next list.
		part := items[from:to:to]
		if fill := p.orDefault(1, nil); fill != nil && !long {
			part = append(part, fill)
		}
		parts[i], from = &list{part}, to
	}
	return sliceIterator(parts), nil
}

// filterUnique removes items whose key has occurred before.
func filterUnique(p *params, v value) (value, error) {
	get := p.r.caseFoldedGetter(p.orDefault(1, nil), p.flag(0))
	src, err := iterate(v)
	if err != nil {
		return nil, err
	}
	seen := map[any]bool{}
	return p.r.lazyIterator(func() (value, bool, error) {
		for {
			item, ok, err := src.next()
			if err != nil || !ok {
				return nil, false, err
			}
			key, err := get(item)
			if err != nil {
				return nil, false, err
			}
			hash, err := hashKey(key)
			if err != nil {
				return nil, false, err
			}
			if err := p.r.chargeSlots(4); err != nil {
				return nil, false, err
			}
			if !seen[hash] {
				seen[hash] = true
				return item, true, nil
			}
		}
	}), nil
}
