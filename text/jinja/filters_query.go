package jinja

import (
	"slices"
	"strconv"
	"strings"
)

// getter returns a key of an item.
type getter func(item value) (value, error)

// attributeGetter returns a getter for an attribute path such as "function.name" or
// "0.id". For nil the getter returns the item.
func (r *renderer) attributeGetter(attribute value) getter {
	var path []value
	switch a := plain(attribute).(type) {
	case nil:
	case string:
		if len(a) > maxPadding {
			return func(value) (value, error) {
				return nil, limitErrorf("an attribute path exceeds %d bytes", maxPadding)
			}
		}
		r.chargeDeferred(len(a))
		for part := range strings.SplitSeq(a, ".") {
			if i, err := strconv.ParseUint(part, 10, 31); err == nil {
				path = append(path, int64(i))
			} else {
				path = append(path, part)
			}
		}
	default:
		path = []value{a}
	}
	return func(item value) (value, error) {
		for _, part := range path {
			var err error
			if item, err = r.subscript(item, part); err != nil {
				return nil, err
			}
		}
		return item, r.chargeSteps(1)
	}
}

// caseFoldedGetter returns a getter that converts strings to lower case unless
// sensitive is set.
func (r *renderer) caseFoldedGetter(attribute value, sensitive bool) getter {
	get := r.attributeGetter(attribute)
	if sensitive {
		return get
	}
	return func(item value) (value, error) {
		key, err := get(item)
		if err != nil {
			return nil, err
		}
		return r.lowerKey(key)
	}
}

// lowerKey converts a string to lower case. Other values stay unchanged.
func (r *renderer) lowerKey(v value) (value, error) {
	if s, ok := plain(v).(string); ok {
		return lower(s), r.chargeString(caseGrowth * len(s))
	}
	return v, nil
}

// keyed is an item and its sort key.
type keyed struct{ item, key value }

// sortBy sorts items by key. The sort is stable in both directions.
func (r *renderer) sortBy(items []keyed, reverse bool) error {
	// The comparison function of the sort cannot return an error.
	var failed error
	slices.SortStableFunc(items, func(a, b keyed) int {
		if failed != nil {
			return 0
		}
		order, err := r.order("<", b.key, a.key, 0)
		if err != nil {
			failed = err
			return 0
		}
		if order == unordered {
			return 0
		}
		if reverse {
			return int(order)
		}
		return -int(order)
	})
	return failed
}

// sorted returns the items of v sorted by the key that get returns.
func (r *renderer) sorted(v value, get getter, reverse bool) ([]value, error) {
	items, err := r.collect(v)
	if err != nil {
		return nil, err
	}
	if err := r.chargeSlots(4 * len(items)); err != nil {
		return nil, err
	}
	pairs := make([]keyed, len(items))
	for i, item := range items {
		key, err := get(item)
		if err != nil {
			return nil, err
		}
		pairs[i] = keyed{item, key}
	}
	if err := r.sortBy(pairs, reverse); err != nil {
		return nil, err
	}
	for i, pair := range pairs {
		items[i] = pair.item
	}
	return items, nil
}

// filterSort sorts by one attribute, or by several attributes separated by commas.
func filterSort(p *params, v value) (value, error) {
	attributes := []value{p.orDefault(2, nil)}
	if s, ok := plain(attributes[0]).(string); ok {
		attributes = attributes[:0]
		for part := range strings.SplitSeq(s, ",") {
			if attributes = append(attributes, part); len(attributes) > maxNesting {
				return nil, limitErrorf("the sort filter accepts at most %d attributes", maxNesting)
			}
		}
	}
	var getters []getter
	for _, attribute := range attributes {
		getters = append(getters, p.r.caseFoldedGetter(attribute, p.flag(1)))
	}
	// A single key also becomes a list. Lists with equal items need no order of the
	// items.
	items, err := p.r.sorted(v, func(item value) (value, error) {
		keys := make([]value, len(getters))
		for k, get := range getters {
			key, err := get(item)
			if err != nil {
				return nil, err
			}
			keys[k] = key
		}
		return &list{keys}, p.r.chargeSlots(len(keys) + 1)
	}, p.flag(0))
	return &list{items}, err
}

// filterDictSort returns (key, value) pairs sorted by key or by value.
func filterDictSort(p *params, v value) (value, error) {
	by, err := p.text(1, "key")
	if err != nil {
		return nil, err
	}
	position := slices.Index([]string{"key", "value"}, by)
	if position < 0 {
		return nil, runtimeErrorf(`You can only sort by either "key" or "value"`)
	}
	d, ok := v.(*dict)
	if !ok {
		_, err := p.r.attribute(v, "items")
		if err == nil {
			err = runtimeErrorf("'%s' object has no attribute 'items'", typeName(v))
		}
		return nil, err
	}
	get := p.r.caseFoldedGetter(int64(position), p.flag(0))
	items, err := p.r.sorted(&dictView{d, "items"}, get, p.flag(2))
	return &list{items}, err
}

