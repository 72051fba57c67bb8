package sample

import (
	"math"
	"slices"
)

// hasPenalties reports whether the history affects the logits.
func (p *Params) hasPenalties() bool {
	return p.RepeatPenalty != 0 && p.RepeatPenalty != 1 || p.PresencePenalty != 0 || p.FrequencyPenalty != 0
}

// hasAdjustments reports whether a penalty, a bias or a mask changes the logit of any token.
func (s *Sampler) hasAdjustments() bool {
	return len(s.bias) > 0 || len(s.history.seen) > 0 || s.allowed != nil
}

// adjustLogits returns a copy of the logits after penalties, bias and mask.
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
	if s.allowed != nil {
		maskLogits(s.adjustedLogits, s.allowed)
	}
	return s.adjustedLogits
}

// maskLogits forbids the tokens whose bits are not set.
func maskLogits(logits []float32 /* [vocab] */, allowed []uint64 /* [vocab/64] */) {
	forbidden := float32(math.Inf(-1))
	for i, word := range allowed {
		if word == math.MaxUint64 {
			continue
		}
		part := logits[min(64*i, len(logits)):min(64*i+64, len(logits))]
		for b := range part {
			if word>>b&1 == 0 {
				part[b] = forbidden
			}
		}
	}
}

// penalize returns the logit of a token that occurs count times in the history.
func (p *Params) penalize(logit float32, count int) float32 {
	l := float64(logit)
	if r := float64(p.RepeatPenalty); r != 0 {
		// Both operations lower the logit. Dividing a negative logit would raise it.
		if l > 0 {
			l /= r
		} else {
			l *= r
		}
	}
	// The conversions prevent the compiler from fusing the product and the sum. A fused
	// operation rounds differently, and only some architectures have it.
	return clampFinite(l - float64(float64(count)*float64(p.FrequencyPenalty)) - float64(p.PresencePenalty))
}

// clampFinite converts to float32. It limits the result of an extreme penalty or bias
// to the finite range, because Sample reports an infinite logit as a broken model. It
// preserves -Inf, which marks a masked token.
func clampFinite(l float64) float32 {
	if math.IsInf(l, -1) {
		return float32(l)
	}
	return float32(min(max(l, -math.MaxFloat32), math.MaxFloat32))
}

// history counts the tokens of the last limit positions.
type history struct {
	limit int         // 0: disabled, -1: unlimited
	ring  []int32     // [<= limit] the tokens; unused if unlimited
	next  int         // position of the oldest token in a full ring
	seen  []seenToken // ascending by id; every count is at least 1
}

// seenToken is a token and its number of occurrences in the history.
type seenToken struct {
	id    int32
	count int
}

// add records a token. If the history is full it removes the oldest token.
func (h *history) add(id int32) {
	switch {
	case h.limit == 0:
		return
	case h.limit < 0:
		// An unlimited history needs only the counts.
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

// copyFrom makes the history equal to another one, in its own memory.
func (h *history) copyFrom(other *history) {
	h.limit, h.next = other.limit, other.next
	h.ring, h.seen = append(h.ring[:0], other.ring...), append(h.seen[:0], other.seen...)
}

// remove removes one occurrence of a token.
func (h *history) remove(id int32) {
	i, _ := h.find(id)
	if h.seen[i].count--; h.seen[i].count == 0 {
		h.seen = slices.Delete(h.seen, i, i+1)
	}
}

// find returns the position of a token in seen, or the position at which to insert it.
func (h *history) find(id int32) (int, bool) {
	return slices.BinarySearchFunc(h.seen, id, func(t seenToken, id int32) int { return int(t.id) - int(id) })
}
