package constrain

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"
)

// never is the cost of an expression that no text satisfies.
const never = 1 << 30

// unknown marks a cost that is not computed.
const unknown = -1

// costs bounds how many tokens, or bytes, complete expressions. For every state with a cost of n > 0 there is a token
// behind which the cost is at most n-1; this is what makes masks with a limit of tokens never empty. Costs depend on
// the expression alone.
type costs struct {
	m        *machine
	of       []int32                // [node]
	literals [][]int32              // [literal][offset] fewest tokens that spell the rest; nil: its bytes
	spells   func(class uint8) bool // a token is one byte of the class
	lower    *costs                 // in bytes, of the parts of intersections; nil: these are those, and intersections cost never
}

// byteCosts counts bytes.
func byteCosts(m *machine) *costs {
	anyByte := func(uint8) bool { return true }
	c := &costs{m: m, spells: anyByte, lower: &costs{m: m, spells: anyByte}}
	c.lower.solve()
	c.solve()
	return c
}

// add adds costs without overflow.
func addCost(a, b int32) int32 { return min(a+b, never) }

func timesCost(a, n int32) int32 { return int32(min(int64(a)*int64(n), never)) }

// get returns the cost of an expression.
func (c *costs) get(e expr) int32 {
	if n := len(c.m.nodes) - len(c.of); n > 0 {
		c.of = append(c.of, slices.Repeat([]int32{unknown}, n)...)
	}
	if c.of[e] == unknown {
		cost := c.compute(e)
		if c.of[e] == unknown { // a search has set it
			c.of[e] = cost
		}
	}
	return c.of[e]
}

// compute returns the cost of an expression that is no rule.
func (c *costs) compute(e expr) int32 {
	n := c.m.nodes[e]
	if n.nullable {
		return 0
	}
	switch n.kind {
	case kindSet:
		return c.set(n.a)
	case kindLiteral:
		return c.literal(n.a, n.b)
	case kindSequence:
		if a := c.get(expr(n.a)); a < never {
			return addCost(a, c.get(expr(n.b)))
		}
	case kindChoice:
		least := int32(never)
		for _, e := range n.list {
			least = min(least, c.get(e))
		}
		return least
	case kindBoth:
		if c.lower != nil {
			return c.search(e)
		}
	case kindRepeat:
		return timesCost(c.get(expr(n.a)), n.low)
	case kindRule:
		return c.get(c.m.rules[n.a])
	}
	return never
}

func (c *costs) set(i int32) int32 {
	s := &c.m.sets[i]
	for class, b := range c.m.example {
		if s.has(b) && c.spells(uint8(class)) {
			return 1
		}
	}
	return never
}

func (c *costs) literal(i, from int32) int32 {
	if c.literals != nil {
		return c.literals[i][from]
	}
	return int32(len(c.m.literals[i])) - from
}

// solve computes the costs of the expressions of a grammar, whose rules may be recursive. Costs of a sequence are at
// least those of its parts, so the expressions get theirs in ascending order, each once, as nodes do in Dijkstra's
// algorithm.
func (c *costs) solve() {
	m := c.m
	base := len(m.nodes)
	c.of = slices.Repeat([]int32{unknown}, base)
	users := make([][]expr, base)
	queue := &costQueue{}
	for i := range base {
		e, n := expr(i), &m.nodes[i]
		switch {
		case n.nullable:
			heap.Push(queue, costed{e, 0})
			continue
		case n.kind == kindSet || n.kind == kindLiteral || n.kind == kindBoth:
			heap.Push(queue, costed{e, c.compute(e)})
			continue
		}
		for _, part := range m.parts(e) {
			users[part] = append(users[part], e)
		}
	}
	for queue.Len() > 0 {
		next := heap.Pop(queue).(costed)
		if next.cost >= never {
			break
		}
		if c.of[next.e] != unknown && m.nodes[next.e].kind != kindBoth || next.cost > c.known(next.e) {
			continue
		}
		c.of[next.e] = next.cost
		for _, user := range users[next.e] {
			if cost := c.fromParts(user, next.cost); cost < never && c.of[user] == unknown {
				heap.Push(queue, costed{user, cost})
			}
		}
	}
	for i := range base {
		if c.of[i] == unknown {
			c.of[i] = never
		}
	}
}

