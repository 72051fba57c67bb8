package draft

import (
	"sort"
	"time"

	"github.com/llmrun/llmrun/tiering"
)

// Passes learns what passes of the target model take by their tokens: those of all sequences that share them, with all
// guesses. Such times are no line. A few tokens more are almost free where a pass waits for memory or flash, kernels take
// steps, at other numbers of tokens on each processor, and from some number on each token takes its share of computing. Times are
// therefore known for each number of tokens up to eachPass, and for some larger ones, between which they lie on lines.
type Passes struct {
	// Others are the other sequences of the pass for which guesses are wanted.
	Others Others

	seconds [passSizes]float64 // of passes of passTokens; multiples of the smallest before any was measured
	seen    [passSizes]int     // passes of about so many tokens; 0: the time is inferred from others
	first   firstPass
}

// Others are what a pass has besides the tokens of a sequence.
type Others struct {
	Tokens float64 // tokens of other sequences, prompts' and guesses too
	Gives  float64 // tokens of their answers that the pass is expected to give

	Guesses float64 // of Tokens, those that are guesses
	Right   float64 // of Gives, those that guesses give
}

// othersGain is the weight of the last pass in what a sequence expects of the others of its next one. All of them choose
// their guesses at the same time: if each went by the last passes alone, none would guess in one pass and all in the next. Steps in the
// times of passes make that worse: with 1/4, eight sequences lost up to half of their speed in such turns.
const othersGain = 1.0 / 16

// Join learns from the others of a pass, which are fresh if there are more of them or fewer than in the pass before.
func (o *Others) Join(fresh bool, now Others) {
	if fresh {
		*o = now
		return
	}
	o.Tokens += (now.Tokens - o.Tokens) * othersGain
	o.Gives += (now.Gives - o.Gives) * othersGain
	o.Guesses += (now.Guesses - o.Guesses) * othersGain
	o.Right += (now.Right - o.Right) * othersGain
}

// passTokens are the tokens of passes of each size: every number up to eachPass, because a step at one of them decides whether
// guesses pay. More tokens than in the largest are expected to take as long each.
var passTokens = func() (tokens [passSizes]int) {
	for i := range eachPass {
		tokens[i] = 1 + i
	}
	copy(tokens[eachPass:], []int{48, 64, 96, 128, 192, 256, 384, 512, 1024, 2048, largestPass})
	return tokens
}()

const (
	eachPass    = 32
	passSizes   = eachPass + 11
	largestPass = 4096
)

// unseenShare is what a token more is expected to take in a pass of several sequences that has more tokens than any pass before, as a part
// of what each of its tokens takes. The memory for weights is shared already, and what computing allows is not known: only guesses that
// are nearly sure find it out.
const unseenShare = 0.75

// sharedPass is a number of tokens that is likely that of several sequences.
const sharedPass = 4

const (
	timeGain    = 1.0 / 8 // weight of the latest observation in moving averages of times
	overlapCost = 0.1     // of the shorter of reading and computing, as in plans
)

// streamedGrowth is expected of passes that read weights from flash, before it is known whether they wait for it.
var streamedGrowth = Growth{More: 0.005}

// firstPass is what the first measured pass tells of all others.
type firstPass struct {
	computing Growth
	each      float64 // seconds that a pass of one token computes; 0: none was measured
	reads     float64 // seconds that a pass reads flash
}

// of returns the expected time of a pass of a size.
func (f *firstPass) of(size int) float64 {
	c := f.each * f.computing.Of(passTokens[size])
	return max(c, f.reads) + overlapCost*min(c, f.reads)
}

// NewPasses returns what is known of passes whose computing grows with their tokens, before any is measured.
func NewPasses(computing Growth, streamed bool) Passes {
	p := Passes{first: firstPass{computing: computing}}
	if streamed {
		computing = streamedGrowth
	}
	for size := range p.seconds {
		p.seconds[size] = computing.Of(passTokens[size])
	}
	return p
}

// PassesOf is NewPasses for the weights of a plan, which may be nil.
func PassesOf(plan *tiering.Plan) Passes {
	return NewPasses(GrowthOf(plan), plan != nil && plan.StreamedPerToken > 0)
}

// Measured reports whether a pass was measured.
func (p *Passes) Measured() bool { return p.first.each > 0 }

// Took records the time of a pass of a number of tokens, and how much of it the pass waited for weights on flash, which is
// used of the first pass only.
func (p *Passes) Took(tokens int, d, waited time.Duration) {
	t := d.Seconds()
	if tokens <= 0 || t <= 0 {
		return
	}
	if !p.Measured() {
		p.begin(tokens, t, min(t, waited.Seconds()))
		return
	}
	if tokens > largestPass {
		tokens, t = largestPass, t*largestPass/float64(tokens)
	}
	size, part := place(float64(tokens))
	near := size // of the two sizes around the tokens
	if part >= 0.5 {
		near++
	}
	expected := p.of(float64(tokens))
	if n := p.seen[near]; n > 0 {
		t = toward(expected, t, max(timeGain, 1/float64(1+n)))
	}
	// Both times move so that the line between them goes through t, the more the nearer they are.
	further := (t - expected) / ((1-part)*(1-part) + part*part)
	p.seconds[size] += (1 - part) * further
	if part > 0 {
		p.seconds[size+1] += part * further
	}
	p.seen[near]++
	p.infer(near)
}

