package constrain

import (
	"fmt"
	"math/bits"
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
	stack    []expr  // [depth] of a walk
	plain    []uint8 // classes of plain bytes
	reserved int64
	fixed    int64 // bytes that do not change
}

// Mask is what may follow in an answer. Its memory is valid until the next call of [Cursor.Mask] or [Cursor.Prepare], and must not be modified.
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
	for b := range 256 {
		if class := m.m.class[b]; isPlain(byte(b)) && !slices.Contains(m.plain, class) {
			m.plain = append(m.plain, class)
		}
	}
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
		c.ownOf = nothing
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
	// ownOf and ownLeft are the state and the limit of own.
	ownOf   expr
	ownLeft int32
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

// Restart moves to the beginning of another answer.
func (c *Cursor) Restart() {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	c.state = c.m.m.root
}

// Read moves behind a text, whatever the tokens that it came in. It reports false, and the state is of no use, if the answer cannot be completed
// behind it.
func (c *Cursor) Read(text string) (ok bool, err error) {
	m := c.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.prepare(); err != nil {
		return false, err
	}
	for i := 0; i < len(text) && c.state != nothing; i++ {
		c.state = m.m.step(c.state, m.m.class[text[i]])
	}
	return c.state != nothing && m.costs.get(c.state) < never && m.m.err == nil, m.m.err
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
	k, err := c.mask(left)
	if err != nil {
		return Mask{}, err
	}
	return Mask{Bits: k.bits, Only: k.only, Done: k.dearest < 0 && m.m.nodes[c.state].nullable}, nil
}

