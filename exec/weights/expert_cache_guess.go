package weights

import "math"

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
