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
	experts   []coldExpert // [layers*perLayer]
	PerLayer  int
	Count     int     // of experts in all layers
	Where     []int32 // [layers*perLayer] slot of each expert, -1: it has none
	Frame     *tiering.Frame
	SlotBytes int
	planned   int // slots to begin with
	Policy    evictionPolicy
	Reads     expertReads

	layer int     // of the step
	step  uint64  // counts steps; slots of the present one are not evicted
	want  []int32 // experts of the step that are still to be computed

	guesses []int32 // experts that were guessed for the next step and are not in memory
	Trust   float64 // which part of such guesses was right of late
	stats   ExpertStats
}

// coldExpert is an expert whose weights lie in a section of a pack.
type coldExpert struct {
	from  io.ReaderAt
	size  int // of the section
	parts [3]coldPart
}

// coldPart is one matrix of an expert: gate, up or down.
type coldPart struct {
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
	c.giveUp(&c.Reads.asked)
	c.giveUp(&c.Reads.guessed)
}

// Slots returns how many experts memory holds.
func (c *ExpertCache) Slots() int { return len(c.Reads.Slots) }

// nextStep lets go of the experts of the step before.
func (c *ExpertCache) nextStep() { c.step++ }

// Ask begins a step: it makes a list of the layer's experts that have rows to
// work on, and keeps those of them in memory that are there. first is as in
// router.
func (c *ExpertCache) Ask(layer int, first []int32) {
	c.nextStep()
	c.layer, c.want = layer, c.want[:0]
	r := &c.Reads
	r.Mu.Lock()
	defer r.Mu.Unlock()
	for e := range c.PerLayer {
		rows := int(first[e+1] - first[e])
		if rows == 0 {
			continue
		}
		id := int32(layer*c.PerLayer + e)
		c.want = append(c.want, id)
		c.Policy.used(int(id), rows)
		c.stats.Used++
		at := c.Where[id]
		if at < 0 {
			continue
		}
		s := &r.Slots[at]
		switch {
		case s.err != nil: // of a guess, perhaps long ago
			c.empty(s)
		case s.guess == c.step-1:
			c.stats.Early++
			s.step = c.step
			r.promote(at)
		default:
			c.stats.Hits++
			s.step = c.step
		}
	}
	c.judge(layer, first)
	c.giveUp(&r.guessed) // the wrong ones
	c.readMissing()
}

// readMissing begins to read experts of the step as far as there are slots for
// them. The lock is held.
func (c *ExpertCache) readMissing() {
	for _, id := range c.want {
		if c.Where[id] >= 0 {
			continue
		}
		at := c.take(c.Slots(), math.Inf(1))
		if at < 0 {
			break
		}
		c.fill(at, id)
		c.Reads.asked.push(at)
	}
	c.Reads.work.Broadcast()
}

// take finds a slot among the first so many for an expert of some worth: an empty
// one, or that of the expert which is worth least, if that is less. It returns -1
// if there is none, or all are in use. The lock is held.
func (c *ExpertCache) take(within int, worth float64) int32 {
	best, least := int32(-1), worth
	for at := range c.Reads.Slots[:within] {
		s := &c.Reads.Slots[at]
		switch {
		case s.busy() || s.step == c.step:
		case s.ID < 0 || s.err != nil:
			c.empty(s)
			return int32(at)
		default:
			if w := c.Policy.Worth(int(s.ID)); w < least {
				best, least = int32(at), w
			}
		}
	}
	if best >= 0 {
		c.empty(&c.Reads.Slots[best])
	}
	return best
}

// empty takes a slot from its expert. The lock is held and the slot is not being
// filled.
func (c *ExpertCache) empty(s *expertSlot) {
	if s.ID >= 0 {
		c.Where[s.ID] = -1
		c.Policy.left(int(s.ID))
	}
	s.ID, s.err, s.guess = -1, nil, 0
}

// fill gives a slot to an expert. The lock is held.
func (c *ExpertCache) fill(at, id int32) {
	x := &c.experts[id]
	memory := c.memory(at)
	for i := range x.parts {
		p := &x.parts[i]
		p.m.Data = memory[p.off : p.off+p.bytes : p.off+p.bytes]
	}
	c.Where[id] = at
	c.Policy.entered(int(id))
	c.Reads.Slots[at] = expertSlot{ID: id, step: c.step, from: x.from, memory: memory[:x.size]}
}

// memory returns the bytes of a slot.
func (c *ExpertCache) memory(at int32) []byte {
	return c.Frame.Bytes()[int(at)*c.SlotBytes:][:c.SlotBytes]
}

// giveUp empties a list of reads: those of which a part is in memory, or on its
// way, are of no use. The lock is held.
func (c *ExpertCache) giveUp(list *slotList) {
	for _, at := range *list {
		s := &c.Reads.Slots[at]
		s.memory = s.memory[:s.next] // no more is handed out
		c.Where[s.ID] = -1
		c.Policy.left(int(s.ID))
		s.ID, s.guess = -1, 0
	}
	list.clear()
}

// Landed moves those experts of the step that are in memory from the list of
// wanted ones to ready, and waits if there are none. It returns nothing when the
// list is empty.
func (c *ExpertCache) Landed(ctx context.Context, ready []int32) ([]int32, error) {
	var began time.Time
	for len(c.want) > 0 {
		var err error
		if ready, err = c.collect(ready); err != nil || len(ready) > 0 {
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

// collect is landed without waiting.
func (c *ExpertCache) collect(ready []int32) ([]int32, error) {
	r := &c.Reads
	r.Mu.Lock()
	defer r.Mu.Unlock()
	left := c.want[:0]
	var failed error
	for _, id := range c.want {
		at := c.Where[id]
		if at >= 0 && !r.Slots[at].busy() {
			s := &r.Slots[at]
			if s.err == nil {
				ready = append(ready, id-int32(c.layer*c.PerLayer))
				continue
			}
			failed = s.err
			c.empty(s)
		}
		left = append(left, id)
	}
	c.want = left
	if failed == nil {
		c.readMissing()
	}
	return ready, failed
}

// Computed lets go of experts that the step needs no more, and begins to read
// others into their slots.
func (c *ExpertCache) Computed(done []int32) {
	if len(c.want) == 0 {
		return // the next step lets go of them
	}
	c.Reads.Mu.Lock()
	defer c.Reads.Mu.Unlock()
	for _, e := range done {
		c.Reads.Slots[c.Where[int32(c.layer*c.PerLayer)+e]].step = 0
	}
	c.readMissing()
}

// Snapshot returns the statistics.
func (c *ExpertCache) Snapshot() ExpertStats {
	s := c.stats
	c.Reads.Mu.Lock()
	defer c.Reads.Mu.Unlock()
	s.Slots, s.Bytes = len(c.Reads.Slots), c.Reads.bytes
	return s
}