// mask returns the mask of the state with a limit of tokens.
func (c *Cursor) mask(left int) (mask, error) {
	m := c.m
	k, err := m.mask(c.state)
	if err != nil || !m.limits(c.state, &k, left) {
		return k, err
	}
	if c.ownOf != c.state || c.ownLeft != int32(left) {
		c.ownOf, c.ownLeft = nothing, int32(left)
		if err := m.fill(c.state, &c.own, int32(left-1)); err != nil {
			return mask{}, err
		}
		c.ownOf = c.state
	}
	return c.own, nil
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

// Prepare computes the mask of the state, so that Mask with the same limit returns it at once. It may run at the same time as other methods,
// but overwrites a mask that is in use.
func (c *Cursor) Prepare(left int) {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	if c.m.prepare() == nil {
		_, _ = c.mask(left) // Mask returns the error
	}
}

// Prepared reports whether the mask of the state with a limit is known.
func (c *Cursor) Prepared(left int) bool {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	k, ok := c.m.known(c.state)
	return ok && (!c.m.limits(c.state, &k, left) || c.ownOf == c.state && c.ownLeft == int32(left))
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
		if k.only < 0 || m.limits(at, &k, left) {
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

// known returns the mask of a state without a limit, if it is known.
func (m *Matcher) known(e expr) (mask, bool) {
	if k, ok := m.masks[e]; ok {
		return *k, true
	}
	like := m.alike(e)
	k, ok := m.masks[like.e]
	if !ok || like.exact < m.v.longest {
		return mask{}, false
	}
	return like.of(k), true
}

// mask returns the mask of a state without a limit.
func (m *Matcher) mask(e expr) (mask, error) {
	if k, ok := m.known(e); ok {
		return k, m.m.err
	}
	k := &mask{}
	like := m.alike(e)
	if id := m.certain(e); id >= 0 {
		k.bits = make([]uint64, (m.v.size+63)/64)
		k.allow(id, m.costs.get(m.behind(e, id)))
		k.only = id
		like = likeness{e: e, exact: m.v.longest}
	} else if err := m.share(e, &like, k); err != nil {
		return mask{}, err
	}
	if m.m.err == nil && like.exact >= m.v.longest {
		m.masks[like.e] = k
		return like.of(k), nil
	}
	if m.m.err == nil {
		m.masks[e] = k
	}
	return *k, m.m.err
}

// share computes a mask by means of that of a state which is like it.
func (m *Matcher) share(e expr, like *likeness, k *mask) error {
	if like.exact >= m.v.longest {
		return m.fill(like.e, k, never-1)
	}
	other, ok := m.masks[like.e]
	if !ok {
		other = &mask{}
		m.walk(like.e, other, never-1)
		stuck := m.count(like.e, other)
		if m.m.err != nil {
			return m.m.err
		}
		if !stuck {
			m.masks[like.e] = other
		}
	}
	k.bits = slices.Clone(other.bits)
	k.dearest, k.only = other.dearest+like.dearer, other.only
	m.correct(e, k, like.exact, never-1)
	return m.complete(e, k)
}

// fill computes a mask of the tokens behind which a state costs at most most.
func (m *Matcher) fill(e expr, k *mask, most int32) error {
	like := m.alike(e)
	if most < never-1 {
		most -= like.dearer
	}
	m.walk(like.e, k, most)
	if most < never-1 {
		most += like.dearer
	}
	k.dearest += like.dearer
	m.correct(e, k, like.exact, most)
	return m.complete(e, k)
}

// correct decides alone about each token that is longer than exact.
func (m *Matcher) correct(e expr, k *mask, exact int, most int32) {
	if exact >= m.v.longest {
		return
	}
	from, _ := slices.BinarySearchFunc(m.v.long, exact+1, func(id int32, n int) int { return len(m.v.spelled[id]) - n })
	for _, id := range m.v.long[from:] {
		k.bits[id/64] &^= 1 << (id % 64)
		if next := m.behind(e, id); next != nothing {
			if cost := m.costs.get(next); cost <= most && cost < never {
				k.allow(id, cost)
			}
		}
	}
}

// complete completes a mask. One without tokens, where the language does not end, is an error.
func (m *Matcher) complete(e expr, k *mask) error {
	if stuck := m.count(e, k); stuck && m.m.err == nil {
		m.m.err = ErrVocabulary
	}
	return m.m.err
}

// count completes a mask: it finds whether there is one token, or none, and adds those that end the generation. stuck tells that
// nothing may follow, not even the end.
func (m *Matcher) count(e expr, k *mask) (stuck bool) {
	for _, id := range m.v.ends {
		k.bits[id/64] &^= 1 << (id % 64)
	}
	nullable := m.m.nodes[e].nullable
	found := 0
	k.only = -1
	for i, word := range k.bits {
		if word != 0 && found == 0 {
			k.only = int32(64*i + bits.TrailingZeros64(word))
		}
		found += bits.OnesCount64(word)
	}
	if found != 1 || nullable {
		k.only = -1
	}
	if found == 0 {
		k.dearest = -1
	}
	if nullable {
		for _, id := range m.v.ends {
			k.bits[id/64] |= 1 << (id % 64)
		}
	}
	return found == 0 && !nullable
}

// allow adds a token with a cost behind it.
func (k *mask) allow(id, cost int32) {
	k.bits[id/64] |= 1 << (id % 64)
	k.dearest = max(k.dearest, cost)
}

// behind returns the state behind a token.
func (m *Matcher) behind(e expr, id int32) expr {
	for _, b := range m.v.spelled[id] {
		if e = m.m.step(e, m.m.class[b]); e == nothing {
			break
		}
	}
	return e
}

// walk finds the tokens behind which a state costs at most most, for count.
func (m *Matcher) walk(start expr, k *mask, most int32) {
	if k.bits == nil {
		k.bits = make([]uint64, (m.v.size+63)/64)
	}
	clear(k.bits)
	k.dearest = -1
	nodes, class := m.v.nodes, &m.m.class
	looping, loops := nothing, false
	m.stack[0] = start
	for i := int32(0); int(i) < len(nodes); {
		n := &nodes[i]
		from, next := m.stack[n.depth-1], notComputed
		if row := m.m.rows[from]; row != nil {
			next = row[class[n.b]]
		}
		if next == notComputed {
			next = m.m.step(from, class[n.b])
		}
		cost := int32(never)
		if next != nothing {
			cost = m.costs.get(next)
		}
		if cost >= never {
			i = n.end
			continue
		}
		if next == from && n.plain {
			if looping != from {
				looping, loops = from, m.loops(from)
			}
			if loops {
				if cost <= most {
					m.allowAll(k, i, n.end, cost)
				}
				i = n.end
				continue
			}
		}
		m.stack[n.depth] = next
		if n.token >= 0 && cost <= most {
			for t := n.token; t >= 0; t = m.v.tokens[t].next {
				k.allow(m.v.tokens[t].id, cost)
			}
		}
		i++
	}
}

// loops reports whether plain bytes lead from a state to itself.
func (m *Matcher) loops(e expr) bool {
	for _, class := range m.plain {
		if m.m.step(e, class) != e {
			return false
		}
	}
	return true
}

// allowAll adds the tokens of nodes.
func (m *Matcher) allowAll(k *mask, from, end, cost int32) {
	k.dearest = max(k.dearest, cost)
	for i := range m.v.nodes[from:end] {
		for t := m.v.nodes[int(from)+i].token; t >= 0; t = m.v.tokens[t].next {
			id := m.v.tokens[t].id
			k.bits[id/64] |= 1 << (id % 64)
		}
	}
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

const (
	// alikeDepth is how deep alike looks for repetitions.
	alikeDepth = 4
	// sharedBytes is the least bound of a repetition that alike replaces: the fewer bytes it has, the more tokens are longer.
	sharedBytes = 12
)

// likeness is a state from which tokens of at most exact bytes lead on exactly if they do from another one, which costs more by dearer.
type likeness struct {
	e      expr
	exact  int
	dearer int32
}

// of returns the mask that a state has by means of that of the one like it.
func (l *likeness) of(k *mask) mask {
	other := *k
	if other.dearest >= 0 {
		other.dearest += l.dearer
	}
	return other
}

// alike returns a state that many states are like: a bound of a repetition that no token reaches does not matter, and few tokens reach one
// of sharedBytes or more.
func (m *Matcher) alike(e expr) likeness {
	like := likeness{exact: m.v.longest}
	like.e = m.unbounded(e, alikeDepth, true, &like.exact)
	if like.e != e {
		like.dearer = m.costs.get(e) - m.costs.get(like.e)
	}
	return like
}

// unbounded returns an expression whose repetitions have no bounds, and reduces exact to the bytes that reach none. A repetition within an
// intersection keeps its bounds: they decide whether the other parts can be met. Without least, lower bounds stay, which costs depend
// on: of a choice only some states would cost more.
func (m *Matcher) unbounded(e expr, depth int, least bool, exact *int) expr {
	if depth == 0 {
		return e
	}
	n := m.m.nodes[e]
	switch n.kind {
	case kindRepeat:
		low, high := int(n.low), int(n.high)
		if least && low >= sharedBytes {
			*exact = min(*exact, low)
			low = m.v.longest + 1
		}
		if high != unlimited && high >= sharedBytes {
			*exact = min(*exact, high)
			high = unlimited
		}
		return m.m.repeat(expr(n.a), low, high)
	case kindSequence:
		a, b := m.unbounded(expr(n.a), depth-1, least, exact), m.unbounded(expr(n.b), depth-1, least, exact)
		if a != expr(n.a) || b != expr(n.b) {
			return m.m.pair(a, b)
		}
	case kindChoice:
		var list []expr
		for i, part := range n.list {
			if like := m.unbounded(part, depth-1, false, exact); like != part {
				if list == nil {
					list = slices.Clone(n.list)
				}
				list[i] = like
			}
		}
		if list != nil {
			return m.m.choice(list...)
		}
	}
	return e
}
