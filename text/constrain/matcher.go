package constrain

import (
	"fmt"
	"slices"
	"sync"
)

// Matcher makes the masks of a grammar for a vocabulary. Answers with the same grammar share it. It is safe for
// concurrent use.
type Matcher struct {
	v       *Vocabulary
	reserve func(bytes int64) error

	mu       sync.Mutex
	m        *machine
	costs    *costs
	masks    map[expr]*mask
	cursors  map[*Cursor]struct{}
	stack    []expr // [depth] of a walk
	reserved int64
	fixed    int64 // bytes that do not change
}

// Mask is what may follow in an answer. Its memory is valid until the next call of [Cursor.Mask], and must not be modified.
type Mask struct {
	Bits []uint64 // [vocab/64] tokens that may follow
	Only int32    // the token, if there is only one; -1 otherwise
	Done bool     // the answer is complete, and nothing may follow
}

// mask is what is known about a state.
type mask struct {
	bits    []uint64 // [vocab/64]
	dearest int32    // the greatest cost behind a token; -1 without one
	only    int32    // as in Mask
}

const (
	// stateBytes is about the memory of an expression: node, its entry in the index, a row of derivatives and costs.
	stateBytes = 400
	// masksBytes bounds the memory of the masks that a matcher keeps.
	masksBytes = 8 << 20
	// slack is what a matcher reserves at once for states and masks.
	slack = 1 << 20
	// reserveStep is the granularity in bytes at which a matcher reserves memory.
	reserveStep = 1 << 20
)

// NewMatcher joins a grammar and a vocabulary. reserve, if set, is called before the matcher takes more memory; its errors end
// the operation. The error wraps ErrVocabulary if the tokens cannot spell any text of the language.
func NewMatcher(g *Grammar, v *Vocabulary, reserve func(bytes int64) error) (*Matcher, error) {
	m := &Matcher{v: v, reserve: reserve, m: g.m.clone(), cursors: map[*Cursor]struct{}{}}
	m.stack = make([]expr, v.longest+1)
	literals := make([][]int32, len(m.m.literals))
	total := int64(0)
	for i, text := range m.m.literals {
		total += int64(len(text)) * 4
		literals[i] = v.fewest(text)
	}
	m.fixed = total
	if err := m.charge(total + m.bytes() + slack); err != nil {
		return nil, err
	}
	m.costs = &costs{
		m: m.m, literals: literals, lower: &costs{m: m.m, spells: func(uint8) bool { return true }},
		spells: func(class uint8) bool {
			for b := range 256 {
				if m.m.class[b] == class && v.single.has(byte(b)) {
					return true
				}
			}
			return false
		},
	}
	m.costs.lower.solve()
	m.costs.solve()
	m.masks = map[expr]*mask{}
	switch {
	case m.m.err != nil:
		return nil, m.m.err
	case m.costs.get(m.m.root) >= never:
		return nil, ErrVocabulary
	}
	return m, nil
}

// charge reserves memory up to a number of bytes.
func (m *Matcher) charge(need int64) error {
	if need <= m.reserved || m.reserve == nil {
		return nil
	}
	more := (need - m.reserved + reserveStep - 1) / reserveStep * reserveStep
	if err := m.reserve(more); err != nil {
		return err
	}
	m.reserved += more
	return nil
}

// Reserved returns the memory that the matcher has reserved.
func (m *Matcher) Reserved() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.reserved
}

// prepare makes room for an operation: it drops states that nothing needs once there are many or no more memory is granted.
func (m *Matcher) prepare() error {
	if len(m.m.nodes) > maxStates/2 || m.m.err != nil {
		m.compact()
	}
	if int64(len(m.masks)+1)*m.maskBytes() > masksBytes {
		clear(m.masks)
	}
	m.m.steps = maskSteps
	err := m.charge(m.fixed + m.bytes())
	if err != nil && m.bytes() > int64(m.m.base)*stateBytes+slack/2 {
		m.compact()
		err = m.charge(m.fixed + m.bytes())
	}
	return err
}

// bytes returns the memory of the states and masks.
func (m *Matcher) bytes() int64 {
	return int64(len(m.m.nodes))*stateBytes + int64(len(m.masks)+1)*m.maskBytes()
}

func (m *Matcher) maskBytes() int64 { return int64((m.v.size+63)/64*8) + 64 }

// compact keeps only what the running answers need.
func (m *Matcher) compact() {
	old := *m.m
	m.m.reset()
	for c := range m.cursors {
		c.state = m.m.adopt(&old, c.state)
		c.saved = m.m.adopt(&old, c.saved)
	}
	for _, c := range []*costs{m.costs, m.costs.lower} {
		c.of = slices.Clone(c.of[:m.m.base])
	}
	clear(m.masks)
}

