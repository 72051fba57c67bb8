package weights

import (
	"context"
	"io"
	"math"
	"time"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/tiering"
)

// ExpertCache holds the experts that fit into memory, and reads the others when a router
// selects them. Its memory is one frame of equal slots that all layers share. Only the
// goroutine of the pass calls its methods; readers fill slots.
//
// A policy selects the expert to evict. The experts of the current step are never evicted.
type ExpertCache struct {
	experts      []expertSource // [layers*perLayer]
	PerLayer     int
	perToken     int     // experts that a token uses in a layer
	Count        int     // experts of all layers
	SlotOf       []int32 // [layers*perLayer] slot of each expert; -1: none
	Frame        *tiering.Frame
	SlotBytes    int
	plannedSlots int // slots at the start
	Policy       evictionPolicy
	Reads        expertReads

	layer   int     // of the current step
	step    uint64  // number of the current step; its slots are not evicted
	pending []int32 // experts of the step that the pass has not received yet

	guesses []int32 // experts that were predicted for the next step and are not in memory
	Trust   float64 // moving average of the fraction of right predictions
	stats   ExpertStats
}

// expertSource is where a pack holds the weights of one expert.
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

// ExpertStats counts the work of an ExpertCache since the model was loaded.
type ExpertStats struct {
	Slots int // experts that memory holds; 0 if the model needs no expert cache
	// Used counts the experts that steps used, for one token or more. Hits counts those
	// that were in memory.
	Used, Hits int64
	// Guessed counts predicted experts that were not in memory, and Right those that the
	// router then selected. Early counts reads that began on a right prediction; they are
	// not hits.
	Guessed, Right, Early int64
	Bytes                 int64         // read from flash
	Stalled               time.Duration // time that the pass waited for reads
	Stalls                int           // number of these waits
	Shared                SharedSteps
}

// SharedSteps counts the steps of several tokens, which share experts.
type SharedSteps struct {
	Steps              int64
	LogTokens, LogUsed float64 // sums of the logarithms of the tokens of a step, and of the experts that they used
}

// add counts a step.
func (s *SharedSteps) add(tokens, used int) {
	if tokens < 2 {
		return
	}
	s.Steps++
	s.LogTokens += math.Log(float64(tokens))
	s.LogUsed += math.Log(float64(used))
}

// Mean returns the mean tokens of a step and the mean of the experts that they used, which grow by powers of each other: the
// means are geometric. It returns zeros without steps.
func (s *SharedSteps) Mean() (tokens, used float64) {
	if s.Steps == 0 {
		return 0, 0
	}
	return math.Exp(s.LogTokens / float64(s.Steps)), math.Exp(s.LogUsed / float64(s.Steps))
}

// HitRate returns the fraction of used experts that were in memory.
func (s ExpertStats) HitRate() float64 {
	if s.Used == 0 {
		return 0
	}
	return float64(s.Hits) / float64(s.Used)
}

// Close stops the readers. The model owns the frame.
func (c *ExpertCache) Close() { c.Reads.close() }

// Begin starts a pass over a number of tokens. It cancels the reads that a failed pass left
// behind.
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

// nextStep begins a step. The experts of the step before may be evicted from now on.
func (c *ExpertCache) nextStep() { c.step++ }

// Submit begins a step of one layer. It locks the selected experts that are in memory, and
// submits reads of the others. The tokens of expert e are first[e] to first[e+1], as the
// router orders them.
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
		if at := c.SlotOf[id]; at >= 0 {
			c.useSlot(at)
		}
	}
	c.stats.Shared.add(int(first[c.PerLayer])/c.perToken, len(c.pending))
	c.scoreGuesses(layer, first)
	c.cancelReads(&r.guessed) // those that the router did not select
	c.submitMissing()
}

// useSlot locks the slot of a selected expert for the step. It evicts the expert if the
// read of an earlier prediction failed. The caller holds the lock.
func (c *ExpertCache) useSlot(at int32) {
	s := &c.Reads.Slots[at]
	switch {
	case s.err != nil:
		c.evict(s)
	case s.guess == c.step-1:
		c.stats.Early++
		s.step = c.step
		c.Reads.require(at)
	default:
		c.stats.Hits++
		s.step = c.step
	}
}

// submitMissing submits reads of the step's experts while slots are available. The caller
// holds the lock.
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

