package exec

import (
	"cmp"
	"math"
	"slices"
)

// guessExperts asks the layer's router before attention what it will choose
// after it, so that what is not in memory can be read meanwhile.
func (p *pass) guessExperts() {
	s, cache, router := p.m.Spec, p.m.experts, &p.w.router
	if cache == nil || cache.slots() == cache.count || router.rest.count > 0 {
		return // the stream brings the router when it is used, not before
	}
	if !p.goesOn(0, p.n) {
		return // no token chooses any
	}
	in := p.x
	if s.PreNorm && s.Parallel != ParallelOne {
		in = p.normed(&p.w.ffnNorm)
	}
	p.add(router, in, p.n, p.route.logits)
	p.multiply()
	r := &p.route
	clear(r.first)
	r.ready = r.ready[:0]
	for row := range p.n {
		if p.goesOn(row, 1) {
			p.likely(row)
		}
	}
	slices.SortStableFunc(r.ready, func(a, b int32) int { return cmp.Compare(r.first[b], r.first[a]) })
	cache.guess(p.index, r.ready[:min(len(r.ready), cache.slots()/guessShare)])
}

const (
	// guessShare is which part of the memory for experts guesses may take at once:
	// one in so many slots.
	guessShare = 4
	// leastTrust is which part of the guesses has to be right for reads to begin on
	// them. A read for nothing takes the disk from one that is waited for, and a
	// slot from an expert, while one that begins early gains no more than the time of
	// attention.
	leastTrust = 0.75
	// trustMemory is over about how many guesses trust is an average.
	trustMemory = 256
)

// guess notes experts of a layer that its router is likely to choose, the most
// likely first. It keeps those that are in memory until the choice, and begins to
// read the others if guesses have been right often enough.
func (c *expertCache) guess(layer int, likely []int32) {
	c.nextStep()
	c.guesses = c.guesses[:0]
	r := &c.reads
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range likely {
		id := int32(layer*c.perLayer) + e
		if at := c.where[id]; at >= 0 {
			r.slots[at].step = c.step
			continue
		}
		c.guesses = append(c.guesses, id)
		if c.trust < leastTrust {
			continue
		}
		if at := c.take(c.slots(), math.Inf(1)); at >= 0 {
			c.fill(at, id)
			r.slots[at].guess = c.step
			r.guessed.push(at)
		}
	}
	r.work.Broadcast()
}

// judge compares the guesses for a step with what was chosen. first is as in
// router.
func (c *expertCache) judge(layer int, first []int32) {
	for _, id := range c.guesses {
		e := int(id) - layer*c.perLayer
		right := 0.0
		if first[e+1] > first[e] {
			right = 1
			c.stats.Right++
		}
		c.stats.Guessed++
		c.trust += (right - c.trust) / trustMemory
	}
	c.guesses = c.guesses[:0]
}

// likely adds a row's best experts to ready, and counts in first how many rows
// like each.
func (p *pass) likely(row int) {
	s, r := p.m.Spec, &p.route
	logits := r.logits[row*s.Experts : (row+1)*s.Experts]
	for range s.ExpertsUsed {
		best := 0
		for i, v := range logits {
			if v > logits[best] {
				best = i
			}
		}
		logits[best] = float32(math.Inf(-1))
		if r.first[best] == 0 {
			r.ready = append(r.ready, int32(best))
		}
		r.first[best]++
	}
}
