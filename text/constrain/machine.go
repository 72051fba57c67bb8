package constrain

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// kind is the kind of an expression.
type kind uint8

const (
	kindNothing  kind = iota // no text
	kindEmpty                // the empty text
	kindSet                  // one byte of sets[a]
	kindLiteral              // literals[a][b:]
	kindSequence             // a, then b
	kindChoice               // one of list
	kindBoth                 // all of list at the same time; they are regular
	kindRepeat               // a, from low to high times
	kindRule                 // rules[a]
)

// expr is the number of an interned expression. Equal expressions have the same number.
type expr int32

const (
	nothing expr = 0
	empty   expr = 1
	// notComputed is an entry of a row whose derivative was not needed yet.
	notComputed expr = -1
)

// unlimited is the greatest number of repetitions of an expression without a bound.
const unlimited = -1

// node is an expression.
type node struct {
	kind      kind
	nullable  bool // the empty text matches; of rules and what contains them, only once the machine is complete
	a, b      int32
	low, high int32
	list      []expr // ascending
}

// nodeKey identifies a node.
type nodeKey struct {
	kind            kind
	a, b, low, high int32
	list            string
}

// byteSet is a set of bytes.
type byteSet [4]uint64

func (s *byteSet) add(b byte)      { s[b>>6] |= 1 << (b & 63) }
func (s *byteSet) has(b byte) bool { return s[b>>6]>>(b&63)&1 != 0 }

// machine holds expressions and their derivatives. It is not safe for concurrent use.
type machine struct {
	nodes    []node
	index    map[nodeKey]expr
	sets     []byteSet
	setIndex map[byteSet]int32
	literals []string
	rules    []expr // what each rule matches
	root     expr
	base     int // number of expressions of the grammar; the others are derivatives

	class   [256]uint8 // bytes of the same class have the same derivatives
	example []byte     // a byte of each class
	single  []bool     // the class has only this byte
	rows    [][]expr   // [node][class] derivatives, nil if none was needed

	most  int    // expressions
	meter *meter // of the compilation
	steps int64  // that are left; see ErrComplex
	err   error  // the first error; every operation then returns nothing
}

// newMachine returns a machine for a compilation.
func newMachine(meter *meter) *machine {
	m := &machine{index: map[nodeKey]expr{}, setIndex: map[byteSet]int32{}, most: maxExpressions, meter: meter, steps: compileSteps}
	m.intern(node{kind: kindNothing})
	m.intern(node{kind: kindEmpty, nullable: true})
	return m
}

// intern returns the number of an expression.
func (m *machine) intern(n node) expr {
	key := n.key()
	if e, ok := m.index[key]; ok {
		return e
	}
	if m.err != nil {
		return nothing
	}
	if len(m.nodes) >= m.most {
		m.err = fmt.Errorf("%w: it needs more than %d states", ErrComplex, m.most)
		return nothing
	}
	if m.err = m.meter.take(n.bytes()); m.err != nil {
		return nothing
	}
	n.list = slices.Clone(n.list)
	e := expr(len(m.nodes))
	m.nodes, m.rows = append(m.nodes, n), append(m.rows, nil)
	m.index[key] = e
	return e
}

func listKey(list []expr) string {
	key := make([]byte, 0, 4*len(list))
	for _, e := range list {
		key = binary.LittleEndian.AppendUint32(key, uint32(e))
	}
	return string(key)
}

// set returns an expression for one byte of a set.
func (m *machine) set(s byteSet) expr {
	if s == (byteSet{}) {
		return nothing
	}
	i, ok := m.setIndex[s]
	if !ok {
		i = int32(len(m.sets))
		m.sets = append(m.sets, s)
		m.setIndex[s] = i
	}
	return m.intern(node{kind: kindSet, a: i})
}

// literal returns an expression for a text.
func (m *machine) literal(text string) expr {
	if text == "" {
		return empty
	}
	i := slices.Index(m.literals, text)
	if i < 0 || len(m.literals) > 64 { // a search of many would be quadratic, and finds little
		i = len(m.literals)
		m.literals = append(m.literals, text)
	}
	return m.intern(node{kind: kindLiteral, a: int32(i)})
}

