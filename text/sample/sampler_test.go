package sample

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
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
		"plain":    {Params{Temperature: 1, Seed: seed(1)}, []int32{757, 374, 211, 557, 297, 136, 161, 926, 261, 705}},
		"other":    {Params{Temperature: 1, Seed: seed(2)}, []int32{642, 926, 816, 544, 273, 655, 605, 322, 346, 1}},
		"default":  {Params{Temperature: 0.8, TopK: 40, TopP: 0.95, MinP: 0.05, Seed: seed(42)}, []int32{235, 210, 25, 778, 494, 889, 173, 951, 988, 309}},
		"typical":  {Params{Temperature: 1.5, TypicalP: 0.4, Seed: seed(42)}, []int32{470, 298, 865, 13, 902, 297, 26, 186, 470, 433}},
		"penalize": {Params{Temperature: 0.3, RepeatPenalty: 1.2, FrequencyPenalty: 0.5, TopP: 0.5, Seed: seed(0)}, []int32{321, 840, 889, 235, 136, 531, 272, 62, 420, 704}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSampler(t, c.params, len(logits))
			require.Equal(t, *c.params.Seed, s.Seed())
			var got []int32
			for position := range uint64(10) {
				want := referenceDraw(c.params, *c.params.Seed, position, referenceFilter(c.params, got, logits))
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
			s.Accept(id)
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

// TestDistribution checks that the draws follow the distribution of the retained tokens, at successive positions of
// one seed and at one position of successive seeds: Pearson's chi-squared statistic over all tokens stays below
// its 99.9 % quantile.
func TestDistribution(t *testing.T) {
	logits := []float32{0, 1, 2, 3, minusInf, -1, 2.5, 0.5}
	const draws = 100_000
	quantiles := []float64{0, 10.83, 13.82, 16.27, 18.47, 20.52, 22.46} // by degrees of freedom
	for _, p := range []Params{
		{Temperature: 0.5},
		{Temperature: 1},
		{Temperature: 3},
		{Temperature: 0.8, TopK: 3},
		{Temperature: 1.5, TopP: 0.9},
		{Temperature: 2, MinP: 0.1},
		{Temperature: 1, TypicalP: 0.8, LogitBias: map[int32]float32{0: 2}},
	} {
		left := referenceFilter(p, nil, logits)
		total := 0.0
		for i := range left {
			left[i].p = math.Exp(left[i].logit / float64(p.Temperature))
			total += left[i].p
		}
		for name, draw := range map[string]func(n uint64) int32{
			"positions": drawPositions(t, p, logits), "seeds": drawSeeds(t, p, logits),
		} {
			count := make([]float64, len(logits))
			for n := range uint64(draws) {
				count[draw(n)]++
			}
			chi, seen := 0.0, 0.0
			for _, token := range left {
				expected := draws * token.p / total
				chi += (count[token.id] - expected) * (count[token.id] - expected) / expected
				seen += count[token.id]
			}
			require.Equal(t, float64(draws), seen, "a token was drawn that a filter removes")
			require.Less(t, chi, quantiles[len(left)-1], "%+v, %s, %d degrees of freedom", p, name, len(left)-1)
		}
	}
}

// drawPositions returns draws at successive positions of one seed.
func drawPositions(t *testing.T, p Params, logits []float32) func(uint64) int32 {
	p.Seed = seed(9)
	s := newSampler(t, p, len(logits))
	return func(uint64) int32 {
		id, err := s.Sample(logits)
		require.NoError(t, err)
		s.Accept(id)
		return id
	}
}

// drawSeeds returns draws at one position of successive seeds.
func drawSeeds(t *testing.T, p Params, logits []float32) func(uint64) int32 {
	s := newSampler(t, p, len(logits))
	return func(n uint64) int32 {
		s.seed = n
		id, err := s.Sample(logits)
		require.NoError(t, err)
		return id
	}
}

// TestSuccessiveDrawsAreIndependent counts pairs of draws at successive positions and at successive seeds.
func TestSuccessiveDrawsAreIndependent(t *testing.T) {
	logits := make([]float32, 8)
	for name, draw := range map[string]func(uint64) int32{
		"positions": drawPositions(t, Params{Temperature: 1}, logits), "seeds": drawSeeds(t, Params{Temperature: 1}, logits),
	} {
		const pairs = 64_000
		var count [64]float64
		before := draw(0)
		for n := range uint64(pairs) {
			id := draw(n + 1)
			count[before*8+id]++
			before = id
		}
		chi := 0.0
		for _, n := range count {
			chi += (n - pairs/64) * (n - pairs/64) / (pairs / 64)
		}
		require.Less(t, chi, 103.5, "%s: 63 degrees of freedom", name)
	}
}

// TestSimilarLogitsDrawTheSameToken draws from the logits of a model and of one that guesses for it, which differ a
// little: with the same random numbers they agree more often than most likely tokens or independent draws do.
func TestSimilarLogitsDrawTheSameToken(t *testing.T) {
	const vocab, draws = 200, 2000
	agree, likely := 0, 0
	for n := range uint64(draws) {
		logits := randomLogits(n, vocab)
		rng := rand.New(rand.NewPCG(n, 7))
		similar := slices.Clone(logits)
		for i := range similar {
			similar[i] += float32(rng.NormFloat64()) / 20
		}
		s := newSampler(t, Params{Temperature: 0.8, Seed: seed(n)}, vocab)
		id, err := s.Sample(logits)
		require.NoError(t, err)
		guess, err := s.Sample(similar)
		require.NoError(t, err)
		best, err := argmax(similar)
		require.NoError(t, err)
		if id == guess {
			agree++
		}
		if id == best {
			likely++
		}
	}
	require.Greater(t, agree, draws*95/100)
	require.Less(t, likely, draws*80/100)
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
			require.Zero(t, testutil.AllocsPerRun(100, 0, step))
		})
	}
}

