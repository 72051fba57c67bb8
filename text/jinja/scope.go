package jinja

// scope holds the names that a block binds. A for body, macro, call block, with block,
// filter block and set block have their own scope; an if block has none. lookup
// searches from the innermost scope outwards when a name is used.
type scope struct {
	parent *scope
	names  []string
	values []value
	index  map[string]int // nil while the scope has few names

	// Inline storage for the first names. Most scopes belong to loop iterations and
	// have few names, so they need a single allocation.
	nameSpace  [3]string
	valueSpace [3]value
}

// indexedScope is the number of names above which a scope has an index.
const indexedScope = 12

// newScope returns an empty scope with the given parent.
func newScope(parent *scope) *scope {
	s := &scope{parent: parent}
	s.names, s.values = s.nameSpace[:0], s.valueSpace[:0]
	return s
}

// find returns the position of name in s, or -1. It does not search the parents.
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

// lookup returns the value of name in s or its parents. searched is the number of
// scopes it searched.
func (s *scope) lookup(name string) (v value, ok bool, searched int) {
	for ; s != nil; s = s.parent {
		searched++
		if i := s.find(name); i >= 0 {
			return s.values[i], true, searched
		}
	}
	return nil, false, searched
}

// set binds name in s.
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
