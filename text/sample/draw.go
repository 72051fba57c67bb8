package sample

import (
	"math"

	"github.com/llmrun/llmrun/quant"
)

// draw selects one of the candidates. The probability of a candidate is proportional to its weight
// e^(logit/temperature).
//
// Each candidate gets an exponentially distributed number, divided by its weight. The smallest quotient belongs
// to a candidate with exactly the probability above. (Its negative logarithm is logit/temperature plus Gumbel
// noise, of which the greatest wins.) The numbers depend on the seed, the position and the token alone. Two models
// with similar logits therefore draw the same token nearly always: a model that guesses what another one will draw
// uses the same numbers.
func (s *Sampler) draw(candidates []candidate) int32 {
	id, _ := s.least(candidates, -1)
	return id
}

// least returns the candidate with the smallest quotient, of those besides except, and its quotient.
func (s *Sampler) least(candidates []candidate, except int32) (chosen int32, least float64) {
	top := maxLogit(candidates)
	key := mix(s.seed ^ mix(s.position+positionKey))
	chosen, least = candidates[0].id, math.Inf(1)
	found := false
	for _, c := range candidates {
		if c.id == except {
			continue
		}
		rest := uniform(mix(key + uint64(uint32(c.id))*odd))
		// -ln(1-rest) >= rest, and no weight is above 1: most candidates need neither function.
		if found && rest > least {
			continue
		}
		weight := exp((float64(c.logit) - top) / float64(s.params.Temperature))
		if weight == 0 {
			continue
		}
		quotient := -ln(1-rest) / weight
		if !found || quotient < least || quotient == least && c.id < chosen {
			chosen, least, found = c.id, quotient, true
		}
	}
	return chosen, least
}

// drawAll is draw for all tokens that are not forbidden, of which best has the greatest logit. It begins with that token, whose
// quotient is small, and computes those of the few tokens for which a lower bound is smaller yet.
func (s *Sampler) drawAll(logits []float32 /* [vocab] */, best int32) int32 {
	top, temperature := float64(logits[best]), float64(s.params.Temperature)
	key := mix(s.seed ^ mix(s.position+positionKey))
	chosen, least := best, -ln(1-uniform(mix(key+uint64(uint32(best))*odd)))
	most, limit := drawBounds(least)
	number := key - odd
	for id, logit := range logits {
		number += odd
		x := mix(number)
		if x > most {
			continue
		}
		// e^d >= 1 + d + d*d/2 divides the weight.
		rest, d := uniform(x), (top-float64(logit))/temperature
		if rest*(1+d+d*d/2) > limit {
			continue
		}
		weight := exp((float64(logit) - top) / temperature)
		if weight == 0 {
			continue
		}
		if quotient := -ln(1-rest) / weight; quotient < least || quotient == least && int32(id) < chosen {
			chosen, least = int32(id), quotient
			most, limit = drawBounds(least)
		}
	}
	return chosen
}

// drawBounds returns the greatest random bits whose number may be at most a quotient, and a number a little above the quotient: lower bounds
// are rounded.
func drawBounds(quotient float64) (bits uint64, above float64) {
	bits = math.MaxUint64
	if quotient < 1 {
		bits = uint64(quotient*0x1p52)<<12 | 0xfff
	}
	return bits, quotient * (1 + 1e-9)
}

// Margin returns how much the logit of a token that Sample has just returned for logits may fall until Sample returns
// another one, and which. It is infinite for the only token that Sample can return.
func (s *Sampler) Margin(logits []float32 /* [vocab] */, id int32) (margin float64, second int32) {
	if s.hasAdjustments() {
		logits = s.adjustLogits(logits)
	}
	if s.params.Temperature > 0 {
		candidates := s.filter(logits)
		_, own := s.least(candidates, -1)
		second, next := s.least(candidates, id)
		return float64(s.params.Temperature) * math.Log(next/own), second
	}
	next := math.Inf(-1)
	for _, from := range [...]int32{0, id + 1} {
		rest := logits[from:]
		if from <= id {
			rest = logits[:id]
		}
		if at := quant.ArgMax(rest); at >= 0 && float64(rest[at]) > next {
			next, second = float64(rest[at]), from+int32(at)
		}
	}
	return float64(logits[id]) - next, second
}

const (
	// odd is 2^64 divided by the golden ratio. Like positionKey, which separates positions from seeds, it
	// must never change: the meaning of a seed depends on both.
	odd         = 0x9e3779b97f4a7c15
	positionKey = 0x6c6c6d72756e
)

// mix returns a number whose bits all depend on all bits of x, for each x another one: the finalizer of
// SplitMix64.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// uniform returns a number in (0, 1) from 64 random bits: one of 2^52 that lie in the middle of equal intervals.
func uniform(x uint64) float64 { return (float64(x>>12) + 0.5) * 0x1p-52 }
