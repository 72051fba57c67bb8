package jinja

// loop is the variable "loop" of a for body. It also supplies the items of the loop.
type loop struct {
	r     *renderer
	stmt  *forStmt
	scope *scope // scope of the for statement
	src   *iterator
	index int // index of the current item, from 0
	depth int // depth of recursion, from 0
	// size is the number of items, or -1 if the length of the source is unknown.
	size                 int
	previous, current    value
	peeked               value // the next item if hasPeeked is set
	hasPeeked, exhausted bool  // exhausted: the source has no more items
	lastChanged          *tuple
}

// execFor evaluates the iterable in the scope of the statement and runs the loop.
func (r *renderer) execFor(st *forStmt, s *scope) (signal, error) {
	iter, err := r.eval(st.iter, s)
	if err != nil {
		return signalNone, err
	}
	return r.runLoop(st, iter, s, 0)
}

// runLoop runs a for statement over iter. depth is the depth of recursive calls.
func (r *renderer) runLoop(st *forStmt, iter value, s *scope, depth int) (signal, error) {
	src, err := iterate(iter)
	if err != nil {
		return signalNone, err
	}
	l := &loop{r: r, stmt: st, scope: s, src: src, index: -1, size: -1, depth: depth}
	if st.test != nil {
		l.src = r.filterSource(st, src, s)
	} else if n, ok := length(iter); ok {
		l.size = n
	}
	// As in Jinja, the else block runs unless an iteration reached the end of the body.
	completed := false
	for {
		item, ok, err := l.advance()
		if err != nil {
			return signalNone, err
		}
		if !ok {
			break
		}
		// One step for the iteration and one for its scope.
		if err := r.chargeSteps(2); err != nil {
			return signalNone, err
		}
		inner := newScope(s)
		inner.set("loop", l)
		if err := r.assign(st.target, item, inner); err != nil {
			return signalNone, err
		}
		sig, err := r.exec(st.body, inner)
		if err != nil {
			return signalNone, err
		}
		if sig == signalBreak {
			break
		}
		completed = completed || sig == signalNone
	}
	if !completed && st.otherwise != nil {
		return r.exec(st.otherwise, newScope(s))
	}
	return signalNone, nil
}

// filterSource yields the items of src that satisfy the if clause of the statement. It
// evaluates the condition when the loop fetches an item, so the condition sees the
// changes of earlier iterations.
func (r *renderer) filterSource(st *forStmt, src *iterator, s *scope) *iterator {
	return &iterator{func() (value, bool, error) {
		for {
			item, ok, err := src.next()
			if err != nil || !ok {
				return nil, false, err
			}
			if err := r.chargeSteps(2); err != nil {
				return nil, false, err
			}
			inner := newScope(s)
			if err := r.assign(st.target, item, inner); err != nil {
				return nil, false, err
			}
			keep, err := r.eval(st.test, inner)
			if err != nil {
				return nil, false, err
			}
			if truthy(keep) {
				return item, true, nil
			}
		}
	}}
}

// advance moves to the next item and returns it.
func (l *loop) advance() (value, bool, error) {
	item, ok, err := l.peek()
	if err != nil || !ok {
		return nil, false, err
	}
	l.hasPeeked = false
	l.index++
	l.previous, l.current = l.current, item
	return item, true, nil
}

// peek returns the next item without moving to it.
func (l *loop) peek() (value, bool, error) {
	if l.hasPeeked || l.exhausted {
		return l.peeked, l.hasPeeked, nil
	}
	item, ok, err := l.src.next()
	if err != nil {
		return nil, false, err
	}
	l.peeked, l.hasPeeked, l.exhausted = item, ok, !ok
	return item, ok, nil
}

// length returns the number of items. It reads a lazy source to its end.
func (l *loop) length() (int, error) {
	if l.size >= 0 {
		return l.size, nil
	}
	items, err := l.r.collect(l.src)
	if err != nil {
		return 0, err
	}
	l.src = sliceIterator(items)
	// The loop has already consumed the items up to index, and possibly the peeked
	// item.
	l.size = len(items) + l.index + 1
	if l.hasPeeked {
		l.size++
	} else {
		l.exhausted = false
	}
	return l.size, nil
}

// remaining returns an iterator that consumes the remaining items of the loop.
func (l *loop) remaining() *iterator {
	return &iterator{l.advance}
}

// attribute returns an attribute of the loop variable.
func (l *loop) attribute(name string) (value, bool, error) {
	switch name {
	case "index":
		return int64(l.index + 1), true, nil
	case "index0":
		return int64(l.index), true, nil
	case "first":
		return l.index == 0, true, nil
	case "last":
		_, more, err := l.peek()
		return !more, true, err
	case "length", "revindex", "revindex0":
		n, err := l.length()
		if name == "revindex" {
			n -= l.index
		} else if name == "revindex0" {
			n -= l.index + 1
		}
		return int64(n), true, err
	case "depth":
		return int64(l.depth + 1), true, nil
	case "depth0":
		return int64(l.depth), true, nil
	case "previtem":
		if l.index == 0 {
			return &undefined{reason: "there is no previous item"}, true, nil
		}
		return l.previous, true, nil
	case "nextitem":
		item, ok, err := l.peek()
		if !ok {
			item = &undefined{reason: "there is no next item"}
		}
		return item, true, err
	case "cycle":
		return &function{"cycle", l.cycle}, true, nil
	case "changed":
		return &function{"changed", l.changed}, true, nil
	}
	return nil, false, nil
}

// cycle returns the argument for the current iteration.
func (l *loop) cycle(c *call) (value, error) {
	if len(c.args) == 0 {
		return nil, runtimeErrorf("no items for cycling given")
	}
	return c.args[l.index%len(c.args)], nil
}

// changed reports whether its arguments differ from those of the previous call.
func (l *loop) changed(c *call) (value, error) {
	now := &tuple{items: c.args}
	if l.lastChanged != nil {
		same, err := l.r.equal(l.lastChanged, now)
		if err != nil || same {
			return false, err
		}
	}
	l.lastChanged = now
	return true, nil
}

// recurse renders the body for other items. It implements loop(…) in {% for … recursive
// %}.
func (l *loop) recurse(c *call) (value, error) {
	p, err := c.bind(1, "iterable")
	if err != nil {
		return nil, err
	}
	if !l.stmt.recursive {
		return nil, runtimeErrorf("The loop must have the 'recursive' marker to be called recursively.")
	}
	return l.r.captureFunc(func() error {
		_, err := l.r.runLoop(l.stmt, p.values[0], l.scope, l.depth+1)
		return err
	})
}
