package token

import (
	"math"
	"math/bits"
)

// mergeTable answers "do these two neighbours join, how urgently, and into
// what": the only question byte-pair encoding asks. Both kinds of vocabulary
// become such a table when they are loaded: lists of merges directly, scored
// pieces (SentencePiece) by cutting every piece at every place.
type mergeTable struct {
	slots []mergeSlot // open-addressed, a power of two long
	count int
}

type mergeSlot struct {
	pair uint64 // left<<32 | right, plus one: 0 is an empty slot
	merge
}

// merge is what a pair of neighbours becomes. A lower rank is applied first;
// of equal ranks the leftmost pair.
type merge struct {
	rank int32
	id   int32
}

// noMerge is the rank of neighbours that do not join.
const noMerge = math.MaxInt32

func newMergeTable(count int) *mergeTable {
	return &mergeTable{slots: make([]mergeSlot, tableSize(count))}
}

func pairKey(left, right int32) uint64 {
	return (uint64(uint32(left))<<32 | uint64(uint32(right))) + 1
}

func (t *mergeTable) home(key uint64) int {
	high, low := bits.Mul64(key, 0x9E3779B97F4A7C15)
	return int(high^low) & (len(t.slots) - 1)
}

// put records a merge; an earlier one of the same pair is kept unless replace.
func (t *mergeTable) put(left, right int32, m merge, replace bool) {
	if t.count*3 >= len(t.slots)*2 {
		t.grow()
	}
	key := pairKey(left, right)
	for at := t.home(key); ; at = (at + 1) & (len(t.slots) - 1) {
		slot := &t.slots[at]
		if slot.pair == 0 {
			*slot = mergeSlot{key, m}
			t.count++
			return
		}
		if slot.pair == key {
			if replace {
				slot.merge = m
			}
			return
		}
	}
}

func (t *mergeTable) grow() {
	old := t.slots
	t.slots = make([]mergeSlot, 2*len(old))
	for _, slot := range old {
		if slot.pair == 0 {
			continue
		}
		at := t.home(slot.pair)
		for t.slots[at].pair != 0 {
			at = (at + 1) & (len(t.slots) - 1)
		}
		t.slots[at] = slot
	}
}

// get returns the merge of two neighbours; its rank is noMerge when they stay
// apart.
func (t *mergeTable) get(left, right int32) merge {
	key := pairKey(left, right)
	for at := t.home(key); ; at = (at + 1) & (len(t.slots) - 1) {
		slot := &t.slots[at]
		if slot.pair == key {
			return slot.merge
		}
		if slot.pair == 0 {
			return merge{rank: noMerge, id: -1}
		}
	}
}

// maxShortWord is the longest word, in symbols, that is merged by plain search:
// its cost is quadratic but a word is a handful of symbols in one cache line.
const maxShortWord = 40

// apply joins neighbours of ids, in place, until none joins, and returns what
// is left. work is scratch that is kept between calls.
func (t *mergeTable) apply(ids []int32, work *mergeWork) []int32 {
	if len(ids) > maxShortWord {
		return work.long.apply(t, ids)
	}
	return t.applyShort(ids, work.short[:0])
}

// mergeWork is the scratch of one encoder.
type mergeWork struct {
	short [maxShortWord]merge
	long  longMerger
}

// applyShort searches for the most urgent pair again and again. next[i] is the
// merge of ids[i] and ids[i+1].
func (t *mergeTable) applyShort(ids []int32, next []merge) []int32 {
	for i := 1; i < len(ids); i++ {
		next = append(next, t.get(ids[i-1], ids[i]))
	}
	for len(next) > 0 {
		best := 0
		for i := range next {
			if next[i].rank < next[best].rank {
				best = i
			}
		}
		if next[best].rank == noMerge {
			break
		}
		ids[best] = next[best].id
		ids = append(ids[:best+1], ids[best+2:]...)
		next = append(next[:best], next[best+1:]...)
		if best > 0 {
			next[best-1] = t.get(ids[best-1], ids[best])
		}
		if best < len(next) {
			next[best] = t.get(ids[best], ids[best+1])
		}
	}
	return ids
}