func TestLnOfUniform(t *testing.T) {
	for _, x := range []float64{0x1p-53, 0x3p-53, 1e-9, 0.1, 0.5, math.Sqrt2 / 2, 0.7072, 0.9, 1 - 1e-9, 1 - 0x1p-52, 1 - 0x1p-53} {
		require.InEpsilon(t, math.Log(x), ln(x), 1e-15, "x=%v", x)
	}
	for x := 0.00037; x < 1; x += 0.00037 {
		require.InEpsilon(t, math.Log(x), ln(x), 1e-15, "x=%v", x)
	}
	require.Equal(t, uint64(0x3ff34378fcbda721), math.Float64bits(-ln(0.3)), "the bits must be equal on every machine")
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

// TestReturn continues after a branch, whose tokens overflow the history, as if there had been none.
func TestReturn(t *testing.T) {
	logits := randomLogits(3, 50)
	for _, last := range []int{0, 3, -1} {
		p := Params{Temperature: 2, FrequencyPenalty: 0.5, RepeatLastN: last, Seed: seed(4)}
		var texts [2][]int32
		for i := range texts {
			s := newSampler(t, p, len(logits))
			for step := range 100 {
				if i == 1 && step%3 == 0 {
					s.Branch()
					for range step % 10 {
						id, err := s.Sample(logits)
						require.NoError(t, err)
						s.Accept(id)
					}
					s.Return()
				}
				id, err := s.Sample(logits)
				require.NoError(t, err)
				s.Accept(id)
				texts[i] = append(texts[i], id)
			}
		}
		require.Equal(t, texts[0], texts[1], "history of %d", last)
	}
}

var minusInf = float32(math.Inf(-1))

func seed(n uint64) *uint64 { return &n }

func newSampler(t testing.TB, p Params, vocab int) *Sampler {
	s, err := New(p, vocab)
	require.NoError(t, err)
	return s
}

// randomLogits returns logits that resemble those of a model: normally distributed with
// a few outliers.
func randomLogits(seed uint64, vocab int) []float32 {
	rng := rand.New(rand.NewPCG(seed, 1))
	logits := make([]float32, vocab)
	for i := range logits {
		logits[i] = float32(rng.NormFloat64() * 2)
	}
	for range min(20, vocab) {
		logits[rng.IntN(vocab)] += 8
	}
	return logits
}

// TestDrawingAmongAllEqualsDrawingFromAList compares draws without filters with draws among all tokens in a list: of even and
// steep distributions, with forbidden tokens, and with the likeliest one first and last.
func TestDrawingAmongAllEqualsDrawingFromAList(t *testing.T) {
	const vocab = 3000
	even, steep := make([]float32, vocab), make([]float32, vocab)
	for i := range steep {
		steep[i] = -float32(i) / 40
	}
	falling := slices.Clone(steep)
	slices.Reverse(steep)
	forbidden := randomLogits(8, vocab)
	for i := range forbidden {
		if i%7 != 0 {
			forbidden[i] = float32(math.Inf(-1))
		}
	}
	for name, logits := range map[string][]float32{
		"random": randomLogits(7, vocab), "even": even, "rising": steep, "falling": falling, "forbidden": forbidden,
	} {
		for _, temperature := range []float32{0.01, 0.7, 1, 3, 1e6} {
			s := newSampler(t, Params{Temperature: temperature, Seed: seed(9)}, vocab)
			drawn := map[int32]bool{}
			for range 300 {
				got, err := s.Sample(logits)
				require.NoError(t, err)
				require.Equal(t, s.draw(s.filter(logits)), got, "%s at %v", name, temperature)
				drawn[got] = true
				s.Accept(got)
			}
			require.True(t, temperature < 1 || len(drawn) > 1, "%s at %v", name, temperature)
		}
	}
}

// TestMarginIsWhatALogitMayFall lowers the logit of the returned token by nearly its margin and by a little more.
func TestMarginIsWhatALogitMayFall(t *testing.T) {
	for name, p := range map[string]Params{
		"greedy":  {},
		"drawn":   {Temperature: 0.8, Seed: seed(4)},
		"adapted": {Temperature: 1.3, Seed: seed(5), RepeatPenalty: 1.1, LogitBias: map[int32]float32{3: 2, 9: -1}},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range uint64(50) {
				logits := randomLogits(i, 300)
				s := newSampler(t, p, len(logits))
				s.Accept(7)
				id, err := s.Sample(logits)
				require.NoError(t, err)
				margin, second := s.Margin(logits, id)
				require.Positive(t, margin)
				if id == 7 && p.RepeatPenalty != 0 {
					continue // the penalty scales the logit
				}
				was := logits[id]
				for part, same := range map[float32]bool{0.99: true, 1.01: false} {
					logits[id] = was - part*float32(margin) - 1e-4*(2*part-2)
					got, err := s.Sample(logits)
					require.NoError(t, err)
					require.Equal(t, same, got == id, "margin %g, part %g", margin, part)
					require.True(t, same || got == second)
				}
			}
		})
	}
	for _, p := range []Params{{}, {Temperature: 1}} {
		margin, _ := newSampler(t, p, 2).Margin([]float32{1, minusInf}, 0)
		require.Equal(t, math.Inf(1), margin)
	}
}

