package token

import (
	"container/heap"
	"slices"
)

// longMerger applies merges to long words in near-linear time. For some vocabularies
// ten megabytes of one letter are a single word.
//
// The symbols form a linked list in arrays. Each rank has a bucket with the positions
// of its pairs. A bucket is sorted when it is opened; in real text it is nearly sorted
// already. The merger does not remove pairs that a merge made obsolete: when such a
// pair is popped, its rank has changed and join ignores it.
type longMerger struct {
	prev, next []int32 // [symbols] positions of the neighbors, or noNeighbor
	buckets    map[int32]*bucket
	order      minHeap // ranks that have a bucket
	last       *bucket // bucket of the last push, a cache for runs of one letter
	lastRank   int32
}

const (
	noNeighbor int32 = -1
	merged     int32 = -2 // value of next: another symbol has absorbed this one
)

// bucket holds the positions of the pairs of one rank.
type bucket struct {
	positions []int32 // once opened, sorted from read on
	read      int
	opened    bool
	// late holds the positions that were pushed after the bucket was opened.
	late minHeap
}

// apply joins the neighbors of ids in place and returns the result, and for each of its ids the
// position of its first symbol.
func (m *longMerger) apply(t *mergeTable, ids []int32) (remaining, starts []int32) {
	m.reset(len(ids))
	for at := range ids {
		m.enqueue(t, ids, int32(at))
	}
	// The lowest rank is first. A merge may push positions to a bucket of a lower rank,
	// so the loop reads the order again after every merge.
	for len(m.order) > 0 {
		rank := m.order[0]
		at, ok := m.buckets[rank].pop()
		if !ok {
			heap.Pop(&m.order)
			delete(m.buckets, rank)
			m.last = nil
			continue
		}
		m.join(t, ids, at, rank)
	}
	remaining, starts = ids[:0], m.prev[:0] // whose positions have been read
	for at := int32(0); at != noNeighbor; at = m.next[at] {
		remaining, starts = append(remaining, ids[at]), append(starts, at)
	}
	if cap(m.next) > maxRetainedSymbols {
		*m = longMerger{}
	}
	return remaining, starts
}

// maxRetainedSymbols bounds the working memory that an encoder retains between words.
const maxRetainedSymbols = 1 << 16

// reset links n symbols.
func (m *longMerger) reset(n int) {
	m.prev = slices.Grow(m.prev[:0], n)[:n]
	m.next = slices.Grow(m.next[:0], n)[:n]
	for i := range n {
		m.prev[i], m.next[i] = int32(i-1), int32(i+1)
	}
	m.next[n-1] = noNeighbor
	if m.buckets == nil {
		m.buckets = map[int32]*bucket{}
	}
	m.order, m.last = m.order[:0], nil
}

// join merges the symbol at a position with its right neighbor if the pair still has
// the given rank.
func (m *longMerger) join(t *mergeTable, ids []int32, at, rank int32) {
	right := m.next[at]
	if right < 0 {
		return
	}
	pair := t.get(ids[at], ids[right])
	if pair.rank != rank {
		return
	}
	ids[at] = pair.id
	after := m.next[right]
	m.next[at], m.next[right] = after, merged
	if after != noNeighbor {
		m.prev[after] = at
	}
	m.enqueue(t, ids, at)
	if before := m.prev[at]; before != noNeighbor {
		m.enqueue(t, ids, before)
	}
}

// enqueue adds the pair that starts at a position to the bucket of its rank.
func (m *longMerger) enqueue(t *mergeTable, ids []int32, at int32) {
	right := m.next[at]
	if right == noNeighbor {
		return
	}
	rank := t.get(ids[at], ids[right]).rank
	if rank == noMerge {
		return
	}
	if m.last == nil || m.lastRank != rank {
		m.last, m.lastRank = m.bucketOf(rank), rank
	}
	m.last.push(at)
}

// bucketOf returns the bucket of a rank. It creates the bucket if necessary.
func (m *longMerger) bucketOf(rank int32) *bucket {
	b := m.buckets[rank]
	if b == nil {
		b = &bucket{}
		m.buckets[rank] = b
		heap.Push(&m.order, rank)
	}
	return b
}

// push adds a position. An opened bucket adds it to the heap, because its list is
// already sorted.
func (b *bucket) push(at int32) {
	if b.opened {
		heap.Push(&b.late, at)
		return
	}
	b.positions = append(b.positions, at)
}

// pop removes and returns the leftmost position.
func (b *bucket) pop() (int32, bool) {
	if !b.opened {
		slices.Sort(b.positions)
		b.opened = true
	}
	left := b.read < len(b.positions)
	switch {
	case left && (len(b.late) == 0 || b.positions[b.read] <= b.late[0]):
		b.read++
		return b.positions[b.read-1], true
	case len(b.late) > 0:
		return heap.Pop(&b.late).(int32), true
	}
	return 0, false
}

// minHeap is a min-heap of ranks or positions.
type minHeap []int32

func (h minHeap) Len() int           { return len(h) }
func (h minHeap) Less(i, j int) bool { return h[i] < h[j] }
func (h minHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *minHeap) Push(x any)        { *h = append(*h, x.(int32)) }
func (h *minHeap) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}