// takeSlot frees one of the first within slots for an expert of a given value. It returns
// an empty slot, or the slot of the expert with the least value if that is smaller. It
// returns -1 if no slot qualifies. The caller holds the lock.
func (c *ExpertCache) takeSlot(within int, value float64) int32 {
	best, least := int32(-1), value
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

// evict removes the expert from a slot that no read is filling. The caller holds the lock.
func (c *ExpertCache) evict(s *expertSlot) {
	if s.ID >= 0 {
		c.SlotOf[s.ID] = -1
		c.Policy.evicted(int(s.ID))
	}
	s.ID, s.err, s.guess = -1, nil, 0
}

// assign gives a slot to an expert and points its matrices there. The caller holds the
// lock.
func (c *ExpertCache) assign(at, id int32) {
	x := &c.experts[id]
	memory := c.slotMemory(at)
	for i := range x.matrices {
		p := &x.matrices[i]
		if p.m == nil {
			continue // an expert without a gate
		}
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

// cancelReads cancels the reads of a list and evicts their experts, whose weights are
// incomplete. Reads in flight end on their own. The caller holds the lock.
func (c *ExpertCache) cancelReads(list *slotList) {
	for _, at := range *list {
		s := &c.Reads.Slots[at]
		s.memory = s.memory[:s.next] // readers take no more pieces of it
		c.SlotOf[s.ID] = -1
		c.Policy.evicted(int(s.ID))
		s.ID, s.guess = -1, 0
	}
	list.clear()
}

// WaitReady appends the experts of the step that are in memory to ready and removes them
// from the pending list. If none is in memory, it waits for a read. It appends nothing after
// it has returned all experts of the step.
func (c *ExpertCache) WaitReady(ctx context.Context, ready []int32) ([]int32, error) {
	var began time.Time
	for len(c.pending) > 0 {
		var err error
		if ready, err = c.collectReady(ready); err != nil || len(ready) > 0 {
			if !began.IsZero() {
				waited := time.Since(began)
				c.stats.Stalled += waited
				c.stats.Stalls++
				c.Reads.scheduler.Waited(waited)
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

// collectReady is WaitReady without waiting.
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

// Release allows the slots of computed experts to be reused within the step, and submits
// reads into them.
func (c *ExpertCache) Release(done []int32) {
	if len(c.pending) == 0 {
		return // nextStep releases them
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

// Guess predicts the experts of a layer's next step, the most likely first. It locks those
// in memory until the router selects, and submits reads of the others while predictions
// have been right often enough.
func (c *ExpertCache) Guess(layer int, likely []int32) {
	c.nextStep()
	c.guesses = c.guesses[:0]
	r := &c.Reads
	r.Mu.Lock()
	defer r.Mu.Unlock()
	for _, e := range likely {
		id := int32(layer*c.PerLayer) + e
		if at := c.SlotOf[id]; at >= 0 {
			r.Slots[at].step = c.step
			continue
		}
		c.guesses = append(c.guesses, id)
		if c.Trust < minTrust {
			continue
		}
		if at := c.takeSlot(c.Slots(), math.Inf(1)); at >= 0 {
			c.assign(at, id)
			r.Slots[at].guess = c.step
			r.guessed.push(at)
		}
	}
	r.work.Broadcast()
}

const (
	// SlotsPerGuess limits predictions: at most one per SlotsPerGuess slots.
	SlotsPerGuess = 4
	// minTrust is the fraction of right predictions from which reads are submitted. A wrong
	// read delays a required one and evicts an expert, while a right one gains no more than
	// the time of attention.
	minTrust = 0.75
	// trustWindow is roughly the number of predictions that Trust averages.
	trustWindow = 256
)

// scoreGuesses compares the predictions for a step with the router's selection. first is as
// for Submit.
func (c *ExpertCache) scoreGuesses(layer int, first []int32) {
	for _, id := range c.guesses {
		e := int(id) - layer*c.PerLayer
		right := 0.0
		if first[e+1] > first[e] {
			right = 1
			c.stats.Right++
		}
		c.stats.Guessed++
		c.Trust += (right - c.Trust) / trustWindow
	}
	c.guesses = c.guesses[:0]
}

// planExpertBiases plans the biases of a layer's experts as vectors of the layer, so that they stay in
// memory when the experts do not. inner is the width of an expert's inner vector.
func (ld *Loader) planExpertBiases(l int, w *LayerWeights, inner int) error {
	s := ld.Spec
	if !s.ExpertBias {
		return nil
	}
	for i := range w.Experts {
		e := &w.Experts[i]
		for _, b := range []struct {
			role string
			m    *Linear
			rows int
		}{{"ffn_gate", &e.Gate, inner}, {"ffn_up", &e.Up, inner}, {"ffn_down", &e.Down, s.Dim}} {
			slice, ok, err := ld.Tensors.ExpertBias(b.role+"_exps", l, i, s.Experts, b.rows)
			if err != nil {
				return err
			}
			if ok {
				name := modelfile.TensorName(modelfile.ExpertRole(b.role, i), l, ".bias")
				ld.places = append(ld.places, Placement{name: name, Slice: slice, Vector: &b.m.Bias})
			}
		}
	}
	return nil
}
