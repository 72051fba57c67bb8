package weights

import (
	"context"
	"io"
	"math"
	"time"

	"github.com/llmrun/llmrun/tiering"
)

// ExpertCache holds those experts in memory that memory has room for, and reads
// the others when they are chosen. Its memory is one frame of equal slots, none of
// which belongs to a layer. All methods belong to the goroutine of the pass;
// readers only fill slots.
//
// What is evicted is up to a policy, but never an expert that the present step
// works with.
type ExpertCache struct {
	experts      []expertSource // [layers*perLayer]
	PerLayer     int
	Count        int     // of experts in all layers
	SlotOf       []int32 // [layers*perLayer] slot of each expert, -1: it has none
	Frame        *tiering.Frame
	SlotBytes    int
	plannedSlots int // slots to begin with
	Policy       evictionPolicy
	Reads        expertReads

	layer   int     // of the step
	step    uint64  // counts steps; slots of the present one are not evicted
	pending []int32 // experts of the step that are still to be computed

	guesses []int32 // experts that were guessed for the next step and are not in memory
	Trust   float64 // which part of such guesses was right of late
	stats   ExpertStats
}

// expertSource is an expert whose weights lie in a section of a pack.
type expertSource struct {
	from     io.ReaderAt
	size     int // of the section
	matrices [3]expertMatrix
}

// expertMatrix is one matrix of an expert: gate, up or down.
type expertMatrix struct {
	m          *Matrix
	off, bytes int // in the section
}

// ExpertStats says what the cache of experts did since the model was loaded.
type ExpertStats struct {
	Slots int // experts that memory holds; 0 where all of them are in memory
	// Used counts experts that a step worked with, for one token or many; Hits are
	// those of them that were in memory already.
	Used, Hits int64
	// Guessed counts experts that were not in memory and that were expected to be
	// chosen, Right those of them that were. Early counts reads that began before
	// the choice and were of use; they are not among the hits.
	Guessed, Right, Early int64
	Bytes                 int64         // read
	Stalled               time.Duration // that the arithmetic waited for reads
}

// HitRate returns how much of what was used had been in memory.
func (s ExpertStats) HitRate() float64 {
	if s.Used == 0 {
		return 0
	}
	return float64(s.Hits) / float64(s.Used)
}

// Close stops the readers. The frame is the model's.
func (c *ExpertCache) Close() { c.Reads.close() }

// Begin starts a pass of so many tokens. What a pass before did not wait for,
// because it failed, is not read any more.
func (c *ExpertCache) Begin(tokens int) {
	c.Policy.begin(tokens)
	c.guesses = c.guesses[:0]
	c.Reads.Mu.Lock()
	defer c.Reads.Mu.Unlock()
	c.cancelReads(&c.Reads.required)
	c.cancelReads(&c.Reads.guessed)
}

// Slots returns how many experts memory holds.
func (c *ExpertCache) Slots() int { return len(c.Reads.Slots) }

// nextStep lets go of the experts of the step before.
func (c *ExpertCache) nextStep() { c.step++ }

// Submit begins a step: it makes a list of the layer's experts that have rows to
// work on, and keeps those of them in memory that are there. first is as in
// router.
func (c *ExpertCache) Submit(layer int, first []int32) {
	c.nextStep()
	c.layer, c.pending = layer, c.pending[:0]
	r := &c.Reads
	r.Mu.Lock()
	defer r.Mu.Unlock()
	for e := range c.PerLayer {
		rows := int(first[e+1] - first[e])
		if rows == 0 {
			continue
		}
		id := int32(layer*c.PerLayer + e)
		c.pending = append(c.pending, id)
		c.Policy.used(int(id), rows)
		c.stats.Used++
		at := c.SlotOf[id]
		if at < 0 {
			continue
		}
		s := &r.Slots[at]
		switch {
		case s.err != nil: // of a guess, perhaps long ago
			c.evict(s)
		case s.guess == c.step-1:
			c.stats.Early++
			s.step = c.step
			r.require(at)
		default:
			c.stats.Hits++
			s.step = c.step
		}
	}
	c.scoreGuesses(layer, first)
	c.cancelReads(&r.guessed) // the wrong ones
	c.submitMissing()
}

// submitMissing begins to read experts of the step as far as there are slots for
// them. The lock is held.
func (c *ExpertCache) submitMissing() {
	for _, id := range c.pending {
		if c.SlotOf[id] >= 0 {
			continue
		}
		at := c.takeSlot(c.Slots(), math.Inf(1))
		if at < 0 {
			break
		}
		c.assign(at, id)
		c.Reads.required.push(at)
	}
	c.Reads.work.Broadcast()
}

