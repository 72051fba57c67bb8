package sample

import "math"

// topK collects the k tokens with the greatest logits, in no particular order;
// all tokens, by ascending id, when k is 0. Masked tokens are left out.
//
// A heap of the k best so far, the least of them at its root, makes this one
// pass over the vocabulary in which nearly every token costs one comparison.
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
			// While there is room the order does not matter, and without a limit
			// it never does.
			if len(candidates) == k && k < len(logits) {
				heapify(candidates, worse)
			}
		case l > candidates[0].logit: // an equal logit loses: its id is higher
			candidates[0] = c
			siftDown(candidates, 0, worse)
		}
	}
	return candidates
}

// typical keeps the tokens whose surprise -ln p is nearest to its expectation,
// the entropy, until their mass reaches p.
//
// With d = top - logit, top being the greatest logit, the surprise is d + ln Z and the entropy is E[d] + ln Z:
// the normalization cancels, and no logarithm is needed.
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

// topP keeps the most likely tokens until their mass reaches p.
func topP(candidates []candidate, p float32) []candidate {
	if p == 0 || p == 1 {
		return candidates
	}
	top, total := maxLogit(candidates), 0.0
	for i := range candidates {
		c := &candidates[i]
		total += exp(float64(c.logit) - top)
		c.key = -float64(c.logit)
	}
	return truncateToMass(candidates, top, float64(p)*total)
}

// minP keeps the tokens whose probability is at least p times that of the most
// likely one that is left.
func minP(candidates []candidate, p float32) []candidate {
	if p == 0 {
		return candidates
	}
	top, n := maxLogit(candidates), 0
	for _, c := range candidates {
		if exp(float64(c.logit)-top) >= float64(p) {
			candidates[n] = c
			n++
		}
	}
	return candidates[:n]
}

// truncateToMass keeps the candidates with the lowest keys, at least one, until the
// sum of exp(logit-top) reaches mass. They come out in the order of their keys.
// A heap sorts only as many as are candidates.
func truncateToMass(candidates []candidate, top, mass float64) []candidate {
	heapify(candidates, before)
	heap := candidates
	reached := 0.0
	for len(heap) > 0 {
		// The least of the heap goes to its end, where the heap shrinks away
		// from it: the chosen ones gather at the end, backwards.
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
	// Forwards again, at the front, so that the buffer keeps its start.
	for i := range n / 2 {
		a, b := len(candidates)-1-i, len(heap)+i
		candidates[a], candidates[b] = candidates[b], candidates[a]
	}
	copy(candidates, candidates[len(heap):])
	return candidates[:n]
}

// maxLogit returns the greatest logit that is left. Weights relative to it never
// vanish all together, whatever was removed and however low the temperature is.
func maxLogit(candidates []candidate) float64 {
	top := candidates[0].logit
	for i := range candidates {
		top = max(top, candidates[i].logit)
	}
	return float64(top)
}

// before orders by key; equal ones by id, so that no two are equal.
func before(a, b *candidate) bool {
	return a.key < b.key || a.key == b.key && a.id < b.id
}

// worse orders the less likely first; of equal ones the higher id.
func worse(a, b *candidate) bool {
	return a.logit < b.logit || a.logit == b.logit && a.id > b.id
}

// heapify makes c a heap: c[i] comes before c[2i+1] and c[2i+2].
func heapify(c []candidate, first func(a, b *candidate) bool) {
	for i := len(c)/2 - 1; i >= 0; i-- {
		siftDown(c, i, first)
	}
}

// siftDown restores the heap below i, the only place where it may be broken.
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
