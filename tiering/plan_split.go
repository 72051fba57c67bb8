package tiering

import "slices"

// splitRates are the rates with which the plan compares divisions of the memory. They are fixed,
// so that every command divides it in the same way, on a machine that was measured and on one
// that was not. Their ratios are those of a phone: flash is much slower than memory. The reuse of experts is that of a router with
// favourites: with it the division is good for even routers too (TestSplitIsGoodForAnyRouter).
var splitRates = Rates{ReadGBs: 1, MemGBs: 20, PrefillGops: 300, AttendGBs: 6, AttendChunkGBs: 12, ExpertReuse: 4, PromptReuse: 4}

const (
	// promptShare is the part of the conversation's tokens that are prompts, in eighths; the
	// model generates the others.
	promptShare = 7
	// splitSteps is the number of sizes of KV that the plan tries between the smallest and the
	// largest, and again around the best one.
	splitSteps = 12
)

// conversation returns the seconds of a conversation that fills the context, in which prompts
// and answers take turns: answers are spread over all depths.
func (m *planner) conversation(p *Plan) float64 {
	c := coster{m, p, splitRates}
	return c.conversation()
}

// conversation is planner.conversation with the rates of the coster.
func (c *coster) conversation() float64 {
	return (promptShare*c.prompt(c.Context) + (8-promptShare)*c.answer(0, c.Context)) / 8
}

// fastest returns the plan with the fastest conversation among divisions of the memory between
// KV, from least to full bytes, prefill chunks and weights. base has the least bytes of KV.
func (m *planner) fastest(base *Plan, least, full int64, r Rates) *Plan {
	s := splitSearch{planner: m, rates: r, base: base, best: base, cost: m.conversation(base), hot: least}
	most := min(full, least+m.limit()-m.minimumTotal(base))
	step := (most - least) / splitSteps
	if step <= 0 {
		return base
	}
	s.chunks(base.Chunk)
	// What a plan leaves over when all weights fit.
	s.try(min(full, least+m.limit()-base.Total()), 0)
	for i := range int64(splitSteps) {
		s.try(most-i*step, 0)
	}
	for hot := max(least, s.hot-step); hot < min(most, s.hot+step); hot += max(1, 2*step/splitSteps) {
		s.try(hot, 0)
	}
	s.chunks(s.best.Chunk)
	return s.best
}

// minimumTotal returns the memory of a plan with the same KV and the minimum of all else.
func (m *planner) minimumTotal(p *Plan) int64 {
	fixed := p.By[Code] + p.By[Heap] + PageUp(m.OtherPinned) + p.By[KVHot] + p.By[KVSummaries] + p.By[KVFrames] + p.By[Rewards]
	return fixed + m.scratch(m.lowChunk()) + m.minimumWeights()
}

// splitSearch is a search for the fastest division.
type splitSearch struct {
	*planner
	rates Rates // of the plans
	base  *Plan // with the least KV, so with the largest ring and chunks of the general rule
	best  *Plan
	cost  float64 // of the best plan
	hot   int64   // its memory for KV
}

// try keeps the plan with some memory for KV if it is faster than the best one. chunk is the
// least size of a prefill chunk. KV takes no memory from the chunks and the ring of the general
// rule: their use depends on rates that the search does not know, and on pauses of a disk.
func (s *splitSearch) try(hot int64, chunk int) {
	try := *s.planner
	try.hot, try.chunkAtLeast = hot, max(chunk, s.base.Chunk)
	p, err := try.make(s.rates)
	if err != nil || p.Chunk < s.base.Chunk || p.Ring > 0 && p.Ring < s.base.Ring {
		return
	}
	if cost := try.conversation(p); cost < s.cost {
		s.best, s.cost, s.hot = p, cost, hot
	}
}

// chunks tries larger prefill chunks, each of which reads weights and KV once.
func (s *splitSearch) chunks(chunk int) {
	for _, more := range []int{chunk * 3 / 2, chunk * 2, s.Chunk} {
		s.try(s.hot, min(roundUp(more, chunkStep), s.Chunk))
	}
}

// order returns the blocks of all sections in the order of pinning, which is computed once for
// all plans of a search.
func (m *planner) order() []block {
	if *m.pinOrder == nil {
		*m.pinOrder = m.blocks()
	}
	return slices.Clip(*m.pinOrder)
}