// takeSlot finds a slot among the first so many for an expert of some worth: an empty
// one, or that of the expert which is worth least, if that is less. It returns -1
// if there is none, or all are in use. The lock is held.
func (c *ExpertCache) takeSlot(within int, worth float64) int32 {
	best, least := int32(-1), worth
	for at := range c.Reads.Slots[:within] {
		s := &c.Reads.Slots[at]
		switch {
		case s.busy() || s.step == c.step:
		case s.ID < 0 || s.err != nil:
			c.evict(s)
			return int32(at)
		default:
			if w := c.Policy.Value(int(s.ID)); w < least {
				best, least = int32(at), w
			}
		}
	}
	if best >= 0 {
		c.evict(&c.Reads.Slots[best])
	}
	return best
}

// evict takes a slot from its expert. The lock is held and the slot is not being
// filled.
func (c *ExpertCache) evict(s *expertSlot) {
	if s.ID >= 0 {
		c.SlotOf[s.ID] = -1
		c.Policy.evicted(int(s.ID))
	}
	s.ID, s.err, s.guess = -1, nil, 0
}

// assign gives a slot to an expert. The lock is held.
func (c *ExpertCache) assign(at, id int32) {
	x := &c.experts[id]
	memory := c.slotMemory(at)
	for i := range x.matrices {
		p := &x.matrices[i]
		p.m.Data = memory[p.off : p.off+p.bytes : p.off+p.bytes]
	}
	c.SlotOf[id] = at
	c.Policy.admitted(int(id))
	c.Reads.Slots[at] = expertSlot{ID: id, step: c.step, from: x.from, memory: memory[:x.size]}
}

// slotMemory returns the bytes of a slot.
func (c *ExpertCache) slotMemory(at int32) []byte {
	return c.Frame.Bytes()[int(at)*c.SlotBytes:][:c.SlotBytes]
}

// cancelReads empties a list of reads: those of which a part is in memory, or on its
// way, are of no use. The lock is held.
func (c *ExpertCache) cancelReads(list *slotList) {
	for _, at := range *list {
		s := &c.Reads.Slots[at]
		s.memory = s.memory[:s.next] // no more is handed out
		c.SlotOf[s.ID] = -1
		c.Policy.evicted(int(s.ID))
		s.ID, s.guess = -1, 0
	}
	list.clear()
}

// WaitReady moves those experts of the step that are in memory from the list of
// wanted ones to ready, and waits if there are none. It returns nothing when the
// list is empty.
func (c *ExpertCache) WaitReady(ctx context.Context, ready []int32) ([]int32, error) {
	var began time.Time
	for len(c.pending) > 0 {
		var err error
		if ready, err = c.collectReady(ready); err != nil || len(ready) > 0 {
			if !began.IsZero() {
				c.stats.Stalled += time.Since(began)
			}
			return ready, err
		}
		if began.IsZero() {
			began = time.Now()
		}
		if err := c.Reads.wait(ctx); err != nil {
			return nil, err
		}
	}
	return ready, nil
}

// collectReady is landed without waiting.
func (c *ExpertCache) collectReady(ready []int32) ([]int32, error) {
	r := &c.Reads
	r.Mu.Lock()
	defer r.Mu.Unlock()
	left := c.pending[:0]
	var failed error
	for _, id := range c.pending {
		at := c.SlotOf[id]
		if at >= 0 && !r.Slots[at].busy() {
			s := &r.Slots[at]
			if s.err == nil {
				ready = append(ready, id-int32(c.layer*c.PerLayer))
				continue
			}
			failed = s.err
			c.evict(s)
		}
		left = append(left, id)
	}
	c.pending = left
	if failed == nil {
		c.submitMissing()
	}
	return ready, failed
}

// Release lets go of experts that the step needs no more, and begins to read
// others into their slots.
func (c *ExpertCache) Release(done []int32) {
	if len(c.pending) == 0 {
		return // the next step lets go of them
	}
	c.Reads.Mu.Lock()
	defer c.Reads.Mu.Unlock()
	for _, e := range done {
		c.Reads.Slots[c.SlotOf[int32(c.layer*c.PerLayer)+e]].step = 0
	}
	c.submitMissing()
}

// Snapshot returns the statistics.
func (c *ExpertCache) Snapshot() ExpertStats {
	s := c.stats
	c.Reads.Mu.Lock()
	defer c.Reads.Mu.Unlock()
	s.Slots, s.Bytes = len(c.Reads.Slots), c.Reads.bytes
	return s
}