// sequence returns an expression for one expression behind another. Sequences lean to the right.
func (m *machine) sequence(parts ...expr) expr {
	if len(parts) == 0 {
		return empty
	}
	tail := parts[len(parts)-1]
	for _, head := range slices.Backward(parts[:len(parts)-1]) {
		tail = m.pair(head, tail)
	}
	return tail
}

func (m *machine) pair(head, tail expr) expr {
	switch {
	case head == nothing || tail == nothing:
		return nothing
	case head == empty:
		return tail
	case tail == empty:
		return head
	}
	if n := &m.nodes[head]; n.kind == kindSequence {
		a, b := expr(n.a), expr(n.b)
		return m.pair(a, m.pair(b, tail))
	}
	return m.intern(node{
		kind: kindSequence, a: int32(head), b: int32(tail),
		nullable: m.nodes[head].nullable && m.nodes[tail].nullable,
	})
}

// choice returns an expression for one of several.
func (m *machine) choice(list ...expr) expr {
	flat := make([]expr, 0, len(list))
	for _, e := range list {
		if n := &m.nodes[e]; n.kind == kindChoice {
			flat = append(flat, n.list...)
		} else if e != nothing {
			flat = append(flat, e)
		}
	}
	slices.Sort(flat)
	flat = slices.Compact(flat)
	m.charge(len(flat))
	switch len(flat) {
	case 0:
		return nothing
	case 1:
		return flat[0]
	}
	if len(flat) > maxChoice && m.err == nil {
		m.err = fmt.Errorf("%w: it leaves more than %d ways open at the same time", ErrComplex, maxChoice)
	}
	n := node{kind: kindChoice, list: flat}
	for _, e := range flat {
		n.nullable = n.nullable || m.nodes[e].nullable
	}
	return m.intern(n)
}

// both returns an expression for texts that all expressions match. They have no rules that nest.
func (m *machine) both(list ...expr) expr {
	list = slices.Clone(list)
	slices.Sort(list)
	list = slices.Compact(list)
	if len(list) > 0 && list[0] == nothing {
		return nothing
	}
	if len(list) == 1 {
		return list[0]
	}
	n := node{kind: kindBoth, list: list, nullable: true}
	for _, e := range list {
		n.nullable = n.nullable && m.nodes[e].nullable
	}
	if n.nullable && slices.Contains(list, empty) {
		return empty
	}
	return m.intern(n)
}

// repeat returns an expression for low to high repetitions; high may be unlimited.
func (m *machine) repeat(e expr, low, high int) expr {
	switch {
	case high != unlimited && low > high:
		return nothing
	case high == 0 || e == empty:
		return empty
	case e == nothing && low == 0:
		return empty
	case e == nothing:
		return nothing
	case low == 1 && high == 1:
		return e
	}
	return m.intern(node{
		kind: kindRepeat, a: int32(e), low: int32(low), high: int32(high),
		nullable: low == 0 || m.nodes[e].nullable,
	})
}

// optional returns an expression for one or nothing.
func (m *machine) optional(e expr) expr { return m.choice(e, empty) }

// rule returns a new rule, whose expression the caller sets later.
func (m *machine) rule() (e expr, index int) {
	m.rules = append(m.rules, nothing)
	index = len(m.rules) - 1
	return m.intern(node{kind: kindRule, a: int32(index)}), index
}

// charge counts steps.
func (m *machine) charge(n int) {
	m.steps -= int64(n) + 1
	if m.steps < 0 && m.err == nil {
		m.err = fmt.Errorf("%w: it takes too many steps", ErrComplex)
	}
}

// step returns the derivative of an expression: what may follow a byte of a class.
func (m *machine) step(e expr, class uint8) expr {
	row := m.rows[e]
	if row != nil && row[class] != notComputed {
		return row[class]
	}
	d := m.derive(e, class)
	if m.err != nil {
		return nothing
	}
	if m.rows[e] == nil {
		row = make([]expr, len(m.example))
		for i := range row {
			row[i] = notComputed
		}
		m.rows[e] = row
	}
	m.rows[e][class] = d
	return d
}