// TestAllow checks that only allowed tokens are drawn, greedily and at random, before the filters choose among them.
func TestAllow(t *testing.T) {
	const vocab = 200
	logits := make([]float32, vocab)
	for i := range logits {
		logits[i] = float32(i) / 10
	}
	allowed := make([]uint64, (vocab+63)/64)
	want := []int32{3, 64, 130}
	for _, id := range want {
		allowed[id/64] |= 1 << (id % 64)
	}
	seed := uint64(1)
	for _, p := range []Params{{}, {Temperature: 5, TopK: 2, Seed: &seed}, {Temperature: 5, RepeatPenalty: 1.5, Seed: &seed}} {
		s, err := New(p, vocab)
		require.NoError(t, err)
		s.Allow(allowed)
		seen := map[int32]bool{}
		for range 100 {
			id, err := s.Sample(logits)
			require.NoError(t, err)
			require.Contains(t, want, id)
			seen[id] = true
			s.Accept(id)
		}
		switch {
		case p.TopK > 0:
			require.Len(t, seen, p.TopK, "of the allowed tokens")
		case p.Temperature > 0:
			require.Len(t, seen, len(want))
		default:
			require.Equal(t, map[int32]bool{130: true}, seen)
		}
		s.Allow(nil)
		id, err := s.Sample(logits)
		require.NoError(t, err)
		require.GreaterOrEqual(t, id, int32(0))
		s.Allow(make([]uint64, len(allowed)))
		_, err = s.Sample(logits)
		require.ErrorIs(t, err, ErrAllMasked)
	}
}
