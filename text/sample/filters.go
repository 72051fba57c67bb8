package sample

import "math"

// topK returns the k tokens with the greatest logits in no particular order. If k is 0
// it returns all tokens by ascending id. It omits masked tokens.
//
// topK makes one pass over the vocabulary with a heap of the k best tokens, whose root
// is the worst of them. Most tokens cost one comparison.
func (s *Sampler) topK(logits []float32 /* [vocab] */) []candidate {
	k := s.params.TopK
	if k == 0 || k > len(logits) {
		k = len(logits)
	}
	if cap(s.candidates) < k {
		s.candidates = make([]candidate, 0, k)
	}
	candidates := s.candidates[:0]
	for id, l := range logits {
		if math.IsInf(float64(l), -1) {
			continue
		}
		c := candidate{logit: l, id: int32(id)}
		switch {
		case len(candidates) < k:
			candidates = append(candidates, c)
			// The heap is built once, when the buffer is full. Without a limit no heap
			// is needed.
			if len(candidates) == k && k < len(logits) {
				heapify(candidates, worse)
			}
		case l > candidates[0].logit: // an equal logit with a higher id is worse
			candidates[0] = c
			siftDown(candidates, 0, worse)
		}
	}
	return candidates
}

// typical retains the tokens whose surprise -ln p is nearest to its expectation, the
// entropy, until their total probability reaches p.
//
// With d = maximum logit - logit, the surprise is d + ln Z and the entropy is E[d] + ln
// Z. The normalization ln Z cancels, so no logarithm is needed.
func typical(candidates []candidate, p float32) []candidate {
	if p == 0 || p == 1 {
		return candidates
	}
	top := maxLogit(candidates)
	total, weighted := 0.0, 0.0
	for _, c := range candidates {
		d := top - float64(c.logit)
		w := exp(-d)
		total += w
		weighted += float64(w * d)
	}
	expected := weighted / total
	for i := range candidates {
		d := top - float64(candidates[i].logit)
		candidates[i].key = math.Abs(d - expected)
	}
	return truncateToMass(candidates, top, float64(p)*total)
}

// topP retains the most likely tokens until their total probability reaches p.
func topP(candidates []candidate, p float32) []candidate {
	if p == 0 || p == 1 {
		return candidates
	}
	top, total := maxLogit(candidates), 0.0
	var weights [levels]float64
	for i := range candidates {
		c := &candidates[i]
		weight := exp(float64(c.logit) - top)
		total += weight
		weights[levelOf(top, c.logit)] += weight
		c.key = -float64(c.logit)
	}
	mass := float64(p) * total
	last := 0
	for last < levels-1 && weights[last] < mass {
		mass -= weights[last]
		last++
	}
	before, upTo := splitByLevel(candidates, top, last)
	return candidates[:before+len(truncateToMass(candidates[before:upTo], top, mass))]
}

// levels are classes of candidates by how far their logits are below the greatest one, levelsPerUnit for a distance of 1. Of those that topP
// retains, only the ones of the last level have to be ordered, which are few also where a large vocabulary has similar logits.
const (
	levels        = 1024
	levelsPerUnit = 20
)

func levelOf(top float64, logit float32) int {
	return int(min(levelsPerUnit*(top-float64(logit)), levels-1))
}

// splitByLevel moves the candidates of lower levels than one to the start of the buffer, and those of this level behind them. It returns
// the ends of both.
func splitByLevel(candidates []candidate, top float64, level int) (before, upTo int) {
	for i, c := range candidates {
		l := levelOf(top, c.logit)
		if l > level {
			continue
		}
		candidates[i], candidates[upTo] = candidates[upTo], c
		if upTo++; l < level {
			candidates[upTo-1], candidates[before] = candidates[before], c
			before++
		}
	}
	return before, upTo
}

// minP retains the tokens whose probability is at least p times the probability of the
// most likely remaining token.
func minP(candidates []candidate, p float32) []candidate {
	if p == 0 {
		return candidates
	}
	top, n := maxLogit(candidates), 0
	least := ln(float64(p)) // below negligible, exp is 0, and a high temperature may still draw the token
	for _, c := range candidates {
		d := float64(c.logit) - top
		if d < least-1e-6 { // beyond what rounding of exp and ln can change, as most of a large vocabulary is
			continue
		}
		if exp(d) >= float64(p) || d < negligible && d >= least {
			candidates[n] = c
			n++
		}
	}
	return candidates[:n]
}

// truncateToMass retains the candidates with the lowest keys, at least one, until the
// sum of exp(logit-top) reaches mass. The result is ordered by key. A heap sorts only
// the retained candidates.
func truncateToMass(candidates []candidate, top, mass float64) []candidate {
	heapify(candidates, before)
	heap := candidates
	reached := 0.0
	for len(heap) > 0 {
		// The minimum of the heap moves to the end of the heap, which then shrinks by
		// one. The selected candidates collect after the heap in reverse order.
		last := len(heap) - 1
		heap[0], heap[last] = heap[last], heap[0]
		reached += exp(float64(heap[last].logit) - top)
		heap = heap[:last]
		siftDown(heap, 0, before)
		if reached >= mass {
			break
		}
	}
	n := len(candidates) - len(heap)
	// Reverse the selected candidates and move them to the start of the buffer.
	for i := range n / 2 {
		a, b := len(candidates)-1-i, len(heap)+i
		candidates[a], candidates[b] = candidates[b], candidates[a]
	}
	copy(candidates, candidates[len(heap):])
	return candidates[:n]
}

// maxLogit returns the greatest remaining logit. Weights relative to it cannot all
// underflow, whatever tokens were removed and however low the temperature is.
func maxLogit(candidates []candidate) float64 {
	top := candidates[0].logit
	for i := range candidates {
		top = max(top, candidates[i].logit)
	}
	return float64(top)
}

// before orders candidates by key, then by id, so no two candidates are equal.
func before(a, b *candidate) bool {
	return a.key < b.key || a.key == b.key && a.id < b.id
}

// worse orders candidates by ascending logit. Of equal logits the higher id is worse.
func worse(a, b *candidate) bool {
	return a.logit < b.logit || a.logit == b.logit && a.id > b.id
}

// heapify arranges c as a heap: c[i] precedes c[2i+1] and c[2i+2].
func heapify(c []candidate, first func(a, b *candidate) bool) {
	for i := len(c)/2 - 1; i >= 0; i-- {
		siftDown(c, i, first)
	}
}

// siftDown restores the heap order below i. The rest of c must be in heap order.
func siftDown(c []candidate, i int, first func(a, b *candidate) bool) {
	for {
		child := 2*i + 1
		if child >= len(c) {
			return
		}
		if child+1 < len(c) && first(&c[child+1], &c[child]) {
			child++
		}
		if !first(&c[child], &c[i]) {
			return
		}
		c[i], c[child] = c[child], c[i]
		i = child
	}
}
