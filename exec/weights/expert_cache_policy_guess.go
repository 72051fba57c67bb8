package weights

import "math"

// Guess notes experts of a layer that its router is likely to choose, the most
// likely first. It keeps those that are in memory until the choice, and begins to
// read the others if guesses have been right often enough.
func (c *ExpertCache) Guess(layer int, likely []int32) {
	c.nextStep()
	c.guesses = c.guesses[:0]
	r := &c.Reads
	r.Mu.Lock()
	defer r.Mu.Unlock()
	for _, e := range likely {
		id := int32(layer*c.PerLayer) + e
		if at := c.Where[id]; at >= 0 {
			r.Slots[at].step = c.step
			continue
		}
		c.guesses = append(c.guesses, id)
		if c.Trust < leastTrust {
			continue
		}
		if at := c.take(c.Slots(), math.Inf(1)); at >= 0 {
			c.fill(at, id)
			r.Slots[at].guess = c.step
			r.guessed.push(at)
		}
	}
	r.work.Broadcast()
}

const (
	// GuessShare is which part of the memory for experts guesses may take at once:
	// one in so many slots.
	GuessShare = 4
	// leastTrust is which part of the guesses has to be right for reads to begin on
	// them. A read for nothing takes the disk from one that is waited for, and a
	// slot from an expert, while one that begins early gains no more than the time of
	// attention.
	leastTrust = 0.75
	// trustMemory is over about how many guesses trust is an average.
	trustMemory = 256
)

// judge compares the guesses for a step with what was chosen. first is as in
// router.
func (c *ExpertCache) judge(layer int, first []int32) {
	for _, id := range c.guesses {
		e := int(id) - layer*c.PerLayer
		right := 0.0
		if first[e+1] > first[e] {
			right = 1
			c.stats.Right++
		}
		c.stats.Guessed++
		c.Trust += (right - c.Trust) / trustMemory
	}
	c.guesses = c.guesses[:0]
}
