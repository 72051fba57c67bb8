package draft

import (
	"math/bits"

	"github.com/llmrun/llmrun/tiering"
)

// Automaton finds the longest end of a text that occurred before, and what followed it there. It is a
// suffix automaton: a state stands for all substrings of the text with the same end positions, a
// transition for a token behind them, and a state's link leads to the longest shorter substring with
// more end positions. Append takes constant time for a token on average. The memory is allocated
// once; when it is full, Automaton forgets the older half of the text.
type Automaton struct {
	frame *tiering.Frame
	text  []int32 // the tokens, at most a capacity
	used  int     // tokens of text

	// States; 0 is the empty substring.
	link, length, ended, edges []int32 // [2*capacity]; ended: the latest known end position before the last token
	states                     int
	last                       int32 // the state of the whole text

	// Transitions, and a hash table of them by state and token.
	token, to, sibling, from []int32 // [3*capacity]; sibling: the next transition of the same state
	transitions              int
	table                    []int32 // transition+1, 0: empty
}

// NewAutomaton returns a Automaton for a text of up to capacity tokens. Its memory is charged to budget.
func NewAutomaton(budget *tiering.Budget, capacity int) (*Automaton, error) {
	capacity = max(capacity, 2)
	t := &Automaton{}
	var probe tiering.Arena
	t.carve(&probe, capacity)
	frame, err := tiering.Alloc(budget, tiering.Drafts, probe.Need())
	if err != nil {
		return nil, err
	}
	t.frame = frame
	arena := tiering.NewArena(frame)
	t.carve(arena, capacity)
	t.Reset()
	return t, arena.Err()
}

// AutomatonMemory is what a Automaton takes at most for a capacity.
func AutomatonMemory() tiering.Line {
	const many = 1 << 20 // tokens, beside which the rounding of parts vanishes
	fixed := automatonBytes(0)
	return tiering.Line{Fixed: fixed, PerToken: (automatonBytes(many)-fixed)/many + 1}
}

// automatonBytes returns the memory of a Automaton.
func automatonBytes(capacity int) int64 {
	var probe tiering.Arena
	(&Automaton{}).carve(&probe, max(capacity, 2))
	return int64(probe.Need())
}

func (t *Automaton) carve(a *tiering.Arena, capacity int) {
	states, transitions := 2*capacity, 3*capacity
	t.text = a.Int32s(capacity)
	t.link, t.length, t.ended, t.edges = a.Int32s(states), a.Int32s(states), a.Int32s(states), a.Int32s(states)
	t.token, t.to, t.sibling, t.from = a.Int32s(transitions), a.Int32s(transitions), a.Int32s(transitions), a.Int32s(transitions)
	t.table = a.Int32s(transitions * 4 / 3)
}

// Close frees the memory.
func (t *Automaton) Close() { t.frame.Free() }

// Reset forgets the text.
func (t *Automaton) Reset() {
	t.used, t.states, t.transitions, t.last = 0, 0, 0, 0
	clear(t.table)
	t.newState(0, -1, -1, -1)
}

// Text returns the tokens that are known. The caller must not change them.
func (t *Automaton) Text() []int32 { return t.text[:t.used] }

// Append adds tokens to the text.
func (t *Automaton) Append(ids ...int32) {
	if over := len(ids) - len(t.text)/2; over > 0 {
		ids = ids[over:]
	}
	for _, id := range ids {
		if t.used == len(t.text) {
			t.forget()
		}
		t.add(id)
	}
}

// forget drops the older half of the text.
func (t *Automaton) forget() {
	kept := t.text[t.used-t.used/2 : t.used]
	t.Reset()
	for i := range kept { // add writes the text in place, at or before what is read here
		t.add(kept[i])
	}
}

// Draft appends up to n tokens to dst that followed where the end of the text occurred before, and
// returns how many tokens of the end match. Without a match it appends nothing.
func (t *Automaton) Draft(dst []int32, n int) (ids []int32, match int) {
	at := t.link[t.last]
	if at <= 0 {
		return dst, 0
	}
	next, start := int(t.ended[at])+1, len(dst)
	for i := range n {
		if from := next + i; from < t.used {
			dst = append(dst, t.text[from])
		} else {
			dst = append(dst, dst[start+from-t.used]) // the text repeats itself
		}
	}
	return dst, int(t.length[at])
}

// add appends one token: the step of Blumer's construction.
func (t *Automaton) add(id int32) {
	at := int32(t.used)
	t.text[at] = id
	t.used++
	t.noteEnds(at - 1)
	state := t.newState(t.length[t.last]+1, 0, at, -1)
	p := t.last
	for ; p >= 0 && t.find(p, id) < 0; p = t.link[p] {
		t.connect(p, id, state)
	}
	t.last = state
	if p < 0 {
		return
	}
	edge := t.find(p, id)
	q := t.to[edge]
	if t.length[p]+1 == t.length[q] {
		t.link[state] = q
		return
	}
	clone := t.newState(t.length[p]+1, t.link[q], t.ended[q], -1)
	for e := t.edges[q]; e >= 0; e = t.sibling[e] {
		t.connect(clone, t.token[e], t.to[e])
	}
	for ; p >= 0; p = t.link[p] {
		if edge = t.find(p, id); edge < 0 || t.to[edge] != q {
			break
		}
		t.to[edge] = clone
	}
	t.link[q], t.link[state] = clone, clone
}

// noteDepth bounds the states whose latest end a token updates: those of its longest substrings.
const noteDepth = 8

// noteEnds records that the substrings at the end of the text, before a token is added, end at a
// position. Draft thus finds the latest occurrence and not the first.
func (t *Automaton) noteEnds(at int32) {
	for s, i := t.last, 0; s > 0 && i < noteDepth; s, i = t.link[s], i+1 {
		t.ended[s] = at
	}
}

func (t *Automaton) newState(length, link, ended, edges int32) int32 {
	s := t.states
	t.length[s], t.link[s], t.ended[s], t.edges[s] = length, link, ended, edges
	t.states++
	return int32(s)
}

// connect adds a transition.
func (t *Automaton) connect(from, id, to int32) {
	e := int32(t.transitions)
	t.transitions++
	t.from[e], t.token[e], t.to[e] = from, id, to
	t.sibling[e], t.edges[from] = t.edges[from], e
	slot := t.slot(from, id)
	for t.table[slot] != 0 {
		slot = t.after(slot)
	}
	t.table[slot] = e + 1
}

// find returns the transition of a state with a token, or -1.
func (t *Automaton) find(from, id int32) int32 {
	for slot := t.slot(from, id); ; slot = t.after(slot) {
		e := t.table[slot] - 1
		if e < 0 || t.from[e] == from && t.token[e] == id {
			return e
		}
	}
}

// slot returns where the search for a transition begins in the table.
func (t *Automaton) slot(from, id int32) int {
	const odd = 0x9e3779b97f4a7c15 // 2^64 divided by the golden ratio
	slot, _ := bits.Mul64((uint64(uint32(from))<<32|uint64(uint32(id)))*odd, uint64(len(t.table)))
	return int(slot)
}

// after returns the next slot of the table.
func (t *Automaton) after(slot int) int {
	if slot++; slot < len(t.table) {
		return slot
	}
	return 0
}