// parts returns the expressions that an expression consists of.
func (m *machine) parts(e expr) []expr {
	switch n := &m.nodes[e]; n.kind {
	case kindSequence:
		return []expr{expr(n.a), expr(n.b)}
	case kindChoice, kindBoth:
		return n.list
	case kindRepeat:
		return []expr{expr(n.a)}
	case kindRule:
		return []expr{m.rules[n.a]}
	}
	return nil
}

// known returns a cost that solve has found, or never.
func (c *costs) known(e expr) int32 {
	if c.of[e] == unknown {
		return never
	}
	return c.of[e]
}

// fromParts returns the cost of an expression when one of its parts has got its cost. That of a choice or a rule is the
// cost of the first part that has one, because costs ascend.
func (c *costs) fromParts(e expr, part int32) int32 {
	switch n := &c.m.nodes[e]; n.kind {
	case kindSequence:
		return addCost(c.known(expr(n.a)), c.known(expr(n.b)))
	case kindRepeat:
		return timesCost(part, n.low)
	}
	return part
}

// costed is an expression with a cost.
type costed struct {
	e    expr
	cost int32
}

// costQueue is a heap of the least cost.
type costQueue []costed

func (q costQueue) Len() int { return len(q) }
func (q costQueue) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(q[i].cost, q[j].cost), cmp.Compare(q[i].e, q[j].e)) < 0
}
func (q costQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *costQueue) Push(x any)   { *q = append(*q, x.(costed)) }
func (q *costQueue) Pop() any {
	last := len(*q) - 1
	x := (*q)[last]
	*q = (*q)[:last]
	return x
}

// search returns the number of bytes of the shortest text of an intersection: A* over its derivatives, with the
// greatest cost of the parts as the bound of what is left. It also sets the costs of the states on the way.
func (c *costs) search(start expr) int32 {
	type reached struct {
		cost int32
		from expr
	}
	m := c.m
	seen := map[expr]reached{start: {0, start}}
	done := map[expr]bool{}
	queue := &costQueue{{start, c.least(start)}}
	for queue.Len() > 0 {
		e := heap.Pop(queue).(costed).e
		if done[e] {
			continue
		}
		done[e] = true
		cost := seen[e].cost
		rest, ends := int32(0), m.nodes[e].nullable
		if !ends && e != start && int(e) < len(c.of) && c.of[e] != unknown {
			rest, ends = c.of[e], true
		}
		if ends && rest < never {
			total := addCost(cost, rest)
			for at := e; ; at = seen[at].from {
				c.note(at, total-seen[at].cost)
				if at == start {
					return total
				}
			}
		}
		if ends {
			continue
		}
		if len(seen) > maxSearch && m.err == nil {
			m.err = fmt.Errorf("%w: the search for a text that meets all conditions needs more than %d states", ErrComplex, maxSearch)
		}
		for class := range m.example {
			if !c.spells(uint8(class)) {
				continue
			}
			next := m.step(e, uint8(class))
			if m.err != nil {
				return never
			}
			if r, ok := seen[next]; next == nothing || ok && r.cost <= cost+1 {
				continue
			}
			seen[next] = reached{cost + 1, e}
			left := c.least(next)
			if int(next) < len(c.of) && c.of[next] != unknown {
				left = c.of[next]
			}
			if left < never {
				heap.Push(queue, costed{next, cost + 1 + left})
			}
		}
	}
	for e := range done {
		c.note(e, never)
	}
	return never
}

// note sets the cost of a state that a search has found.
func (c *costs) note(e expr, cost int32) {
	if n := len(c.m.nodes) - len(c.of); n > 0 {
		c.of = append(c.of, slices.Repeat([]int32{unknown}, n)...)
	}
	c.of[e] = cost
}

// least returns a number of bytes that each text of an expression has.
func (c *costs) least(e expr) int32 {
	n := &c.m.nodes[e]
	if n.kind != kindBoth {
		return c.lower.get(e)
	}
	most := int32(0)
	for _, part := range n.list {
		most = max(most, c.lower.get(part))
	}
	return most
}
