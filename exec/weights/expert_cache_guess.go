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
	// SlotsPerGuess is which part of the memory for experts guesses may take at once:
	// one in so many slots.
	SlotsPerGuess = 4
	// minTrust is which part of the guesses has to be right for reads to begin on
	// them. A read for nothing takes the disk from one that is waited for, and a
	// slot from an expert, while one that begins early gains no more than the time of
	// attention.
	minTrust = 0.75
	// trustWindow is over about how many guesses trust is an average.
	trustWindow = 256
)

// scoreGuesses compares the guesses for a step with what was chosen. first is as in
// router.
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
