package draft

import "time"

// Chain decides how many guesses a drafter makes that computes them one after the other. It learns how often they
// are right, also by their margins, and how long one takes. A chain ends where a further guess, which counts only if all before it
// are right, gives fewer tokens per second than passes do on average.
type Chain struct {
	right, first float64 // probability that a guess is right if all before it are, and what was assumed of it
	seen         int     // guesses that right is learned from
	each         float64 // seconds that a guess takes, 0: not known yet
	branches     branches

	margins [marginKinds]outcomes
	kinds   []uint8 // [guesses] of the last draft, of those whose margin is known
	reach   float64 // probability that all of them are right
	passes  *Passes
	took    float64 // seconds of the last draft
	tokens  float64 // that passes with guesses gave, a moving average
	seconds float64 // that they took with their drafts, as many passes
	counted int     // passes of both
}

// Guesses are distinguished by their margin: below 1/8, 1/4, ... and above.
const (
	marginKinds = 8
	leastMargin = 1.0 / 8
)

// outcomes counts guesses of a kind that were verified behind right ones.
type outcomes struct{ right, all float64 }

// chance returns the probability that a guess of a kind is right. Before any was counted, three of four without a margin are wrong,
// and half as many in each further kind.
func (o *outcomes) chance(kind uint8) float64 {
	const assumed, wrong = 4, 0.75 // guesses; probability
	return (o.right + assumed*(1-wrong/float64(int(1)<<kind))) / (o.all + assumed)
}

// marginKind returns the kind of a guess with a margin.
func marginKind(margin float64) uint8 {
	kind := 0
	for limit := leastMargin; kind < marginKinds-1 && margin >= limit; limit *= 2 {
		kind++
	}
	return uint8(kind)
}

// newChain returns what is known before the first guess: that guesses are right with a probability.
func newChain(right float64) Chain { return Chain{right: right, first: right, branches: newBranches()} }

// NewModelChain returns what is known of a draft model before its first guess.
func NewModelChain() Chain { return newChain(firstModelRight) }

// Best returns how many guesses to make, at most n. If it returns 0, none pays; it tries again later.
func (c *Chain) Best(r *Request, n int) int {
	c.kinds, c.reach, c.passes = c.kinds[:0], 1, r.Passes
	if r.Always {
		return n
	}
	if r.Passes.Best(n, c.each, func(int) float64 { return c.right }) == 0 {
		c.right += (c.first - c.right) * forgetGain
		return 0
	}
	return n
}

// More records the margin of the next guess of a draft, and reports whether it pays to make one more.
func (c *Chain) More(r *Request) bool {
	kind := marginKind(r.Margin)
	c.kinds = append(c.kinds, kind)
	if r.Always {
		return true
	}
	c.reach *= c.margins[kind].chance(kind)
	others := r.Passes.Others.Gives
	rate := (others + 1) / r.Passes.time(1)
	if c.counted > 0 {
		rate = max(rate, (others+c.tokens)/c.seconds)
	}
	return c.reach*c.right > rate*(c.each+r.Passes.time(3)-r.Passes.time(2))
}

// Expected returns how many tokens per second up to n guesses are expected to give.
func (c *Chain) Expected(r *Request, n int) float64 {
	right := func(int) float64 { return c.right }
	if !r.Always {
		n = r.Passes.Best(n, c.each, right)
	}
	return r.Passes.rate(n, c.each, right)
}

// Others adds second choices to a request as branches, if they pay.
func (c *Chain) Others(r *Request, guesses []int32) {
	if r.Branches = r.Branches[:0]; len(guesses) > 0 {
		tokens := min(float64(1+len(guesses)), 1/(1-min(c.right, 0.99)))
		c.branches.addSeconds(r, tokens, guesses)
	}
}

// BranchKept records which branch was kept, -1 for none, and how many more of its guesses were right.
func (c *Chain) BranchKept(branch, more int) { c.branches.kept(branch, more) }

// Took records the time for a number of guesses.
func (c *Chain) Took(guesses int, d time.Duration) {
	if guesses == 0 {
		return
	}
	c.took = d.Seconds()
	each := c.took / float64(guesses)
	if c.each == 0 {
		c.each = each
		return
	}
	c.each = toward(c.each, each, timeGain)
}

// Verified records that of a number of guesses the first right ones were right.
func (c *Chain) Verified(guesses, right int) {
	for i := range min(right+1, guesses) {
		was := 0.0
		if i < right {
			was = 1
		}
		c.seen++
		c.right += (was - c.right) * max(rightGain, 1/float64(firstSeen+c.seen))
		if i < len(c.kinds) {
			c.margins[c.kinds[i]].add(was)
		}
	}
	c.counted++
	gain := max(timeGain, 1/float64(c.counted))
	c.tokens += (float64(right+1) - c.tokens) * gain
	c.seconds += (c.took + c.passes.time(1+guesses) - c.seconds) * gain
}

// add counts a guess. Older ones count less.
func (o *outcomes) add(right float64) {
	const memory = 1 - 1.0/256
	o.right, o.all = o.right*memory+right, o.all*memory+1
}
