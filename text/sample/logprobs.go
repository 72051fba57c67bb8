package sample

import (
	"math"
	"slices"
)

// TokenLogProb is a token and the natural logarithm of its probability.
type TokenLogProb struct {
	ID      int32
	LogProb float32
}

// LogProb returns the logarithm of the probability that the model gives a token: without penalties,
// bias, filters and temperature. logits are finite, or -Inf for forbidden tokens.
func LogProb(logits []float32 /* [vocab] */, id int32) float32 {
	return float32(float64(logits[id]) - logSum(logits))
}

// TopLogProbs appends the k most likely tokens, the most likely first. It omits forbidden tokens. Of
// equally likely tokens, the lower id comes first.
func TopLogProbs(top []TokenLogProb, logits []float32 /* [vocab] */, k int) []TokenLogProb {
	s := Sampler{params: Params{TopK: k}}
	best := s.topK(logits)
	slices.SortFunc(best, func(a, b candidate) int {
		if worse(&a, &b) {
			return 1
		}
		return -1
	})
	sum := logSum(logits)
	for _, c := range best {
		top = append(top, TokenLogProb{c.id, float32(float64(c.logit) - sum)})
	}
	return top
}

// logSum returns ln(sum of e^logit). The sum runs in the order of ids.
func logSum(logits []float32 /* [vocab] */) float64 {
	top := math.Inf(-1)
	for _, l := range logits {
		top = max(top, float64(l))
	}
	sum := 0.0
	for _, l := range logits {
		sum += exp(float64(l) - top)
	}
	return top + ln(sum)
}

// lnTerms is the number of terms of the series of ln. The first omitted term is below 2^-57.
const lnTerms = 11

// ln returns the natural logarithm of a positive number. Like exp, it is identical on every machine.
func ln(x float64) float64 {
	m, e := math.Frexp(x)
	if m < math.Sqrt2/2 {
		m, e = 2*m, e-1
	}
	// ln m = 2 artanh s, with |s| <= 0.1716
	s := (m - 1) / (m + 1)
	square, series := float64(s*s), 0.0
	for k := 2*lnTerms - 1; k > 0; k -= 2 {
		series = float64(series*square) + 1/float64(k)
	}
	return float64(float64(e)*ln2Hi) + (float64(float64(e)*ln2Lo) + float64(2*s*series))
}