// Cursor follows one answer. It is not safe for concurrent use, but other cursors of its matcher may be used at
// the same time.
type Cursor struct {
	m     *Matcher
	state expr // what may still follow
	saved expr // at the last Branch
	own   mask // with a limit of tokens
}

// Begin returns a cursor for a new answer. Close frees it.
func (m *Matcher) Begin() *Cursor {
	c := &Cursor{m: m, state: m.m.root, saved: m.m.root}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cursors[c] = struct{}{}
	return c
}

// Close ends the use of the cursor.
func (c *Cursor) Close() {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	delete(c.m.cursors, c)
}

// Branch remembers the state, which Return restores.
func (c *Cursor) Branch() {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	c.saved = c.state
}

// Return restores the state at the last Branch.
func (c *Cursor) Return() {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	c.state = c.saved
}

// Accepts reports whether the answer is complete.
func (c *Cursor) Accepts() bool {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	return c.m.m.nodes[c.state].nullable
}

// Needs returns a number of tokens that is enough to complete the answer.
func (c *Cursor) Needs() int {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	return int(c.m.costs.get(c.state))
}

// Accept moves behind a token, or returns an error if the mask did not allow it. Tokens that end the generation
// change nothing.
func (c *Cursor) Accept(id int32) error {
	m := c.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if slices.Contains(m.v.ends, id) {
		return nil
	}
	if err := m.prepare(); err != nil {
		return err
	}
	e := c.state
	if id < 0 || int(id) >= m.v.size || m.v.spelled[id] == nil {
		return fmt.Errorf("constrain: token %d has no text", id)
	}
	e = m.behind(e, id)
	if m.m.err != nil {
		return m.m.err
	}
	if e == nothing {
		return fmt.Errorf("constrain: token %d is not what may follow", id)
	}
	c.state = e
	return nil
}

// Mask returns the tokens that may follow if at most left more tokens follow, including this one; 0 or less is
// no limit. If even the shortest end needs more, the limit is ignored.
func (c *Cursor) Mask(left int) (Mask, error) {
	m := c.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.prepare(); err != nil {
		return Mask{}, err
	}
	k, err := m.mask(c.state)
	if err != nil {
		return Mask{}, err
	}
	if m.limits(c.state, k, left) {
		if err := m.walk(c.state, &c.own, int32(left-1)); err != nil {
			return Mask{}, err
		}
		k = &c.own
	}
	return Mask{Bits: k.bits, Only: k.only, Done: k.dearest < 0 && m.m.nodes[c.state].nullable}, nil
}

// Done reports whether the answer is complete, and nothing may follow.
func (c *Cursor) Done() (bool, error) {
	m := c.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.m.nodes[c.state].nullable {
		return false, nil
	}
	if err := m.prepare(); err != nil {
		return false, err
	}
	k, err := m.mask(c.state)
	return err == nil && k.dearest < 0, err
}

// Prepare computes the mask of the state, so that Mask returns it at once. It may run at the same time as other methods.
func (c *Cursor) Prepare() {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	if c.m.prepare() == nil {
		_, _ = c.m.mask(c.state) // Mask returns the error
	}
}

// Prepared reports whether the mask of the state is known.
func (c *Cursor) Prepared() bool {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	_, ok := c.m.masks[c.m.alike(c.state, alikeDepth)]
	return ok
}

// limits reports whether a limit of tokens may forbid some that a mask allows.
func (m *Matcher) limits(e expr, k *mask, left int) bool {
	return left > 0 && k.dearest > int32(min(left, never))-1 && m.costs.get(e) <= int32(min(left, never))
}

// Forced appends up to n tokens that must follow one after the other, because the language leaves no choice, and
// which at most left tokens allow; 0 or less is no limit.
func (c *Cursor) Forced(dst []int32, n, left int) ([]int32, error) {
	m := c.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.prepare(); err != nil {
		return dst, err
	}
	at := c.state
	for range n {
		k, err := m.mask(at)
		if err != nil {
			return dst, err
		}
		if k.only < 0 || m.limits(at, k, left) {
			break
		}
		dst = append(dst, k.only)
		if left > 0 {
			if left--; left == 0 {
				break
			}
		}
		at = m.behind(at, k.only)
	}
	return dst, m.m.err
}

// mask returns the mask of a state without a limit.
func (m *Matcher) mask(e expr) (*mask, error) {
	e = m.alike(e, alikeDepth)
	if k, ok := m.masks[e]; ok {
		return k, m.m.err
	}
	k := &mask{}
	if id := m.certain(e); id >= 0 {
		k.bits = make([]uint64, (m.v.size+63)/64)
		k.allow(id, m.costs.get(m.behind(e, id)))
		k.only = id
	} else if err := m.walk(e, k, never-1); err != nil {
		return nil, err
	}
	if m.m.err == nil {
		m.masks[e] = k
	}
	return k, m.m.err
}