// derive computes a derivative.
func (m *machine) derive(e expr, class uint8) expr {
	m.charge(1)
	if m.err != nil {
		return nothing
	}
	n := m.nodes[e] // a copy: interning moves the nodes
	switch b := m.example[class]; n.kind {
	case kindSet:
		if m.sets[n.a].has(b) {
			return empty
		}
	case kindLiteral:
		if text := m.literals[n.a]; text[n.b] == b {
			if int(n.b)+1 == len(text) {
				return empty
			}
			return m.intern(node{kind: kindLiteral, a: n.a, b: n.b + 1})
		}
	case kindSequence:
		d := m.pair(m.step(expr(n.a), class), expr(n.b))
		if m.nodes[n.a].nullable {
			d = m.choice(d, m.step(expr(n.b), class))
		}
		return d
	case kindChoice:
		return m.choice(m.stepAll(n.list, class, false)...)
	case kindBoth:
		return m.both(m.stepAll(n.list, class, true)...)
	case kindRepeat:
		high := int(n.high)
		if high != unlimited {
			high--
		}
		return m.pair(m.step(expr(n.a), class), m.repeat(expr(n.a), max(0, int(n.low)-1), high))
	case kindRule:
		return m.step(m.rules[n.a], class)
	}
	return nothing
}

// stepAll returns the derivatives of several expressions. If all of them are needed, it ends at the first without one.
func (m *machine) stepAll(list []expr, class uint8, all bool) []expr {
	next := make([]expr, 0, len(list))
	for _, e := range list {
		d := m.step(e, class)
		if d != nothing {
			next = append(next, d)
		} else if all {
			return []expr{nothing}
		}
	}
	return next
}

// complete ends the construction: it finds which rules match the empty text, and the classes of bytes. what names the
// rules in errors.
func (m *machine) complete(root expr, what func(rule int) string) error {
	if m.err != nil {
		return m.err
	}
	m.root = root
	if m.findNullable(); m.err != nil {
		return m.err
	}
	if rule := m.leftRecursion(); rule >= 0 {
		return fmt.Errorf("%w: %s begins with itself", ErrLanguage, what(rule))
	}
	m.findClasses()
	m.base = len(m.nodes)
	return nil
}

// findNullable repeats until no rule changes: a rule matches the empty text only because others do.
func (m *machine) findNullable() {
	for changed, pass := true, 0; changed && m.err == nil; pass++ {
		changed = false
		m.charge(len(m.nodes))
		for i := range m.nodes {
			if pass%2 == 1 { // long chains of rules go one way or the other
				i = len(m.nodes) - 1 - i
			}
			n := &m.nodes[i]
			if n.nullable {
				continue
			}
			switch n.kind {
			case kindSequence:
				n.nullable = m.nodes[n.a].nullable && m.nodes[n.b].nullable
			case kindChoice:
				n.nullable = slices.ContainsFunc(n.list, func(e expr) bool { return m.nodes[e].nullable })
			case kindBoth:
				n.nullable = !slices.ContainsFunc(n.list, func(e expr) bool { return !m.nodes[e].nullable })
			case kindRepeat:
				n.nullable = m.nodes[n.a].nullable
			case kindRule:
				n.nullable = m.nodes[m.rules[n.a]].nullable
			}
			changed = changed || n.nullable
		}
	}
}

// leftRecursion returns a rule that may begin with itself, without a byte before, or -1. The derivative of such a
// rule would need itself.
func (m *machine) leftRecursion() int {
	const running, done = 1, 2
	state := make([]uint8, len(m.nodes))
	found, path := -1, []int{}
	var visit func(e expr)
	visit = func(e expr) {
		n := &m.nodes[e]
		switch {
		case found >= 0 || state[e] == done:
			return
		case state[e] == running:
			found = path[len(path)-1] // each cycle has a rule, and the last one is in it
			return
		}
		state[e] = running
		switch n.kind {
		case kindSequence:
			visit(expr(n.a))
			if m.nodes[n.a].nullable {
				visit(expr(n.b))
			}
		case kindChoice, kindBoth:
			for _, e := range n.list {
				visit(e)
			}
		case kindRepeat:
			visit(expr(n.a))
		case kindRule:
			path = append(path, int(n.a))
			visit(m.rules[n.a])
			path = path[:len(path)-1]
		}
		state[e] = done
	}
	for e := range m.nodes {
		visit(expr(e))
	}
	return found
}

