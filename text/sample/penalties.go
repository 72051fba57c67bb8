package sample

import (
	"math"
	"slices"
)

// hasPenalties reports whether the history has any influence.
func (p *Params) hasPenalties() bool {
	return p.RepeatPenalty != 0 && p.RepeatPenalty != 1 || p.PresencePenalty != 0 || p.FrequencyPenalty != 0
}

// hasAdjustments reports whether the logits of any token change before the filters.
func (s *Sampler) hasAdjustments() bool { return len(s.bias) > 0 || len(s.history.seen) > 0 }

// adjustLogits returns a copy of the logits with penalties and bias applied.
func (s *Sampler) adjustLogits(logits []float32 /* [vocab] */) []float32 /* [vocab] */ {
	if s.adjustedLogits == nil {
		s.adjustedLogits = make([]float32, s.vocab)
	}
	copy(s.adjustedLogits, logits)
	for _, t := range s.history.seen {
		s.adjustedLogits[t.id] = s.params.penalize(s.adjustedLogits[t.id], t.count)
	}
	for _, t := range s.bias {
		s.adjustedLogits[t.id] = clampFinite(float64(s.adjustedLogits[t.id]) + float64(t.bias))
	}
	return s.adjustedLogits
}

// penalize returns the logit of a token that was seen count times.
func (p *Params) penalize(logit float32, count int) float32 {
	l := float64(logit)
	if r := float64(p.RepeatPenalty); r != 0 {
		// Both ways lead down: dividing a negative logit would favour the token.
		if l > 0 {
			l /= r
		} else {
			l *= r
		}
	}
	// The conversions keep the compiler from fusing the product into the sum,
	// which would round differently on some architectures.
	return clampFinite(l - float64(float64(count)*float64(p.FrequencyPenalty)) - float64(p.PresencePenalty))
}

// clampFinite rounds to float32. An extreme penalty or bias ends at the greatest
// finite value and cannot pass for a broken model; -Inf, a mask, stays.
func clampFinite(l float64) float32 {
	if math.IsInf(l, -1) {
		return float32(l)
	}
	return float32(min(max(l, -math.MaxFloat32), math.MaxFloat32))
}

// history counts the tokens of the last limit positions.
type history struct {
	limit int         // 0: nothing is recorded, -1: everything counts
	ring  []int32     // [<= limit] the tokens themselves; unused without a limit
	next  int         // where the oldest stands once the ring is full
	seen  []seenToken // ascending by id, every count at least 1
}

type seenToken struct {
	id    int32
	count int
}

// add enters a token and lets the oldest drop out.
func (h *history) add(id int32) {
	switch {
	case h.limit == 0:
		return
	case h.limit < 0:
		// Nothing drops out, so the counts are all that is needed.
	case len(h.ring) < h.limit:
		h.ring = append(h.ring, id)
	default:
		h.remove(h.ring[h.next])
		h.ring[h.next] = id
		h.next = (h.next + 1) % h.limit
	}
	if i, found := h.find(id); found {
		h.seen[i].count++
	} else {
		h.seen = slices.Insert(h.seen, i, seenToken{id, 1})
	}
}

// remove takes one occurrence of a token that was seen.
func (h *history) remove(id int32) {
	i, _ := h.find(id)
	if h.seen[i].count--; h.seen[i].count == 0 {
		h.seen = slices.Delete(h.seen, i, i+1)
	}
}

func (h *history) find(id int32) (int, bool) {
	return slices.BinarySearchFunc(h.seen, id, func(t seenToken, id int32) int { return int(t.id) - int(id) })
}
