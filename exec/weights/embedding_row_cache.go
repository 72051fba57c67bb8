package weights

import "github.com/llmrun/llmrun/tiering"

// rowCache keeps rows of an embedding that are used often. Few tokens make up most
// of a text, but which ones depends on the text: each row that was not found is
// offered, and takes the place of one that was used less of late, if there is one.
// A nil rowCache keeps nothing.
//
// A row may lie in one of few slots, a set. Finding it means comparing the ids in
// the set, nothing is allocated, and bookkeeping is a few bytes for each slot.
type rowCache struct {
	Frame *tiering.Frame
	row   int       // bytes
	ids   []int32   // [sets*rowWays] -1: empty
	uses  rowCounts // of rows in the cache and others
}

// rowWays is how many slots a set has.
const rowWays = 8

// newRowCache takes memory for rows of so many bytes each. Where there is none
// for a set, it returns nil.
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

// keep gives the memory back, or takes it again if the budget allows.
func (c *rowCache) Enable(on bool) {
	switch have := c != nil && len(c.Frame.Bytes()) > 0; {
	case c == nil || on == have:
	case on:
		_ = c.Frame.Resize(len(c.ids) * c.row) // without it rows are read
	default:
		c.clear()
		_ = c.Frame.Resize(0) // giving back is never refused
	}
}

// set returns the slots that may hold a row, none while the cache has no memory.
func (c *rowCache) set(id int32) (lo, hi int) {
	if c == nil || len(c.Frame.Bytes()) == 0 {
		return 0, 0
	}
	sets := uint64(len(c.ids) / rowWays)
	lo = int(mix(uint64(id))%sets) * rowWays
	return lo, lo + rowWays
}

// slot returns where a row is, -1 if it is not here.
func (c *rowCache) slot(id int32) int {
	for i, hi := c.set(id); i < hi; i++ {
		if c.ids[i] == id {
			return i
		}
	}
	return -1
}

func (c *rowCache) contains(id int32) bool { return c.slot(id) >= 0 }

// get returns a row, or nil. It counts as a use.
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

// admit hands a row over that find did not find.
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
	// Among equals the newer one stays.
	if worst < 0 || least > c.uses.estimate(id) {
		return
	}
	c.ids[worst] = id
	copy(c.Frame.Bytes()[worst*c.row:][:c.row], row)
}

// rowCounts estimates how often rows were used of late, in much less memory than a
// count for each: the smaller of two counts, either of which other rows may share
// (a count-min sketch). After many uses all counts are halved.
type rowCounts struct {
	counts []uint8 // a power of two of them
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

// mix spreads the bits of a number (the finalizer of MurmurHash3).
func mix(x uint64) uint64 {
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
