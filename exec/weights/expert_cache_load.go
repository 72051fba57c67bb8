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

// coldExperts reports whether experts are read into the slots of a cache: those
// of a pack always are, for another plan may leave some of them on flash later.
func coldExperts(plans []Layout) bool {
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
		experts: make([]coldExpert, layers*perLayer), PerLayer: perLayer, Count: len(ld.Cold),
		Where: make([]int32, layers*perLayer), want: make([]int32, 0, perLayer), guesses: make([]int32, 0, perLayer),
		Policy: policy.Policy(layers, perLayer),
	}
	for i := range c.Where {
		c.Where[i] = -1
	}
	for i := range ld.Cold { // of each layer all, in their order
		l := &ld.Cold[i]
		c.experts[l.Layer*perLayer+i%perLayer] = l.expert()
		c.SlotBytes = max(c.SlotBytes, vfs.DirectSize(l.Size)) // direct reads fill it
	}
	c.planned = min(slots, c.Count)
	var err error
	if c.Frame, err = tiering.AllocRoom(ld.Budget, tiering.Cached, c.planned*c.SlotBytes, c.Count*c.SlotBytes); err != nil {
		return nil, fmt.Errorf("loading %s: %w", ld.Tensors.Path, err)
	}
	return c, nil
}

// Open starts the readers. A cache that holds all experts reads them now.
func (c *ExpertCache) Open(ctx context.Context, arrived func(int)) error {
	threadpool.ReserveForReaders(expertReaders)
	c.Reads.open(c.planned, c.Count, expertReaders)
	if c.planned < c.Count {
		return nil
	}
	return c.readAll(ctx, arrived)
}

// expert gives the matrices of an expert, which is read when it is used, their
// shape.
func (l *Layout) expert() coldExpert {
	x := coldExpert{from: l.section, size: l.SectionSize}
	for i := range l.Places {
		p := &l.Places[i] // planExperts plans matrices only
		*p.Matrix = p.matrixOver(nil)
		p.Matrix.Rest = streamedRows{} // all rows come at once
		x.parts[i] = coldPart{m: p.Matrix, off: p.off, bytes: p.Bytes()}
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
		c.Ask(layer, first)
		for len(c.want) > 0 {
			var err error
			if ready, err = c.Landed(ctx, ready[:0]); err != nil {
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

// quiet ends all reading. No pass is under way.
func (c *ExpertCache) quiet() {
	r := &c.Reads
	r.Mu.Lock()
	defer r.Mu.Unlock()
	c.giveUp(&r.asked)
	c.giveUp(&r.guessed)
	for r.busy() {
		r.Mu.Unlock()
		<-r.landed
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
		c.move(int32(at), slots)
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

// move empties a slot. If its expert is worth more than one of the first so many,
// it takes the other one's slot. The lock is held and nothing is being read.
func (c *ExpertCache) move(at int32, within int) {
	from := &c.Reads.Slots[at]
	id := from.ID
	if id < 0 {
		return
	}
	failed, worth := from.err != nil, c.Policy.Worth(int(id))
	c.empty(from)
	if failed {
		return
	}
	if to := c.take(within, worth); to >= 0 {
		c.fill(to, id)
		s := &c.Reads.Slots[to]
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

// Policy returns a policy that has seen nothing yet.
func (p ExpertPolicy) Policy(layers, perLayer int) evictionPolicy {
	if p == KeepRecent {
		return newRecentPolicy(layers, perLayer)
	}
	return newFrequentPolicy(layers, perLayer)
}
