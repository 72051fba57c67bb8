package sample

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// The reference implements the filters in the simplest way: it sorts all tokens, uses
// the functions of the standard library and computes normalized probabilities.

type token struct {
	id    int
	logit float64
	p     float64 // probability among the remaining tokens
}

func referenceFilter(p Params, history []int32, logits []float32) []token {
	left := make([]token, 0, len(logits))
	for id, l := range logits {
		if l := referenceAdjust(p, history, int32(id), float64(l)); !math.IsInf(l, -1) {
			left = append(left, token{id: id, logit: l})
		}
	}
	sortBy(left, func(t token) float64 { return -t.logit })
	if p.TopK > 0 {
		left = left[:min(p.TopK, len(left))]
	}
	normalize(left)
	if p.TypicalP > 0 && p.TypicalP < 1 {
		entropy := 0.0
		for _, t := range left {
			if t.p > 0 {
				entropy -= t.p * math.Log(t.p)
			}
		}
		sortBy(left, func(t token) float64 { return math.Abs(-math.Log(t.p) - entropy) })
		left = truncate(left, float64(p.TypicalP))
		sortBy(left, func(t token) float64 { return -t.logit })
		normalize(left)
	}
	if p.TopP > 0 && p.TopP < 1 {
		left = truncate(left, float64(p.TopP))
	}
	best := left[0].p
	return slices.DeleteFunc(left, func(t token) bool { return t.p < float64(p.MinP)*best })
}

// referenceDraw returns the token with the greatest sum of logit/temperature and Gumbel noise.
func referenceDraw(p Params, seed, position uint64, left []token) int32 {
	splitMix := func(x uint64) uint64 {
		x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9
		x = (x ^ (x >> 27)) * 0x94d049bb133111eb
		return x ^ (x >> 31)
	}
	key := splitMix(seed ^ splitMix(position+0x6c6c6d72756e))
	return int32(slices.MaxFunc(left, func(a, b token) int {
		var sums [2]float64
		for i, t := range []token{a, b} {
			bits := splitMix(key+uint64(t.id)*0x9e3779b97f4a7c15) >> 12
			exponential := -math.Log1p(-(float64(bits) + 0.5) / (1 << 52))
			sums[i] = t.logit/float64(p.Temperature) - math.Log(exponential)
		}
		return cmp.Compare(sums[0], sums[1])
	}).id)
}

func referenceAdjust(p Params, history []int32, id int32, l float64) float64 {
	last := p.RepeatLastN
	if last == 0 {
		last = 64
	}
	if last > 0 {
		history = history[max(0, len(history)-last):]
	}
	count := 0
	for _, seen := range history {
		if seen == id {
			count++
		}
	}
	if count > 0 {
		if p.RepeatPenalty > 0 && l > 0 {
			l /= float64(p.RepeatPenalty)
		} else if p.RepeatPenalty > 0 {
			l *= float64(p.RepeatPenalty)
		}
		l -= float64(p.PresencePenalty) + float64(count)*float64(p.FrequencyPenalty)
		l = float64(float32(l))
	}
	return float64(float32(l + float64(p.LogitBias[id])))
}

func sortBy(tokens []token, key func(token) float64) {
	slices.SortFunc(tokens, func(a, b token) int { return cmp.Or(cmp.Compare(key(a), key(b)), cmp.Compare(a.id, b.id)) })
}

func normalize(tokens []token) {
	top, total := math.Inf(-1), 0.0
	for _, t := range tokens {
		top = max(top, t.logit)
	}
	for _, t := range tokens {
		total += math.Exp(t.logit - top)
	}
	for i := range tokens {
		tokens[i].p = math.Exp(tokens[i].logit-top) / total
	}
}

func truncate(tokens []token, mass float64) []token {
	sum := 0.0
	for i, t := range tokens {
		if sum += t.p; sum >= mass {
			return tokens[:i+1]
		}
	}
	return tokens
}

// TestFilterEqualsReference compares every filter, all filters together and random
// combinations with the reference.
func TestFilterEqualsReference(t *testing.T) {
	cases := map[string]Params{
		"nothing":           {},
		"top-k":             {TopK: 40},
		"top-k of one":      {TopK: 1},
		"top-k of all":      {TopK: 500},
		"top-k beyond":      {TopK: 5000},
		"typical":           {TypicalP: 0.5},
		"typical tiny":      {TypicalP: 1e-6},
		"top-p":             {TopP: 0.9},
		"top-p tiny":        {TopP: 1e-6},
		"min-p":             {MinP: 0.05},
		"min-p of one":      {MinP: 1},
		"repeat":            {RepeatPenalty: 1.3, MinP: 0.02},
		"repeat below one":  {RepeatPenalty: 0.7, MinP: 0.02},
		"presence":          {PresencePenalty: 1.5, MinP: 0.02},
		"frequency":         {FrequencyPenalty: 0.7, MinP: 0.02},
		"negative presence": {PresencePenalty: -2, FrequencyPenalty: -0.5, MinP: 0.02},
		"last 3":            {PresencePenalty: 9, RepeatLastN: 3, TopK: 30},
		"unlimited history": {FrequencyPenalty: 3, RepeatLastN: -1, TopK: 30},
		"bias":              {LogitBias: map[int32]float32{0: 20, 499: 15, 7: minusInf, 8: -100}, TopK: 20},
		"all": {
			TopK: 100, TypicalP: 0.95, TopP: 0.9, MinP: 0.01, RepeatPenalty: 1.1, PresencePenalty: 0.5,
			FrequencyPenalty: 0.1, LogitBias: map[int32]float32{3: 5},
		},
	}
	rng := rand.New(rand.NewPCG(3, 3))
	for i := range 60 {
		cases[fmt.Sprintf("random %d", i)] = Params{
			TopK: rng.IntN(2) * rng.IntN(600), TopP: rng.Float32(), MinP: rng.Float32() / 10, TypicalP: rng.Float32(),
			RepeatPenalty: rng.Float32() * 2, PresencePenalty: rng.Float32(), RepeatLastN: rng.IntN(100) - 1,
		}
	}
	for name, p := range cases {
		t.Run(name, func(t *testing.T) {
			for round := range uint64(4) {
				compareWithReference(t, p, round)
			}
		})
	}
}

func compareWithReference(t *testing.T, p Params, round uint64) {
	t.Helper()
	const vocab = 500
	logits := randomLogits(round, vocab)
	rng := rand.New(rand.NewPCG(round, 2))
	if round%2 == 1 { // many equal logits and many masked tokens
		for i := range logits {
			logits[i] = float32(math.Round(float64(logits[i])))
			if rng.IntN(4) == 0 {
				logits[i] = minusInf
			}
		}
	}
	p.Temperature, p.Seed = 1, seed(1)
	s := newSampler(t, p, vocab)
	var history []int32
	for range rng.IntN(200) {
		id := int32(rng.IntN(40))
		history = append(history, id)
		s.Accept(id)
	}
	adjusted := logits
	if s.hasAdjustments() {
		adjusted = s.adjustLogits(logits)
	}
	var got, want []int
	for _, c := range s.filter(adjusted) {
		got = append(got, int(c.id))
	}
	for _, tok := range referenceFilter(p, history, logits) {
		want = append(want, tok.id)
	}
	slices.Sort(want)
	slices.Sort(got)
	require.Equal(t, want, got, "round %d", round)
}