// allow adds a token with a cost behind it.
func (k *mask) allow(id, cost int32) {
	k.bits[id/64] |= 1 << (id % 64)
	k.dearest = max(k.dearest, cost)
}

// behind returns the state behind a token.
func (m *Matcher) behind(e expr, id int32) expr {
	for _, b := range m.v.spelled[id] {
		e = m.m.step(e, m.m.class[b])
	}
	return e
}

// walk finds the tokens behind which a state costs at most most.
func (m *Matcher) walk(start expr, k *mask, most int32) error {
	if k.bits == nil {
		k.bits = make([]uint64, (m.v.size+63)/64)
	}
	clear(k.bits)
	k.dearest, k.only = -1, -1
	found := 0
	m.stack[0] = start
	for i := int32(0); int(i) < len(m.v.nodes); {
		n := &m.v.nodes[i]
		next := m.m.step(m.stack[n.depth-1], m.m.class[n.b])
		if next == nothing || m.costs.get(next) >= never {
			i = n.end
			continue
		}
		m.stack[n.depth] = next
		if n.token >= 0 && m.costs.get(next) <= most {
			for t := n.token; t >= 0; t = m.v.tokens[t].next {
				k.only = m.v.tokens[t].id
				k.allow(k.only, m.costs.get(next))
				found++
			}
		}
		i++
	}
	nullable := m.m.nodes[start].nullable
	if nullable {
		for _, id := range m.v.ends {
			k.bits[id/64] |= 1 << (id % 64)
		}
	}
	if found != 1 || nullable {
		k.only = -1
	}
	if found == 0 && !nullable && m.m.err == nil {
		m.m.err = ErrVocabulary
	}
	return m.m.err
}

// certain returns the token that is taken where the next bytes are certain, -1 otherwise: the longest that spells them. Where
// a token spells all of them and more, the choice is left to the model.
func (m *Matcher) certain(start expr) int32 {
	e, node, found := start, int32(-1), int32(-1)
	for {
		b, only := m.onlyByte(e)
		if !only {
			break
		}
		e = m.m.step(e, m.m.class[b])
		if node = m.v.child(node, b); node < 0 {
			break
		}
		if m.v.nodes[node].token >= 0 {
			found = m.v.preferred(node)
		}
	}
	if node >= 0 && m.v.nodes[node].end > node+1 && e != empty || found < 0 {
		return -1
	}
	if m.costs.get(m.behind(start, found)) >= never {
		return -1
	}
	return found
}

// onlyByte returns the byte that must follow, if there is only one.
func (m *Matcher) onlyByte(e expr) (b byte, only bool) {
	n := &m.m.nodes[e]
	if n.nullable {
		return 0, false
	}
	head := n
	if n.kind == kindSequence {
		head = &m.m.nodes[n.a]
	}
	if head.kind == kindLiteral {
		return m.m.literals[head.a][head.b], true
	}
	found := -1
	for class := range m.m.example {
		if next := m.m.step(e, uint8(class)); next == nothing || m.costs.get(next) >= never {
			continue
		}
		if found >= 0 || !m.m.single[class] {
			return 0, false
		}
		found = class
	}
	if found < 0 {
		return 0, false
	}
	return m.m.example[found], true
}

// alikeDepth is how deep alike looks for repetitions.
const alikeDepth = 4

// alike returns a state with the same mask that more states have: a repetition whose bound no token reaches has none.
func (m *Matcher) alike(e expr, depth int) expr {
	if depth == 0 {
		return e
	}
	n := m.m.nodes[e]
	switch n.kind {
	case kindRepeat:
		if int(n.high) > m.v.longest+1 && int(n.low) <= m.v.longest {
			return m.m.repeat(expr(n.a), int(n.low), unlimited)
		}
	case kindSequence:
		a, b := m.alike(expr(n.a), depth-1), m.alike(expr(n.b), depth-1)
		if a != expr(n.a) || b != expr(n.b) {
			return m.m.pair(a, b)
		}
	case kindChoice, kindBoth:
		var list []expr
		for i, part := range n.list {
			if like := m.alike(part, depth-1); like != part {
				if list == nil {
					list = slices.Clone(n.list)
				}
				list[i] = like
			}
		}
		switch {
		case list == nil:
		case n.kind == kindChoice:
			return m.m.choice(list...)
		default:
			return m.m.both(list...)
		}
	}
	return e
}
