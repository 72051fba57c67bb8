package token

import (
	"container/heap"
	"slices"
)

// longMerger applies merges to words of any length in near-linear time: ten
// megabytes of one letter are one word to some vocabularies.
//
// The symbols are a linked list over arrays. Pairs wait in one bucket per
// rank; a bucket holds positions and is sorted when its turn comes, which on
// real text it nearly is already. Pairs that a merge made obsolete are not
// searched for: they are recognised by their rank when they come up.
type longMerger struct {
	prev, next []int32 // [symbols] neighbours, -1 at the ends
	rank       []int32 // [symbols] rank of the pair that starts here
	buckets    map[int32]*bucket
	order      rankHeap // the ranks that have a bucket
	last       *bucket  // the bucket pushed to last: runs of one letter hit it
	lastRank   int32
}

// bucket holds the positions of the pairs of one rank.
type bucket struct {
	waiting []int32 // sorted from read on, once opened
	read    int
	opened  bool
	// late are positions that came after the bucket was opened.
	late rankHeap
}

// apply joins the neighbours of ids in place.
func (m *longMerger) apply(t *mergeTable, ids []int32) []int32 {
	m.reset(len(ids))
	for i := range ids {
		m.consider(t, ids, int32(i))
	}
	for len(m.order) > 0 {
		rank := m.order[0]
		b := m.buckets[rank]
		at, ok := b.pop()
		if !ok {
			heap.Pop(&m.order)
			delete(m.buckets, rank)
			m.last = nil
			continue
		}
		if m.rank[at] == rank {
			m.join(t, ids, at)
		}
	}
	kept := ids[:0]
	for at := int32(0); at >= 0; at = m.next[at] {
		kept = append(kept, ids[at])
	}
	m.release()
	return kept
}

// reset links n symbols.
func (m *longMerger) reset(n int) {
	m.prev = slices.Grow(m.prev[:0], n)[:n]
	m.next = slices.Grow(m.next[:0], n)[:n]
	m.rank = slices.Grow(m.rank[:0], n)[:n]
	for i := range n {
		m.prev[i], m.next[i], m.rank[i] = int32(i-1), int32(i+1), noMerge
	}
	m.next[n-1] = -1
	if m.buckets == nil {
		m.buckets = map[int32]*bucket{}
	}
	m.order, m.last = m.order[:0], nil
}

// keepSymbols bounds the scratch that stays with an encoder between words.
const keepSymbols = 1 << 16

func (m *longMerger) release() {
	if cap(m.next) > keepSymbols {
		*m = longMerger{}
	}
}

// join merges the symbol at a position with its right neighbour.
func (m *longMerger) join(t *mergeTable, ids []int32, at int32) {
	right := m.next[at]
	ids[at] = t.get(ids[at], ids[right]).id
	m.rank[right] = noMerge // whatever waits for it is obsolete
	m.next[at] = m.next[right]
	if after := m.next[at]; after >= 0 {
		m.prev[after] = at
	}
	m.consider(t, ids, at)
	if before := m.prev[at]; before >= 0 {
		m.consider(t, ids, before)
	}
}

// consider puts the pair that starts at a position into its bucket.
func (m *longMerger) consider(t *mergeTable, ids []int32, at int32) {
	m.rank[at] = noMerge
	right := m.next[at]
	if right < 0 {
		return
	}
	rank := t.get(ids[at], ids[right]).rank
	if rank == noMerge {
		return
	}
	m.rank[at] = rank
	if m.last == nil || m.lastRank != rank {
		m.last, m.lastRank = m.bucketOf(rank), rank
	}
	m.last.push(at)
}

func (m *longMerger) bucketOf(rank int32) *bucket {
	b := m.buckets[rank]
	if b == nil {
		b = &bucket{}
		m.buckets[rank] = b
		heap.Push(&m.order, rank)
	}
	return b
}

func (b *bucket) push(at int32) {
	if b.opened {
		heap.Push(&b.late, at)
		return
	}
	b.waiting = append(b.waiting, at)
}

// pop returns the leftmost position.
func (b *bucket) pop() (int32, bool) {
	if !b.opened {
		slices.Sort(b.waiting)
		b.opened = true
	}
	left := b.read < len(b.waiting)
	switch {
	case left && (len(b.late) == 0 || b.waiting[b.read] <= b.late[0]):
		b.read++
		return b.waiting[b.read-1], true
	case len(b.late) > 0:
		return heap.Pop(&b.late).(int32), true
	}
	return 0, false
}

// rankHeap is a heap of ranks, or of positions.
type rankHeap []int32

func (h rankHeap) Len() int           { return len(h) }
func (h rankHeap) Less(i, j int) bool { return h[i] < h[j] }
func (h rankHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *rankHeap) Push(x any)        { *h = append(*h, x.(int32)) }
func (h *rankHeap) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}
