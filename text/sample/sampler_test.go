package sample

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGreedy(t *testing.T) {
	nan, plusInf := float32(math.NaN()), float32(math.Inf(1))
	for name, c := range map[string]struct {
		params Params
		logits []float32
		want   int32
		err    error
	}{
		"greatest":             {Params{}, []float32{1, 3, 2}, 1, nil},
		"lowest id among ties": {Params{}, []float32{1, 2, 2, 2}, 1, nil},
		"all negative":         {Params{}, []float32{-3e38, -2e38}, 1, nil},
		"masked":               {Params{}, []float32{minusInf, -5, minusInf}, 1, nil},
		"bias wins":            {Params{LogitBias: map[int32]float32{0: 5}}, []float32{1, 3}, 0, nil},
		"bias forbids":         {Params{LogitBias: map[int32]float32{1: minusInf}}, []float32{1, 3}, 0, nil},
		"bias keeps the mask":  {Params{LogitBias: map[int32]float32{0: 1e30}}, []float32{minusInf, 3}, 1, nil},
		"huge bias is finite":  {Params{LogitBias: map[int32]float32{0: 3e38}}, []float32{3e38, 3}, 0, nil},
		"filters are skipped":  {Params{TopK: 1, TypicalP: 0.01, TopP: 0.5}, []float32{1, 3}, 1, nil},
		"NaN":                  {Params{}, []float32{1, nan, 2}, 0, ErrNonFinite},
		"+Inf":                 {Params{}, []float32{1, plusInf}, 0, ErrNonFinite},
		"NaN when sampling":    {Params{Temperature: 1}, []float32{nan, 1}, 0, ErrNonFinite},
		"all masked":           {Params{}, []float32{minusInf, minusInf}, 0, ErrAllMasked},
		"all forbidden":        {Params{Temperature: 1, LogitBias: map[int32]float32{0: minusInf}}, []float32{1}, 0, ErrAllMasked},
		"empty":                {Params{}, []float32{}, 0, ErrAllMasked},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSampler(t, c.params, len(c.logits))
			got, err := s.Sample(c.logits)
			require.ErrorIs(t, err, c.err)
			require.Equal(t, c.want, got)
		})
	}
	_, err := newSampler(t, Params{}, 3).Sample(make([]float32, 4))
	require.ErrorContains(t, err, "4 logits for a vocabulary of 3 tokens")
}

// TestGoldenSequences compares the sampler with recorded ids and with the reference.
// The recorded ids must never change: a seed has to select the same tokens in every
// version.
func TestGoldenSequences(t *testing.T) {
	logits := make([]float32, 1000)
	for i := range logits {
		logits[i] = float32((i*7919)%1000) / 100 // distinct multiples of one hundredth
	}
	for name, c := range map[string]struct {
		params Params
		want   []int32
	}{
		"plain":    {Params{Temperature: 1, Seed: seed(1)}, []int32{224, 112, 423, 705, 262, 99, 779, 474, 816, 890}},
		"other":    {Params{Temperature: 1, Seed: seed(2)}, []int32{13, 568, 693, 3, 360, 38, 642, 383, 889, 605}},
		"default":  {Params{Temperature: 0.8, TopK: 40, TopP: 0.95, MinP: 0.05, Seed: seed(42)}, []int32{309, 494, 963, 741, 593, 383, 494, 198, 630, 284}},
		"typical":  {Params{Temperature: 1.5, TypicalP: 0.4, Seed: seed(42)}, []int32{310, 470, 940, 717, 557, 372, 471, 149, 618, 260}},
		"penalize": {Params{Temperature: 0.3, RepeatPenalty: 1.2, FrequencyPenalty: 0.5, TopP: 0.5, Seed: seed(0)}, []int32{704, 889, 87, 13, 963, 531, 235, 149, 605, 852}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSampler(t, c.params, len(logits))
			require.Equal(t, *c.params.Seed, s.Seed())
			var got []int32
			random := rand.NewPCG(*c.params.Seed, 0x6c6c6d72756e)
			for range 10 {
				want := referenceDraw(c.params, random, referenceFilter(c.params, got, logits))
				id, err := s.Sample(logits)
				require.NoError(t, err)
				require.Equal(t, want, id)
				s.Accept(id)
				got = append(got, id)
			}
			require.Equal(t, c.want, got)
		})
	}
}

func TestSeedReturnsRandomSeed(t *testing.T) {
	logits := randomLogits(1, 300)
	draws := func(p Params) (ids []int32, seed uint64) {
		s := newSampler(t, p, len(logits))
		for range 20 {
			id, err := s.Sample(logits)
			require.NoError(t, err)
			ids = append(ids, id)
		}
		return ids, s.Seed()
	}
	first, chosen := draws(Params{Temperature: 2})
	again, _ := draws(Params{Temperature: 2, Seed: &chosen})
	require.Equal(t, first, again)
	_, other := draws(Params{Temperature: 2})
	require.NotEqual(t, chosen, other)
}

