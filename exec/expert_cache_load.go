package exec

import (
	"context"
	"fmt"

	"github.com/llmrun/llmrun/internal/threadpool"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// expertReaders is how many reads of experts are in flight.
const expertReaders = 4

// coldExperts reports whether experts are read into the slots of a cache: those
// of a pack always are, for another plan may leave some of them on flash later.
func coldExperts(plans []layout) bool {
	for i := range plans {
		if plans[i].kind == expertLayout && plans[i].section == nil {
			return false
		}
	}
	return true
}

// openExperts makes the cache of a pack's experts. If it holds all of them, all
// are read.
func (m *Model) openExperts(ctx context.Context, ld *loader, o *Options) error {
	if len(ld.cold) == 0 {
		return nil
	}
	layers, perLayer := len(m.Spec.Layers), m.Spec.Experts
	c := &expertCache{
		experts: make([]coldExpert, layers*perLayer), perLayer: perLayer, count: len(ld.cold),
		where: make([]int32, layers*perLayer), want: make([]int32, 0, perLayer), guesses: make([]int32, 0, perLayer),
		policy: o.Experts.policy(layers, perLayer),
	}
	for i := range c.where {
		c.where[i] = -1
	}
	for i := range ld.cold { // of each layer all, in their order
		l := &ld.cold[i]
		c.experts[l.layer*perLayer+i%perLayer] = l.expert()
		c.slotBytes = max(c.slotBytes, vfs.DirectSize(l.size)) // direct reads fill it
	}
	slots := min(o.Plan.ExpertSlots, c.count)
	var err error
	if c.frame, err = tiering.AllocRoom(ld.budget, tiering.Cached, slots*c.slotBytes, c.count*c.slotBytes); err != nil {
		return fmt.Errorf("loading %s: %w", ld.ts.path, err)
	}
	m.frames = append(m.frames, c.frame)
	m.experts, m.parts.experts = c, c
	threadpool.RoomForReads(expertReaders)
	c.reads.open(slots, c.count, expertReaders)
	if slots < c.count {
		return nil
	}
	return c.readAll(ctx, ld.arrived)
}

// expert gives the matrices of an expert, which is read when it is used, their
// shape.
func (l *layout) expert() coldExpert {
	x := coldExpert{from: l.section, size: l.sectionSize}
	for i := range l.places {
		p := &l.places[i] // planExperts plans matrices only
		*p.matrix = p.matrixOver(nil)
		p.matrix.rest = streamedRows{} // all rows come at once
		x.parts[i] = coldPart{m: p.matrix, off: p.off, bytes: p.bytes()}
	}
	return x
}

// readAll fills the slots with all experts.
func (c *expertCache) readAll(ctx context.Context, arrived func(int)) error {
	first := make([]int32, c.perLayer+1)
	for e := range first {
		first[e] = int32(e)
	}
	var ready []int32
	for layer := range len(c.experts) / c.perLayer {
		if c.experts[layer*c.perLayer].from == nil {
			continue // a layer without experts
		}
		c.ask(layer, first)
		for len(c.want) > 0 {
			var err error
			if ready, err = c.landed(ctx, ready[:0]); err != nil {
				return err
			}
			for range ready {
				arrived(c.experts[layer*c.perLayer].size)
			}
		}
	}
	c.stats = ExpertStats{}
	return nil
}

// quiet ends all reading. No pass is under way.
func (c *expertCache) quiet() {
	r := &c.reads
	r.mu.Lock()
	defer r.mu.Unlock()
	c.giveUp(&r.asked)
	c.giveUp(&r.guessed)
	for r.busy() {
		r.mu.Unlock()
		<-r.landed
		r.mu.Lock()
	}
}

// resize changes how many experts memory holds. Nothing is being read.
func (c *expertCache) resize(slots int) error {
	r := &c.reads
	r.mu.Lock()
	defer r.mu.Unlock()
	c.nextStep()
	slots = min(slots, c.count)
	for at := slots; at < len(r.slots); at++ {
		c.move(int32(at), slots)
	}
	if err := c.frame.Resize(slots * c.slotBytes); err != nil {
		return err
	}
	for at := len(r.slots); at < slots; at++ {
		r.slots = append(r.slots, expertSlot{id: -1})
	}
	r.slots = r.slots[:slots]
	return nil
}

// move empties a slot. If its expert is worth more than one of the first so many,
// it takes the other one's slot. The lock is held and nothing is being read.
func (c *expertCache) move(at int32, within int) {
	from := &c.reads.slots[at]
	id := from.id
	if id < 0 {
		return
	}
	failed, worth := from.err != nil, c.policy.worth(int(id))
	c.empty(from)
	if failed {
		return
	}
	if to := c.take(within, worth); to >= 0 {
		c.fill(to, id)
		s := &c.reads.slots[to]
		copy(s.memory, c.memory(at))
		s.next, s.step = len(s.memory), 0 // a better one may come
	}
}

// ExpertPolicy says which experts stay in memory that does not hold all of them.
// Results do not depend on it.
type ExpertPolicy int

// The policies.
const (
	KeepFrequent ExpertPolicy = iota // those that are used most, of late more than long ago
	KeepRecent                       // those that were used last
)

// policy returns a policy that has seen nothing yet.
func (p ExpertPolicy) policy(layers, perLayer int) expertPolicy {
	if p == KeepRecent {
		return newKeepRecent(layers, perLayer)
	}
	return newKeepFrequent(layers, perLayer)
}

// ExpertStats returns how well the memory for experts served.
func (m *Model) ExpertStats() ExpertStats {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.experts == nil {
		return ExpertStats{}
	}
	return m.experts.snapshot()
}
