package jinja

// scope holds the names that a block binds. A for body, macro, call block, with,
// filter block and set block have scopes of their own; if has none. Names are
// looked up from the innermost scope outwards, at the time of use.
type scope struct {
	parent *scope
	names  []string
	values []value
	index  map[string]int // made when the scope has many names

	// Most scopes are those of loop turns, with a few names: they take one allocation.
	nameSpace  [3]string
	valueSpace [3]value
}

// indexedScope is the number of names from which a scope is searched by index.
const indexedScope = 12

// newScope returns an empty scope inside parent.
func newScope(parent *scope) *scope {
	s := &scope{parent: parent}
	s.names, s.values = s.nameSpace[:0], s.valueSpace[:0]
	return s
}

// find returns the position of name in s itself, or -1.
func (s *scope) find(name string) int {
	if s.index != nil {
		if i, ok := s.index[name]; ok {
			return i
		}
		return -1
	}
	for i, n := range s.names {
		if n == name {
			return i
		}
	}
	return -1
}

// lookup finds name in s or the scopes around it, and how many it searched.
func (s *scope) lookup(name string) (v value, ok bool, searched int) {
	for ; s != nil; s = s.parent {
		searched++
		if i := s.find(name); i >= 0 {
			return s.values[i], true, searched
		}
	}
	return nil, false, searched
}

// set binds name in s itself.
func (s *scope) set(name string, v value) {
	if i := s.find(name); i >= 0 {
		s.values[i] = v
		return
	}
	s.names, s.values = append(s.names, name), append(s.values, v)
	if s.index != nil {
		s.index[name] = len(s.names) - 1
	} else if len(s.names) > indexedScope {
		s.index = make(map[string]int, 2*indexedScope)
		for i, n := range s.names {
			s.index[n] = i
		}
	}
}
