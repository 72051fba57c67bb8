package weights

import (
	"context"
	"fmt"

	"github.com/llmrun/llmrun/internal/threadpool"
	"github.com/llmrun/llmrun/prefetch"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// NewExpertCache returns a cache with a number of slots for the experts that the loader did
// not load.
func NewExpertCache(ld *Loader, slots int, policy ExpertPolicy) (*ExpertCache, error) {
	layers, perLayer := len(ld.Spec.Layers), ld.Spec.Experts
	c := &ExpertCache{
		experts: make([]expertSource, layers*perLayer), PerLayer: perLayer, perToken: max(1, ld.Spec.ExpertsUsed), Count: len(ld.CachedExperts),
		SlotOf: make([]int32, layers*perLayer), pending: make([]int32, 0, perLayer), guesses: make([]int32, 0, perLayer),
		Policy: policy.Policy(layers, perLayer),
	}
	for i := range c.SlotOf {
		c.SlotOf[i] = -1
	}
	for i := range ld.CachedExperts { // all experts of a layer, in order
		l := &ld.CachedExperts[i]
		c.experts[l.Layer*perLayer+i%perLayer] = l.expert()
		c.SlotBytes = max(c.SlotBytes, vfs.DirectSize(l.Size)) // rounded up for direct reads
	}
	c.plannedSlots = min(slots, c.Count)
	var err error
	if c.Frame, err = tiering.AllocRoom(ld.Budget, tiering.Cached, c.plannedSlots*c.SlotBytes, c.Count*c.SlotBytes); err != nil {
		return nil, fmt.Errorf("loading %s: %w", ld.Tensors.Path, err)
	}
	return c, nil
}

// Open starts the readers, whose reads scheduler admits. If all experts fit, it reads them now.
func (c *ExpertCache) Open(ctx context.Context, scheduler *prefetch.Scheduler, arrived func(int)) error {
	threadpool.ReserveForReaders(tiering.ExpertReads)
	c.Reads.open(c.plannedSlots, c.Count, tiering.ExpertReads, scheduler)
	if c.plannedSlots < c.Count {
		return nil
	}
	return c.readAll(ctx, arrived)
}

// expert sets the shapes of an expert's matrices, and returns where a read finds them.
func (l *Layout) expert() expertSource {
	x := expertSource{from: l.section, size: l.SectionSize}
	for i := range l.Places {
		p := &l.Places[i] // planExperts places no vectors
		*p.Matrix = p.matrixOver(nil)
		p.Matrix.Streamed = streamedRows{} // the slot holds all rows
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
			continue // a dense layer
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

// stopReads cancels all reads and waits for those in flight. No pass is running.
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

// Resize changes the number of slots. No read is in flight.
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

// moveSlot empties a slot. If its expert has a greater value than one of the first `within`
// slots, it moves there. The caller holds the lock and no read is in flight.
func (c *ExpertCache) moveSlot(at int32, within int) {
	from := &c.Reads.Slots[at]
	id := from.ID
	if id < 0 {
		return
	}
	failed, value := from.err != nil, c.Policy.Value(int(id))
	c.evict(from)
	if failed {
		return
	}
	if to := c.takeSlot(within, value); to >= 0 {
		c.assign(to, id)
		s := &c.Reads.Slots[to]
		copy(s.memory, c.slotMemory(at))
		s.next, s.step = len(s.memory), 0 // a more valuable expert may replace it
	}
}

// ExpertPolicy selects the experts that stay in memory. It does not change results.
type ExpertPolicy int

// The policies.
const (
	EvictLeastFrequent ExpertPolicy = iota // by frequency of use; recent uses weigh more
	EvictLeastRecent                       // by time of the last use (LRU)
)

// Policy returns a policy without history.
func (p ExpertPolicy) Policy(layers, perLayer int) evictionPolicy {
	if p == EvictLeastRecent {
		return newRecentPolicy(layers, perLayer)
	}
	return newFrequentPolicy(layers, perLayer)
}