// begin learns from the first measured pass. Where it waited for flash, further tokens take almost no time, until computing
// takes longer than reading.
func (p *Passes) begin(tokens int, took, waited float64) {
	f := &p.first
	computes := took - waited
	if waited > 0 {
		f.reads = took - overlapCost*computes
	}
	f.each = max(computes, 1e-9) / f.computing.Of(tokens)
	for size := range p.seconds {
		p.seconds[size] = f.of(size)
	}
}

// infer derives what other sizes take from what one takes. More tokens never take less time.
func (p *Passes) infer(near int) {
	last := near
	for i := near + 1; i < passSizes; i++ {
		if p.seen[i] > 0 { // what is not tried any more is tried again
			p.seconds[i] += (p.seconds[near]*p.grows(near, i) - p.seconds[i]) * forgetGain
			p.seconds[i] = max(p.seconds[i], p.seconds[last])
			last = i
		}
	}
	last = near
	for i := near - 1; i >= 0; i-- {
		if p.seen[i] > 0 {
			p.seconds[i] = min(p.seconds[i], p.seconds[last])
			last = i
		}
	}
	last = -1
	for i := range p.seconds {
		if p.seen[i] > 0 {
			p.fill(last, i)
			last = i
		}
	}
	p.fill(last, passSizes)
}

// grows returns how many times as long a pass of a size is expected to take as one of another size.
func (p *Passes) grows(from, to int) float64 { return p.first.of(to) / p.first.of(from) }

// fill derives the times between two sizes that were seen, of which one may be outside.
func (p *Passes) fill(low, high int) {
	for i := low + 1; i < high; i++ {
		switch {
		case low < 0:
			p.seconds[i] = p.seconds[high] * p.grows(high, i)
		case high == passSizes:
			p.seconds[i] = p.beyond(low, i)
		default:
			part := 0.0
			if all := p.grows(low, high) - 1; all > 0 {
				part = (p.grows(low, i) - 1) / all
			}
			p.seconds[i] = p.seconds[low] + (p.seconds[high]-p.seconds[low])*part
		}
	}
}

// beyond returns the expected time of a size above the largest that was seen: on the line through one of half as many tokens or fewer, as
// expected of the first pass, or, for several sequences, with unseenShare.
func (p *Passes) beyond(largest, size int) float64 {
	most := passTokens[largest]
	more := float64(passTokens[size] - most)
	for i := 1; 2*passTokens[i] <= most; i++ {
		if p.seen[i] > 0 {
			return p.seconds[largest] + (p.seconds[largest]-p.seconds[i])/float64(most-passTokens[i])*more
		}
	}
	if most < sharedPass {
		return p.seconds[largest] * p.grows(largest, size)
	}
	return p.seconds[largest] * (1 + unseenShare*more/float64(most))
}

// place returns the largest size that a number of tokens reaches, and where the tokens stand between it and the next one.
func place(tokens float64) (size int, part float64) {
	switch {
	case tokens >= largestPass:
		return passSizes - 1, 0
	case tokens < eachPass:
		size = int(max(1, tokens)) - 1
	default:
		size = sort.SearchInts(passTokens[:], int(tokens)+1) - 1
	}
	low, high := float64(passTokens[size]), float64(passTokens[size+1])
	return size, max(0, (tokens-low)/(high-low))
}

// of returns the expected time of a pass of all its sequences' tokens.
func (p *Passes) of(tokens float64) float64 {
	size, part := place(tokens)
	if size == passSizes-1 {
		return p.seconds[size] * max(1, tokens/largestPass)
	}
	return p.seconds[size] + (p.seconds[size+1]-p.seconds[size])*part
}

// time returns the expected time of a pass with a number of tokens of the sequence.
func (p *Passes) time(tokens int) float64 { return p.of(p.Others.Tokens + float64(tokens)) }

// Best returns how many of n guesses give the most tokens per second, of all sequences of the pass; 0 if none does, or if the pass gives more
// without any guesses of the others too. Where each goes by its own guesses alone, a step of the time that all of their guesses take
// together is free for everyone. Making a guess takes each seconds besides its part of the pass, and chance returns the probability
// that the guess i, from 0 on, is right if all before it are.
func (p *Passes) Best(n int, each float64, chance func(i int) float64) int {
	o := &p.Others
	plain := (o.Gives - o.Right + 1) / p.of(o.Tokens-o.Guesses+1)
	return best(n, each, o.Gives, plain, p.time, chance)
}

// best is Best with the time that a pass of a number of tokens takes, the tokens that it gives other sequences, and a number of tokens per second
// that guesses have to exceed.
func best(n int, each, others, plain float64, pass func(tokens int) float64, chance func(i int) float64) (best int) {
	expected, all := others+1, 1.0
	rate := max(plain, expected/pass(1))
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
	tokens, all := p.Others.Gives+1, 1.0
	for i := range n {
		all *= chance(i)
		tokens += all
	}
	return tokens / (p.time(1+n) + each*float64(n))
}

// Room returns how many tokens, at most most, can join a pass of some so that it takes no longer than so many times as long, or than
// a time. It may be called when a pass was measured.
func (p *Passes) Room(tokens, most int, times float64, least time.Duration) int {
	limit := max(times*p.of(float64(tokens)), least.Seconds())
	return sort.Search(most, func(n int) bool { return p.of(float64(tokens+n+1)) > limit })
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