// findClasses splits the bytes into classes that no set and no literal tells apart.
func (m *machine) findClasses() {
	var used byteSet
	for _, text := range m.literals {
		for i := range len(text) {
			used.add(text[i])
		}
	}
	split := func(s *byteSet) {
		var next [2][256]int // 1 + class, by membership and class before
		n := 0
		for b := range 256 {
			to := &next[0][m.class[b]]
			if s.has(byte(b)) {
				to = &next[1][m.class[b]]
			}
			if *to == 0 {
				n++
				*to = n
			}
			m.class[b] = uint8(*to - 1)
		}
	}
	for i := range m.sets {
		split(&m.sets[i])
	}
	for b := range 256 {
		if used.has(byte(b)) {
			var one byteSet
			one.add(byte(b))
			split(&one)
		}
	}
	m.example, m.single = nil, nil
	for b := range 256 {
		switch c := int(m.class[b]); {
		case c == len(m.example):
			m.example, m.single = append(m.example, byte(b)), append(m.single, true)
		default:
			m.single[c] = false
		}
	}
}

// accepts reports whether a text is in the language.
func (m *machine) accepts(text string) bool {
	e := m.root
	for i := range len(text) {
		if len(m.nodes)-m.base > keptStates { // no state before this one is needed again
			old := *m
			m.reset()
			e = m.adopt(&old, e)
			for i := range old.nodes[m.base:] {
				m.meter.put(old.nodes[m.base+i].bytes())
			}
		}
		if e = m.step(e, m.class[text[i]]); e == nothing {
			return false
		}
	}
	return m.nodes[e].nullable
}

// clone returns a machine with the expressions of the grammar, to which it adds its own derivatives.
func (m *machine) clone() *machine {
	c := *m
	c.most, c.err, c.meter = maxStates, nil, nil
	c.reset()
	return &c
}

// counted is clone with a meter of what the copy takes.
func (m *machine) counted(by *meter) (*machine, error) {
	if err := by.take(int64(m.base) * stateBytes); err != nil {
		return nil, err
	}
	c := m.clone()
	c.meter = by
	return c, nil
}

// reset forgets all derivatives.
func (m *machine) reset() {
	m.nodes = slices.Clone(m.nodes[:m.base])
	m.rows = make([][]expr, m.base)
	m.index = make(map[nodeKey]expr, m.base)
	for i := range m.nodes {
		m.index[m.nodes[i].key()] = expr(i)
	}
	m.steps, m.err = maskSteps, nil
}

// bytes returns about the memory of an expression.
func (n *node) bytes() int64 { return stateBytes + 8*int64(len(n.list)) }

// key returns what identifies an expression.
func (n *node) key() nodeKey {
	key := nodeKey{kind: n.kind, a: n.a, b: n.b, low: n.low, high: n.high}
	if len(n.list) > 0 {
		key.list = listKey(n.list)
	}
	return key
}

// adopt returns the expression of another machine of the same grammar.
func (m *machine) adopt(from *machine, e expr) expr {
	if int(e) < m.base || m.err != nil {
		return e
	}
	n := from.nodes[e]
	switch n.kind {
	case kindSequence:
		n.a, n.b = int32(m.adopt(from, expr(n.a))), int32(m.adopt(from, expr(n.b)))
	case kindRepeat:
		n.a = int32(m.adopt(from, expr(n.a)))
	case kindChoice, kindBoth:
		list := make([]expr, len(n.list))
		for i, part := range n.list {
			list[i] = m.adopt(from, part)
		}
		slices.Sort(list)
		n.list = list
	}
	return m.intern(n)
}
