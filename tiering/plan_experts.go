package tiering

import (
	"cmp"
	"math"
)

// A router has favourites, so that a cache of few experts serves many uses, and the tokens of a chunk share experts. Plans
// describe both by one number, the reuse r: how often experts are used falls exponentially with their rank, by e^(r-1) from the
// first to the last. With r = 1 the router chooses evenly. Runs learn r, for answers from the experts that were in memory, and
// for prompts from how many different experts a chunk used. Of the families of one number that were tried, this one fits counted
// uses over the widest range of memory and of chunks (docs/results/experts.md).

// evenUse is the reuse of a router that chooses evenly. A plan assumes it until a run has learned another one: no router
// needs more experts, so that the first plan of a model does not promise too much.
const evenUse = 1

// MostReuse limits what is learned. Experts that are always in memory would have no limit.
const MostReuse = 16

// answers returns the reuse of a token of an answer. Prompts teach it too, in memory that answers cannot learn from.
func (r *Rates) answers() float64 { return cmp.Or(r.ExpertReuse, r.PromptReuse, evenUse) }

// prompts returns the reuse of a prefill chunk. Answers do not teach it: their tokens follow one another, and a text that
// repeats itself uses the same experts again and again.
func (r *Rates) prompts() float64 { return cmp.Or(r.PromptReuse, evenUse) }

// experts returns the number of experts in all layers.
func (m *planner) experts() int { return m.ExpertLayers * m.Experts }

// minSlots returns the number of experts that must be in memory at once: those that
// one token uses in a layer.
func (m *planner) minSlots() int { return min(m.ExpertsUsed, m.experts()) }

// slots returns the memory of n experts.
func (m *planner) slots(n int) int64 { return int64(n) * PageUp(m.ExpertBytes) }

// expertReads returns the bytes of experts that a number of tokens reads: the experts that any of
// the tokens uses, minus those in memory.
func (m *planner) expertReads(p *Plan, tokens int, r *Rates) int64 {
	return int64(float64(m.ExpertLayers) * m.missingExperts(p, tokens, r) * float64(m.ExpertBytes))
}

// missingExperts returns the expected number of experts that a number of tokens uses in a layer and that are not in memory,
// which holds the most used ones.
func (m *planner) missingExperts(p *Plan, tokens int, r *Rates) float64 {
	if m.experts() == 0 || p.ExpertSlots >= m.experts() {
		return 0
	}
	absent := AbsentExperts(p.ExpertSlots, m.ExpertsUsed, m.experts())
	if tokens <= 1 {
		return float64(m.ExpertsUsed) * MissedUses(absent, r.answers())
	}
	return m.usedOf(tokens, r.prompts(), absent)
}

// expertsUsedBy returns the expected number of experts of a layer that any of a number of tokens uses.
func (m *planner) expertsUsedBy(tokens int, r *Rates) float64 {
	if m.Experts == 0 || tokens == 1 {
		return float64(m.ExpertsUsed)
	}
	return m.usedOf(tokens, r.prompts(), 1)
}

// chunkUse is what the experts that a chunk uses depend on.
type chunkUse struct {
	tokens       int
	reuse, least float64
}

// usedOf is the function usedOf for the model, computed once for all chunks of a search.
func (m *planner) usedOf(tokens int, reuse, least float64) float64 {
	key := chunkUse{tokens, reuse, least}
	n, known := m.expertUse[key]
	if !known {
		n = usedOf(m.Experts, m.ExpertsUsed, float64(tokens), reuse, least)
		if m.expertUse != nil {
			m.expertUse[key] = n
		}
	}
	return n
}

// AbsentExperts returns which part of all experts is not in memory when a layer looks for its own, if a token uses so many in a
// layer. Each one that was missing has taken a slot from others, so that slots for those of one layer never hold any.
func AbsentExperts(slots, used, experts int) float64 {
	if slots <= used {
		return 1
	}
	return float64(experts-slots) / float64(experts-used)
}

// MissedUses returns which part of the uses of experts the least used fraction of them has, with a reuse.
func MissedUses(least, reuse float64) float64 {
	fall := reuse - 1
	if fall < 1e-6 {
		return least
	}
	return (math.Exp(fall*least) - 1) / (math.Exp(fall) - 1)
}

// ReuseOfAnswers returns the reuse with which the least used fraction of all experts has a part of the uses.
func ReuseOfAnswers(least, missed float64) float64 {
	return reuseWhere(MostReuse, func(reuse float64) bool { return MissedUses(least, reuse) > missed })
}

// ReuseOfPrompts returns the reuse of a router with which some tokens use a number of different experts of a layer.
func ReuseOfPrompts(experts, used int, tokens, different float64) float64 {
	most := min(MostReuse, 1+float64(experts)/float64(used)) // a token uses the first expert with the probability 1
	return reuseWhere(most, func(reuse float64) bool { return usedOf(experts, used, tokens, reuse, 1) > different })
}

// reuseWhere returns the reuse from 1 to most at which more becomes false.
func reuseWhere(most float64, more func(reuse float64) bool) float64 {
	low, high := 1.0, most
	for range 40 {
		if middle := (low + high) / 2; more(middle) {
			low = middle
		} else {
			high = middle
		}
	}
	return low
}

// usedSteps is the number of steps of an integral over the experts of a layer.
const usedSteps = 32

// usedOf returns how many experts of the least used fraction of a layer's any of some tokens uses, if each token uses so many of
// the layer and the router has a reuse.
func usedOf(experts, used int, tokens, reuse, least float64) float64 {
	step, sum := least/usedSteps, 0.0
	for i := range usedSteps {
		uses := MissedUses(step*float64(i+1), reuse) - MissedUses(step*float64(i), reuse)
		chance := min(1, uses*float64(used)/(step*float64(experts))) // that a token uses one of these experts
		sum += 1 - math.Pow(1-chance, tokens)
	}
	return float64(experts) * step * sum
}
