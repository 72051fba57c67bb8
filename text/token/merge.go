package token

import (
	"math"
	"math/bits"
)

// mergeTable maps a pair of neighboring symbols to its merge: the rank and the
// resulting symbol. Both vocabulary formats result in such a table. A list of merges
// converts directly; scored pieces (SentencePiece) convert by splitting every piece at
// every position.
type mergeTable struct {
	slots []mergeSlot // open-addressed hash table; the length is a power of two
	count int
}

// mergeSlot is an entry of the hash table.
type mergeSlot struct {
	pair uint64 // left<<32 | right, plus one; 0 is an empty slot
	merge
}

// merge is the result of joining a pair. The pair with the lowest rank joins first; of
// equal ranks the leftmost pair joins first.
type merge struct {
	rank int32
	id   int32
}

// noMerge is the rank of a pair that does not join.
const noMerge = math.MaxInt32

// newMergeTable returns a table with room for count merges.
func newMergeTable(count int) *mergeTable {
	return &mergeTable{slots: make([]mergeSlot, tableSize(count))}
}

// pairKey returns the key of a pair, which is never 0.
func pairKey(left, right int32) uint64 {
	return (uint64(uint32(left))<<32 | uint64(uint32(right))) + 1
}

// home returns the preferred slot of a key. The multiplication spreads the ids, which
// are small numbers, over all bits.
func (t *mergeTable) home(key uint64) int {
	high, low := bits.Mul64(key, 0x9E3779B97F4A7C15)
	return int(high^low) & (len(t.slots) - 1)
}

// put adds a merge. If the table already has the pair, put replaces its merge only if
// replace is set.
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

// grow doubles the table.
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

// get returns the merge of a pair. The rank is noMerge if the pair does not join.
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

// maxShortWord is the maximum length in symbols for which apply uses a linear search.
// The search is quadratic, but a typical word is a few symbols in one cache line.
const maxShortWord = 40

// apply joins neighbors of ids in place until no pair joins, and returns the result.
// work is reusable working memory.
func (t *mergeTable) apply(ids []int32, work *mergeWork) []int32 {
	if len(ids) > maxShortWord {
		ids, _ = work.long.apply(t, ids)
		return ids
	}
	return t.applyShort(ids, work.short[:0])
}

// mergeWork is the working memory of one encoder.
type mergeWork struct {
	short [maxShortWord]merge
	long  longMerger
}

// applyShort repeatedly searches for the pair with the lowest rank. next[i] is the
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
