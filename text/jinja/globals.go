package jinja

import (
	"strings"
	"time"
)

// globalFunctions returns the global functions of a template.
func globalFunctions(now func() time.Time) []*function {
	return []*function{
		{"range", globalRange},
		{"dict", globalDict},
		{"namespace", globalNamespace},
		{"cycler", globalCycler},
		{"joiner", globalJoiner},
		{"raise_exception", globalRaiseException},
		{"strftime_now", func(c *call) (value, error) { return globalStrftime(c, now) }},
	}
}

// globalRange implements range(). Like Jinja's sandbox it rejects long ranges.
func globalRange(c *call) (value, error) {
	p, err := c.bind(1, "start", "stop", "step")
	if err != nil {
		return nil, err
	}
	var bounds [3]int64
	for i := range bounds {
		n, err := p.int(i, i/2) // defaults: start 0, stop 0, step 1
		if err != nil {
			return nil, err
		}
		bounds[i] = int64(n)
	}
	if p.isAbsent(1) {
		bounds[0], bounds[1] = 0, bounds[0]
	}
	if bounds[2] == 0 {
		return nil, runtimeErrorf("range() arg 3 must not be zero")
	}
	const far = 1 << 60 // the length fits into 64 bits
	s := &rangeValue{min(max(bounds[0], -far), far), min(max(bounds[1], -far), far), min(max(bounds[2], -far), far)}
	if n := s.len(); n > maxRange {
		return nil, limitErrorf("range() has %d numbers; at most %d are allowed", n, maxRange)
	}
	return s, nil
}

// globalDict implements dict(): a mapping or pairs, and keywords.
func globalDict(c *call) (value, error) {
	if len(c.args) > 1 {
		return nil, runtimeErrorf("dict expected at most 1 argument, got %d", len(c.args))
	}
	d := newDict()
	if len(c.args) == 1 {
		if err := c.r.addPairs(d, c.args[0]); err != nil {
			return nil, err
		}
	}
	if err := c.r.chargeSlots(4 * (len(c.keywords) + 1)); err != nil {
		return nil, err
	}
	for _, kw := range c.keywords {
		if err := d.set(kw.name, kw.value); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// addPairs adds a mapping or a sequence of pairs to d.
func (r *renderer) addPairs(d *dict, v value) error {
	if from, ok := v.(*dict); ok {
		v = &dictView{from, "items"}
	}
	return r.forEach(v, func(pair value) error {
		if err := r.chargeSlots(4); err != nil {
			return err
		}
		items, err := r.sequence(pair)
		if err != nil {
			return err
		}
		if len(items) != 2 {
			return runtimeErrorf("dictionary update sequence element has length %d; 2 is required", len(items))
		}
		return d.set(items[0], items[1])
	})
}

// globalNamespace implements namespace(), which has the parameters of dict().
func globalNamespace(c *call) (value, error) {
	attrs, err := globalDict(c)
	if err != nil {
		return nil, err
	}
	return &namespace{attrs.(*dict)}, nil
}

// cycler returns its items in turn.
type cycler struct {
	items []value
	next  int
}

// globalCycler returns a cycler over its arguments.
func globalCycler(c *call) (value, error) {
	if len(c.args) == 0 {
		return nil, runtimeErrorf("at least one item has to be provided")
	}
	return &cycler{items: c.args}, nil
}

// attribute returns the attribute current or one of the methods next and reset.
func (cy *cycler) attribute(name string) (value, bool) {
	switch name {
	case "current":
		return cy.items[cy.next], true
	case "next":
		return &function{name, func(c *call) (value, error) {
			v := cy.items[cy.next]
			cy.next = (cy.next + 1) % len(cy.items)
			return v, nil
		}}, true
	case "reset":
		return &function{name, func(c *call) (value, error) {
			cy.next = 0
			return nil, nil
		}}, true
	}
	return nil, false
}

// globalJoiner returns a function that returns "" once and the separator afterwards.
func globalJoiner(c *call) (value, error) {
	p, err := c.bind(0, "sep")
	if err != nil {
		return nil, err
	}
	used := false
	return &function{"joiner", func(*call) (value, error) {
		if !used {
			used = true
			return "", nil
		}
		return p.orDefault(0, ", "), nil
	}}, nil
}

// globalRaiseException ends the rendering with a message for the user, for example
// because the model does not support the conversation.
func globalRaiseException(c *call) (value, error) {
	p, err := c.bind(1, "message")
	if err != nil {
		return nil, err
	}
	text, err := c.r.str(p.values[0])
	if err != nil {
		return nil, err
	}
	return nil, &Error{Kind: ErrRaised, Construct: "raise_exception", Reason: text}
}

// globalStrftime formats the current time, which is the only information outside the
// input that a template can access.
func globalStrftime(c *call, now func() time.Time) (value, error) {
	p, err := c.bind(1, "format")
	if err != nil {
		return nil, err
	}
	format, err := p.text(0, "")
	if err != nil {
		return nil, err
	}
	// A directive of two bytes expands to at most 24 bytes (%c).
	if err := c.r.chargeString(len(format) + 12*strings.Count(format, "%")*2); err != nil {
		return nil, err
	}
	return strftime(now(), format), nil
}
