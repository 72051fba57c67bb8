package tiering

import (
	"cmp"
	"math"
)

// A router has favourites, so that a cache of few experts serves many uses, and the tokens of a chunk share experts. Plans
// describe both by one number, the reuse r: the most used fraction x of a layer's experts does 1-(1-x)^r of the work. With
// r = 1 the router chooses evenly. Runs learn r, for answers from the experts that were in memory, and for prompts from how
// many different experts a chunk used.

// evenUse is the reuse of a router that chooses evenly. A plan assumes it until a run has learned another one: no router
// needs more experts, so that the first plan of a model does not promise too much.
const evenUse = 1

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
		return float64(m.ExpertsUsed) * math.Pow(absent, r.answers())
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

// usedOf returns how many experts of the least used fraction of a layer's any of some tokens uses, if each token uses so many of
// the layer and the router has a reuse. The u-th part from the end is used by a token with the probability used/experts·reuse·u^(reuse-1).
func usedOf(experts, used int, tokens, reuse, least float64) float64 {
	reuse = min(reuse, float64(experts)/float64(used)) // no probability exceeds 1
	perToken := float64(used) / float64(experts) * reuse
	sum := 0.0
	for i := range usedSteps {
		u := least * (float64(i) + 0.5) / usedSteps
		sum += 1 - math.Pow(1-perToken*math.Pow(u, reuse-1), tokens)
	}
	return float64(experts) * least * sum / usedSteps
}

// usedSteps is the number of steps of an integral over the experts of a layer.
const usedSteps = 32

// ReuseOfPrompts returns the reuse of a router with which some tokens use a number of different experts of a layer.
func ReuseOfPrompts(experts, used int, tokens, different float64) float64 {
	low, high := 1.0, float64(experts)/float64(used)
	for range 40 { // more reuse, fewer experts
		if middle := (low + high) / 2; usedOf(experts, used, tokens, middle, 1) > different {
			low = middle
		} else {
			high = middle
		}
	}
	return low
}