// TestDistribution checks that the draws follow the distribution: Pearson's chi-squared
// statistic over all tokens stays below its 99.9 % quantile.
func TestDistribution(t *testing.T) {
	logits := []float32{0, 1, 2, 3, minusInf, -1, 2.5, 0.5}
	const draws = 100_000
	for _, temperature := range []float32{0.5, 1, 3} {
		s := newSampler(t, Params{Temperature: temperature, Seed: seed(9)}, len(logits))
		count := make([]float64, len(logits))
		for range draws {
			id, err := s.Sample(logits)
			require.NoError(t, err)
			count[id]++
		}
		weights, total := make([]float64, len(logits)), 0.0
		for i, l := range logits {
			weights[i] = math.Exp(float64(l) / float64(temperature))
			total += weights[i]
		}
		chi := 0.0
		for i, w := range weights {
			if w == 0 {
				require.Zero(t, count[i], "a masked token was drawn")
				continue
			}
			expected := draws * w / total
			chi += (count[i] - expected) * (count[i] - expected) / expected
		}
		require.Less(t, chi, 22.46, "temperature %v, 6 degrees of freedom", temperature)
	}
}

// TestLowTemperatureAfterTypical checks the weights after typical sampling has removed
// the most likely token: a low temperature must not underflow all remaining weights.
func TestLowTemperatureAfterTypical(t *testing.T) {
	candidates := []candidate{{logit: -100, id: 1}, {logit: -99, id: 2}, {logit: -101, id: 3}}
	s := newSampler(t, Params{Temperature: 0.01, Seed: seed(1)}, 4)
	for range 20 {
		require.EqualValues(t, 2, s.draw(candidates))
	}
}

func TestSampleDoesNotModifyLogits(t *testing.T) {
	logits := randomLogits(1, 100)
	before := slices.Clone(logits)
	s := newSampler(t, Params{Temperature: 1, TopP: 0.9, PresencePenalty: 1, LogitBias: map[int32]float32{1: 1}}, len(logits))
	s.Accept(3)
	_, err := s.Sample(logits)
	require.NoError(t, err)
	require.Equal(t, before, logits)
}

func TestAcceptIgnoresInvalidIDs(t *testing.T) {
	s := newSampler(t, Params{PresencePenalty: 1}, 10)
	for _, id := range []int32{-1, 10, math.MaxInt32, math.MinInt32} {
		s.Accept(id)
	}
	require.Empty(t, s.history.seen)
}

func TestSampleDoesNotAllocate(t *testing.T) {
	logits := randomLogits(5, 2000)
	for name, p := range map[string]Params{
		"greedy":  {},
		"default": {Temperature: 0.8, TopK: 40, TopP: 0.95, MinP: 0.05},
		"all": {
			Temperature: 1, TopP: 0.9, TypicalP: 0.9, MinP: 0.01, RepeatPenalty: 1.1, RepeatLastN: 32,
			LogitBias: map[int32]float32{5: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSampler(t, p, len(logits))
			next := int32(0)
			step := func() {
				next = (next + 7) % 2000
				s.Accept(next)
				if _, err := s.Sample(logits); err != nil {
					t.Fatal(err)
				}
			}
			for range 100 {
				step()
			}
			require.Zero(t, testing.AllocsPerRun(100, step))
		})
	}
}

func TestExp(t *testing.T) {
	require.Equal(t, 1.0, exp(0))
	require.Zero(t, exp(-50.001))
	require.Zero(t, exp(math.Inf(-1)))
	for x := 0.0; x >= negligible; x -= 0.00137 {
		require.InEpsilon(t, math.Exp(x), exp(x), 1e-15, "x=%v", x)
	}
	require.Equal(t, uint64(0x3fd78b56362cef38), math.Float64bits(exp(-1)), "the bits must be equal on every machine")
}

func BenchmarkSample(b *testing.B) {
	logits := randomLogits(5, 150_000)
	for name, p := range map[string]Params{
		"greedy":      {},
		"default":     {Temperature: 0.8, TopK: 40, TopP: 0.95, MinP: 0.05},
		"penalties":   {Temperature: 0.8, TopK: 40, TopP: 0.95, RepeatPenalty: 1.1},
		"top-p alone": {Temperature: 1, TopP: 0.95},
		"temperature": {Temperature: 1},
	} {
		b.Run(name, func(b *testing.B) {
			s := newSampler(b, p, len(logits))
			s.Accept(1)
			for b.Loop() {
				if _, err := s.Sample(logits); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
