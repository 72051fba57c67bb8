package weights

import "github.com/llmrun/llmrun/tiering"

// rowCache keeps frequently used embedding rows in memory. Few tokens make up most of a
// text, and which ones depends on the text. A row that missed replaces a row of its set
// that was used less often recently. A nil rowCache is empty.
//
// The cache is set-associative: a lookup compares the ids of one set. It allocates nothing,
// and a slot costs a few bytes of bookkeeping.
type rowCache struct {
	Frame *tiering.Frame
	row   int       // bytes per row
	ids   []int32   // [sets*rowWays]; -1: empty
	uses  rowCounts // of cached and other rows
}

// rowWays is the number of slots in a set.
const rowWays = 8

// newRowCache allocates a cache for rows of a number of bytes each. It returns nil if
// memory is too small for one set.
func newRowCache(budget *tiering.Budget, row, memory int) (*rowCache, error) {
	sets := max(0, memory) / (rowWays * row)
	if sets == 0 {
		return nil, nil
	}
	c := &rowCache{row: row, ids: make([]int32, sets*rowWays), uses: newRowCounts(sets * rowWays)}
	size := len(c.ids) * row
	var err error
	c.Frame, err = tiering.AllocRoom(budget, tiering.Cached, size, size)
	if err != nil {
		return nil, err
	}
	c.clear()
	return c, nil
}

func (c *rowCache) clear() {
	for i := range c.ids {
		c.ids[i] = -1
	}
}

func (c *rowCache) free() {
	if c != nil {
		c.Frame.Free()
	}
}

// Enable releases the cache's memory, or allocates it again if the budget allows.
func (c *rowCache) Enable(on bool) {
	switch have := c != nil && len(c.Frame.Bytes()) > 0; {
	case c == nil || on == have:
	case on:
		_ = c.Frame.Resize(len(c.ids) * c.row) // if it fails, lookups read rows
	default:
		c.clear()
		_ = c.Frame.Resize(0) // shrinking never fails
	}
}

// set returns the slots that may hold a row; none while the cache is disabled.
func (c *rowCache) set(id int32) (lo, hi int) {
	if c == nil || len(c.Frame.Bytes()) == 0 {
		return 0, 0
	}
	sets := uint64(len(c.ids) / rowWays)
	lo = int(mix(uint64(id))%sets) * rowWays
	return lo, lo + rowWays
}

// slot returns the slot of a row; -1: the row is not cached.
func (c *rowCache) slot(id int32) int {
	for i, hi := c.set(id); i < hi; i++ {
		if c.ids[i] == id {
			return i
		}
	}
	return -1
}

func (c *rowCache) contains(id int32) bool { return c.slot(id) >= 0 }

// get returns a cached row, or nil. It counts a use.
func (c *rowCache) get(id int32) []byte {
	if c == nil {
		return nil
	}
	c.uses.add(id)
	i := c.slot(id)
	if i < 0 {
		return nil
	}
	return c.Frame.Bytes()[i*c.row:][:c.row]
}

// admit offers a row that get did not find to the cache.
func (c *rowCache) admit(id int32, row []byte) {
	if c.contains(id) {
		return
	}
	worst, least := -1, 0
	for i, hi := c.set(id); i < hi; i++ {
		n := -1
		if c.ids[i] >= 0 {
			n = c.uses.estimate(c.ids[i])
		}
		if worst < 0 || n < least {
			worst, least = i, n
		}
	}
	// On a tie the new row wins.
	if worst < 0 || least > c.uses.estimate(id) {
		return
	}
	c.ids[worst] = id
	copy(c.Frame.Bytes()[worst*c.row:][:c.row], row)
}

// rowCounts estimates how often rows were used recently (a count-min sketch): the smaller
// of two counts. Several rows share a count. All counts are halved periodically.
type rowCounts struct {
	counts []uint8 // the length is a power of two
	added  int
}

func newRowCounts(slots int) rowCounts {
	n := 1
	for n < 8*slots {
		n *= 2
	}
	return rowCounts{counts: make([]uint8, n)}
}

// cells returns the two counts of a row.
func (c *rowCounts) cells(id int32) (a, b *uint8) {
	h := mix(uint64(id) ^ 0x9e3779b97f4a7c15)
	mask := uint64(len(c.counts) - 1)
	return &c.counts[h&mask], &c.counts[h>>32&mask]
}

func (c *rowCounts) add(id int32) {
	a, b := c.cells(id)
	for _, n := range []*uint8{a, b} {
		if *n < 255 {
			*n++
		}
	}
	if c.added++; c.added < 2*len(c.counts) {
		return
	}
	c.added = 0
	for i := range c.counts {
		c.counts[i] /= 2
	}
}

func (c *rowCounts) estimate(id int32) int {
	a, b := c.cells(id)
	return int(min(*a, *b))
}

// mix is the finalizer of MurmurHash3.
func mix(x uint64) uint64 {
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
