package weights

import (
	"context"
	"fmt"

	"github.com/llmrun/llmrun/internal/threadpool"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// expertReaders is how many reads of experts are in flight.
const expertReaders = 4

// expertsInPack reports whether experts are read into the slots of a cache: those
// of a pack always are, for another plan may leave some of them on flash later.
func expertsInPack(plans []Layout) bool {
	for i := range plans {
		if plans[i].Kind == expertLayout && plans[i].section == nil {
			return false
		}
	}
	return true
}

// NewExpertCache returns a cache for the experts that a plan leaves to it.
func NewExpertCache(ld *Loader, slots int, policy ExpertPolicy) (*ExpertCache, error) {
	layers, perLayer := len(ld.Spec.Layers), ld.Spec.Experts
	c := &ExpertCache{
		experts: make([]expertSource, layers*perLayer), PerLayer: perLayer, Count: len(ld.CachedExperts),
		SlotOf: make([]int32, layers*perLayer), pending: make([]int32, 0, perLayer), guesses: make([]int32, 0, perLayer),
		Policy: policy.Policy(layers, perLayer),
	}
	for i := range c.SlotOf {
		c.SlotOf[i] = -1
	}
	for i := range ld.CachedExperts { // of each layer all, in their order
		l := &ld.CachedExperts[i]
		c.experts[l.Layer*perLayer+i%perLayer] = l.expert()
		c.SlotBytes = max(c.SlotBytes, vfs.DirectSize(l.Size)) // direct reads fill it
	}
	c.plannedSlots = min(slots, c.Count)
	var err error
	if c.Frame, err = tiering.AllocRoom(ld.Budget, tiering.Cached, c.plannedSlots*c.SlotBytes, c.Count*c.SlotBytes); err != nil {
		return nil, fmt.Errorf("loading %s: %w", ld.Tensors.Path, err)
	}
	return c, nil
}

// Open starts the readers. A cache that holds all experts reads them now.
func (c *ExpertCache) Open(ctx context.Context, arrived func(int)) error {
	threadpool.ReserveForReaders(expertReaders)
	c.Reads.open(c.plannedSlots, c.Count, expertReaders)
	if c.plannedSlots < c.Count {
		return nil
	}
	return c.readAll(ctx, arrived)
}

// expert gives the matrices of an expert, which is read when it is used, their
// shape.
func (l *Layout) expert() expertSource {
	x := expertSource{from: l.section, size: l.SectionSize}
	for i := range l.Places {
		p := &l.Places[i] // planExperts plans matrices only
		*p.Matrix = p.matrixOver(nil)
		p.Matrix.Streamed = streamedRows{} // all rows come at once
		x.matrices[i] = expertMatrix{m: p.Matrix, off: p.off, bytes: p.Bytes()}
	}
	return x
}

// readAll fills the slots with all experts.
func (c *ExpertCache) readAll(ctx context.Context, arrived func(int)) error {
	first := make([]int32, c.PerLayer+1)
	for e := range first {
		first[e] = int32(e)
	}
	var ready []int32
	for layer := range len(c.experts) / c.PerLayer {
		if c.experts[layer*c.PerLayer].from == nil {
			continue // a layer without experts
		}
		c.Submit(layer, first)
		for len(c.pending) > 0 {
			var err error
			if ready, err = c.WaitReady(ctx, ready[:0]); err != nil {
				return err
			}
			for range ready {
				arrived(c.experts[layer*c.PerLayer].size)
			}
		}
	}
	c.stats = ExpertStats{}
	return nil
}

// stopReads ends all reading. No pass is under way.
func (c *ExpertCache) stopReads() {
	r := &c.Reads
	r.Mu.Lock()
	defer r.Mu.Unlock()
	c.cancelReads(&r.required)
	c.cancelReads(&r.guessed)
	for r.busy() {
		r.Mu.Unlock()
		<-r.completed
		r.Mu.Lock()
	}
}

// Resize changes how many experts memory holds. Nothing is being read.
func (c *ExpertCache) Resize(slots int) error {
	r := &c.Reads
	r.Mu.Lock()
	defer r.Mu.Unlock()
	c.nextStep()
	slots = min(slots, c.Count)
	for at := slots; at < len(r.Slots); at++ {
		c.moveSlot(int32(at), slots)
	}
	if err := c.Frame.Resize(slots * c.SlotBytes); err != nil {
		return err
	}
	for at := len(r.Slots); at < slots; at++ {
		r.Slots = append(r.Slots, expertSlot{ID: -1})
	}
	r.Slots = r.Slots[:slots]
	return nil
}

// moveSlot empties a slot. If its expert is worth more than one of the first so many,
// it takes the other one's slot. The lock is held and nothing is being read.
func (c *ExpertCache) moveSlot(at int32, within int) {
	from := &c.Reads.Slots[at]
	id := from.ID
	if id < 0 {
		return
	}
	failed, worth := from.err != nil, c.Policy.Value(int(id))
	c.evict(from)
	if failed {
		return
	}
	if to := c.takeSlot(within, worth); to >= 0 {
		c.assign(to, id)
		s := &c.Reads.Slots[to]
		copy(s.memory, c.slotMemory(at))
		s.next, s.step = len(s.memory), 0 // a better one may come
	}
}

// ExpertPolicy says which experts stay in memory that does not hold all of them.
// Results do not depend on it.
type ExpertPolicy int

// The policies.
const (
	EvictLeastFrequent ExpertPolicy = iota // those that are used most, of late more than long ago
	EvictLeastRecent                       // those that were used last
)

// Policy returns a policy that has seen nothing yet.
func (p ExpertPolicy) Policy(layers, perLayer int) evictionPolicy {
	if p == EvictLeastRecent {
		return newRecentPolicy(layers, perLayer)
	}
	return newFrequentPolicy(layers, perLayer)
}