// filterGroupBy sorts by an attribute and returns (grouper, list) pairs.
func filterGroupBy(p *params, v value) (value, error) {
	read := p.r.attributeGetter(p.values[0])
	get := func(item value) (value, error) {
		key, err := read(item)
		if _, undef := key.(*undefined); undef && p.orDefault(1, nil) != nil {
			key = p.values[1]
		}
		return key, err
	}
	compared := func(item value) (value, error) {
		key, err := get(item)
		if err != nil || p.flag(2) {
			return key, err
		}
		return p.r.lowerKey(key)
	}
	items, err := p.r.sorted(v, compared, false)
	if err != nil {
		return nil, err
	}
	var groups []value
	for from := 0; from < len(items); {
		to, err := p.r.groupEnd(items, from, compared)
		if err != nil {
			return nil, err
		}
		key, err := get(items[from])
		if err != nil {
			return nil, err
		}
		if err := p.r.chargeSlots(8); err != nil {
			return nil, err
		}
		// The capacity limit prevents a later append from overwriting the next group.
		members := &list{items[from:to:to]}
		groups = append(groups, &tuple{[]value{key, members}, []string{"grouper", "list"}})
		from = to
	}
	return &list{groups}, nil
}

// groupEnd returns the end of the run of items whose key equals the key of items[from].
func (r *renderer) groupEnd(items []value, from int, get getter) (int, error) {
	key, err := get(items[from])
	if err != nil {
		return 0, err
	}
	to := from + 1
	for ; to < len(items); to++ {
		next, err := get(items[to])
		if err != nil {
			return 0, err
		}
		if equal, err := r.equal(key, next); err != nil || !equal {
			return to, err
		}
	}
	return to, nil
}

// filterMap applies a filter to every item or reads an attribute of every item.
func filterMap(p *params, v value) (value, error) {
	convert, err := mapper(p.call)
	if err != nil {
		return nil, err
	}
	if !truthy(v) {
		return sliceIterator(nil), nil
	}
	src, err := iterate(v)
	if err != nil {
		return nil, err
	}
	return p.r.lazyIterator(func() (value, bool, error) {
		item, ok, err := src.next()
		if err != nil || !ok {
			return nil, false, err
		}
		item, err = convert(item)
		return item, err == nil, err
	}), nil
}

// mapper returns the function that map applies to an item: a filter by name, or an
// attribute getter.
func mapper(c *call) (getter, error) {
	if len(c.args) > 0 {
		name, ok := plain(c.args[0]).(string)
		if !ok {
			return nil, runtimeErrorf("map requires a filter name, not %s", typeName(c.args[0]))
		}
		return func(item value) (value, error) {
			return c.r.applyFilter(name, item, c.args[1:], c.keywords)
		}, nil
	}
	p, err := c.bind(1, "attribute", "default")
	if err != nil {
		return nil, runtimeErrorf("map requires a filter argument")
	}
	get, fallback := c.r.attributeGetter(p.values[0]), p.orDefault(1, nil)
	return func(item value) (value, error) {
		item, err := get(item)
		if _, undef := item.(*undefined); undef && fallback != nil {
			item = fallback
		}
		return item, err
	}, nil
}

// lazyIterator returns an iterator that counts each call as a nested evaluation. A
// template can stack lazy filters without limit, and each filter calls the previous
// one.
func (r *renderer) lazyIterator(next func() (value, bool, error)) *iterator {
	return &iterator{func() (value, bool, error) {
		if err := r.enter(); err != nil {
			return nil, false, err
		}
		defer r.leave()
		return next()
	}}
}

// These filters differ in the value that the test applies to, the item or an attribute,
// and in the result that selects an item.
func filterSelect(p *params, v value) (value, error)     { return selectItems(p, v, false, true) }
func filterReject(p *params, v value) (value, error)     { return selectItems(p, v, false, false) }
func filterSelectAttr(p *params, v value) (value, error) { return selectItems(p, v, true, true) }
func filterRejectAttr(p *params, v value) (value, error) { return selectItems(p, v, true, false) }

// selectItems returns a lazy sequence of the items for which a test returns want. With
// byAttribute the test applies to an attribute of the item. Without a test it uses the
// truth value.
func selectItems(p *params, v value, byAttribute, want bool) (value, error) {
	args := p.args
	get := p.r.attributeGetter(nil)
	if byAttribute {
		if len(args) == 0 {
			return nil, runtimeErrorf("Missing parameter for attribute name")
		}
		get, args = p.r.attributeGetter(args[0]), args[1:]
	}
	test := func(item value) (bool, error) { return truthy(item), nil }
	if len(args) > 0 {
		name, ok := plain(args[0]).(string)
		if !ok {
			return nil, runtimeErrorf("%s requires the name of a test, not %s", p.name, typeName(args[0]))
		}
		test = func(item value) (bool, error) { return p.r.applyTest(name, item, args[1:], p.keywords) }
	}
	if !truthy(v) {
		return sliceIterator(nil), nil
	}
	src, err := iterate(v)
	if err != nil {
		return nil, err
	}
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
			holds, err := test(key)
			if err != nil || holds == want {
				return item, err == nil, err
			}
		}
	}), nil
}
