package draft

import "time"

// Passes learns what passes of the target model take. A pass of several tokens takes one step more than a pass of
// one, because its kernels are others, and then more for each token behind the first.
type Passes struct {
	one        float64 // seconds of a pass of one token; 1 before one was measured
	step, more float64 // seconds; fractions of one before that
	computing  Growth  // what is assumed of the first measured pass
	measured   bool
	seen       int // passes of several tokens that step and more are learned from
}

const (
	timeGain    = 1.0 / 8 // weight of the latest observation in moving averages of times
	overlapCost = 0.1     // of the shorter of reading and computing, as in plans
	farPass     = 17      // tokens of a pass with the default number of guesses
)

// streamedGrowth is expected of passes that read weights from flash, before it is known whether they wait for it.
var streamedGrowth = Growth{More: 0.005}

// NewPasses returns what is known of passes whose computing grows with their tokens, before any is measured.
func NewPasses(computing Growth, streamed bool) Passes {
	first := computing
	if streamed {
		first = streamedGrowth
	}
	return Passes{one: 1, step: first.Step, more: first.More, computing: computing}
}

// Measured reports whether a pass was measured.
func (p *Passes) Measured() bool { return p.measured }

// Took records the time of a pass of a number of tokens behind the prompt, and how much of it the pass waited for weights on
// flash.
func (p *Passes) Took(tokens int, d, waited time.Duration) {
	t, further := d.Seconds(), float64(tokens-1)
	if !p.measured {
		p.begin(tokens, t, min(t, waited.Seconds()))
		return
	}
	if tokens == 1 {
		p.one = toward(p.one, t, timeGain)
		return
	}
	// Both parts move toward what explains the time, the more the larger they are in this pass.
	p.seen++
	expected := p.time(tokens)
	wrong := toward(expected, t, max(timeGain, 1/float64(1+p.seen))) - expected
	p.step = max(0, p.step+wrong/(1+further*further))
	p.more = max(0, p.more+wrong*further/(1+further*further))
}

// begin learns from the first measured pass. Where it waited for flash, further tokens take almost no time, until computing
// takes longer than reading.
func (p *Passes) begin(tokens int, took, waited float64) {
	p.measured = true
	computes, reads := took-waited, 0.0
	if waited > 0 {
		reads = took - overlapCost*computes
	}
	each := computes / p.computing.Of(tokens)
	pass := func(tokens int) float64 {
		c := each * p.computing.Of(tokens)
		return max(c, reads) + overlapCost*min(c, reads)
	}
	p.one = pass(1)
	p.more = (pass(farPass) - pass(2)) / (farPass - 2)
	if p.step = pass(2) - p.one - p.more; p.step < 0 { // it waits for flash up to some tokens
		p.step, p.more = 0, (pass(farPass)-p.one)/(farPass-1)
	}
}

// time returns the expected time of a pass.
func (p *Passes) time(tokens int) float64 {
	if tokens == 1 {
		return p.one
	}
	return p.one + p.step + p.more*float64(tokens-1)
}

// Best returns how many of n guesses give the most tokens per second; 0 if a pass of one token does. Making a
// guess takes each seconds besides its part of the pass, and chance returns the probability that the guess i,
// from 0 on, is right if all before it are.
func (p *Passes) Best(n int, each float64, chance func(i int) float64) int {
	return best(n, each, p.time, chance)
}

// best is Best with the time that a pass of a number of tokens takes.
func best(n int, each float64, pass func(tokens int) float64, chance func(i int) float64) (best int) {
	expected, all, rate := 1.0, 1.0, 1/pass(1)
	for i := range n {
		all *= chance(i)
		expected += all
		if r := expected / (pass(i+2) + each*float64(i+1)); r > rate {
			best, rate = i+1, r
		}
	}
	return best
}

// rate returns how many tokens per second a pass with n guesses is expected to give; see Best.
func (p *Passes) rate(n int, each float64, chance func(i int) float64) float64 {
	tokens, all := 1.0, 1.0
	for i := range n {
		all *= chance(i)
		tokens += all
	}
	return tokens / (p.time(1+n) + each*float64(n))
}

// toward moves an average to the latest time: to a longer one slowly, because other programs delay
// single passes.
func toward(average, latest, gain float64) float64 {
	if latest > average {
		latest = min(latest, 4*average)
		gain /= 2
	}
	return average + (latest-average)*gain
}
