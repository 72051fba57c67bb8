package tiering

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// costRates are rates with which every term of a forecast counts.
var costRates = Rates{ReadGBs: 1, MemGBs: 20, PrefillGops: 300, AttendGBs: 6, AttendChunkGBs: 12}

// attending returns a shape whose tokens attend to all of KVBytesPerToken.
func attending(s Shape) Shape {
	s.Attended = []AttendedKV{{PerToken: s.KVBytesPerToken}}
	return s
}

// TestForecastReadsColdKV computes the time of a token by hand: a resident model whose context
// has one part of KV in memory and the rest on flash.
func TestForecastReadsColdKV(t *testing.T) {
	s := attending(denseShape())
	p, err := MakePlan(s, Need{Budget: 5200 << 20, Context: 65536, KVCold: true}, costRates)
	require.NoError(t, err)
	require.Positive(t, p.KVCold)
	require.True(t, p.Resident())
	weights := float64(s.TokenBytes()) / 20e9
	f := p.Predicted
	require.InEpsilon(t, 1/weights, f.DecodeStart, 1e-9)
	attend := func(depth int) float64 { return float64(depth) * float64(s.KVBytesPerToken) / 6e9 }
	depth := p.Context - 1
	cold := float64(depth-int(p.KVHot/s.KVBytesPerToken)) * float64(s.KVBytesPerToken) / 1e9
	require.InEpsilon(t, 1/together(weights+attend(depth), cold, 0), f.DecodeFull, 1e-9)
	require.Less(t, f.DecodeFull, f.DecodeHalf)
	require.Less(t, f.DecodeHalf, f.DecodeStart)
}

// TestForecastOfTheSmallestRing computes the time of a token by hand at the smallest budget, where no piece is read ahead, and
// checks that all of that time is gone in a ring of ringPieces.
func TestForecastOfTheSmallestRing(t *testing.T) {
	s := attending(denseShape())
	_, err := MakePlan(s, Need{Budget: 1, Context: 2048}, costRates)
	var least *MinimumError
	require.ErrorAs(t, err, &least)
	for _, more := range []int64{0, 256 << 20} {
		p, err := MakePlan(s, Need{Budget: least.Minimum + more, Context: 2048}, costRates)
		require.NoError(t, err)
		compute, read := float64(s.TokenBytes())/20e9, float64(p.StreamedPerToken)/1e9
		want := max(compute, read) + overlapCost*min(compute, read)
		if more == 0 {
			require.EqualValues(t, minPieces, p.Ring/p.Piece)
			want = compute + read + handoff*float64(p.StreamedPerToken)/float64(p.Piece)
		} else {
			require.GreaterOrEqual(t, p.Ring/p.Piece, int64(ringPieces))
		}
		require.InEpsilon(t, 1/want, p.Predicted.DecodeStart, 1e-9)
		require.InEpsilon(t, want, p.Predicted.Pass(1), 1e-9)
	}
}

// TestForecastOfWindows checks that layers with a window attend to it and read no KV before it.
func TestForecastOfWindows(t *testing.T) {
	s := denseShape()
	s.Attended = []AttendedKV{{Window: 1024, PerToken: s.KVBytesPerToken}}
	p, err := MakePlan(s, Need{Budget: 5200 << 20, Context: 65536, KVCold: true}, costRates)
	require.NoError(t, err)
	require.Positive(t, p.KVCold)
	require.Equal(t, p.Predicted.DecodeHalf, p.Predicted.DecodeFull, "both attend to the window, which is in memory")
}

// TestForecastOfASelection checks that decode with page selection attends to less.
func TestForecastOfASelection(t *testing.T) {
	s := attending(denseShape())
	need := Need{Budget: 5200 << 20, Context: 65536, KVCold: true}
	exact, err := MakePlan(s, need, costRates)
	require.NoError(t, err)
	s.Selection = Selection{Fraction: 0.1, Always: 1152, Least: 1024}
	selects, err := MakePlan(s, need, costRates)
	require.NoError(t, err)
	require.Equal(t, exact.Predicted.DecodeStart, selects.Predicted.DecodeStart)
	require.Greater(t, selects.Predicted.DecodeFull, 2*exact.Predicted.DecodeFull)
	require.Equal(t, exact.Predicted.FirstToken, selects.Predicted.FirstToken, "prompts attend exactly")
}

// TestForecastOfPickedPages computes the pages on flash that a token picks, and their time, by hand:
// the first page always, those of the last tokens only if they are not in memory, and of the others as
// many as chance gives. Each layer waits for a round of reads.
func TestForecastOfPickedPages(t *testing.T) {
	s := attending(denseShape())
	s.Selection = Selection{Fraction: 0.1, Always: 18 * 64, Least: 16 * 64}
	m := plannerOf(s, Need{Context: 8192, Budget: 1})
	at := func(hot int) *coster {
		p := &Plan{KVHot: int64(hot) * s.KVBytesPerToken, KVCold: 1}
		return &coster{m, p, Rates{ReadGBs: 1, RoundSeconds: 1e-3}}
	}
	const depth = 18*64 + 100*64
	for hot, pages := range map[int]float64{
		20 * 64: 1 + 16*(100-3)/100.0, // three of the 100 that are not always taken are in memory
		17 * 64: 1 + 16,
		7 * 64:  1 + 16 + 10,
		depth:   0,
	} {
		require.InDelta(t, pages*64, float64(at(hot).picked(depth))/float64(s.KVBytesPerToken), 1, "%d tokens in memory", hot)
	}
	c := at(17 * 64)
	transfer := pickedWaste * float64(17*64*s.KVBytesPerToken) / 1e9
	require.InEpsilon(t, transfer+1e-3*float64(len(s.Layers)), c.pickTime(depth), 1e-6)
	require.Zero(t, at(depth).pickTime(depth))
}

// TestForecastAddsUp checks that the time of an answer is the sum over its tokens, and that of a
// prompt the sum over its chunks.
func TestForecastAddsUp(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(4, seed))
		s := attending(randomShape(rng))
		s.OpsPerToken++
		n := Need{Context: 2000, Chunk: 16 + rng.IntN(500), KVCold: rng.IntN(2) == 0, Budget: 1}
		_, err := MakePlan(s, n, costRates)
		var refused *MinimumError
		require.ErrorAs(t, err, &refused)
		n.Budget = refused.Minimum + rng.Int64N(64*mib)
		n.Talk = Talk{Prompt: 1 + rng.IntN(1000), Answer: 1 + rng.IntN(1000)}
		p, err := MakePlan(s, n, costRates)
		require.NoError(t, err)
		m := planner{Shape: s, Need: n}
		m.Context = p.Context
		c := coster{&m, p, costRates}
		sum := 0.0
		for i := range n.Talk.Answer - 1 {
			sum += c.decode(n.Talk.Prompt + i)
		}
		require.InDelta(t, sum, p.Predicted.Total-p.Predicted.FirstToken, 0.03*sum, "seed %d", seed)
		n.Talk.Answer = 0
		n.Talk.Prompt += p.Chunk
		longer, err := MakePlan(s, n, costRates)
		require.NoError(t, err)
		require.Greater(t, longer.Predicted.FirstToken, p.Predicted.FirstToken)
		require.Equal(t, longer.Predicted.FirstToken, longer.Predicted.Total, "the prompt gives the first token")
	}
}

// TestForecastOfPasses compares the pass of one token with a token, and passes that compute more with the longer of
// computing and reading.
func TestForecastOfPasses(t *testing.T) {
	f := Forecast{Compute: 2, Read: 10}
	require.InDelta(t, 10.2, f.Pass(1), 1e-9)
	require.InDelta(t, 10.4, f.Pass(2), 1e-9)
	require.InDelta(t, 21, f.Pass(10), 1e-9)
}

// TestAbsentExperts: memory for the experts of one layer holds none that the next one looks for, and memory for all of them
// misses none.
func TestAbsentExperts(t *testing.T) {
	require.EqualValues(t, 1, AbsentExperts(4, 4, 80))
	require.InDelta(t, 0.5, AbsentExperts(42, 4, 80), 1e-9)
	require.Zero(t, AbsentExperts(80, 4, 80))
	s := denseShape()
	s.ExpertLayers, s.Experts, s.ExpertsUsed, s.ExpertBytes = 32, 128, 8, 2_654_208
	_, err := MakePlan(s, Need{Budget: 1, Context: 2048}, costRates)
	var least *MinimumError
	require.ErrorAs(t, err, &least)
	p, err := MakePlan(s, Need{Budget: least.Minimum, Context: 2048}, costRates)
	require.NoError(t, err)
	require.Equal(t, s.ExpertsUsed, p.ExpertSlots)
	dense := -p.PinnedBytes() + s.Head.Bytes
	for _, l := range s.Layers {
		dense += l.Bytes
	}
	require.Equal(t, dense+int64(s.ExpertLayers*s.ExpertsUsed)*s.ExpertBytes, p.StreamedPerToken)
}

// TestForecastOfAPrompt counts what the chunks of a prompt read: the end of the last layer for the last one alone, and the
// head once.
func TestForecastOfAPrompt(t *testing.T) {
	s := attending(denseShape())
	s.Pruned = s.Layers[0].Bytes / 2
	_, err := MakePlan(s, Need{Budget: 1, Context: 2048}, costRates)
	var least *MinimumError
	require.ErrorAs(t, err, &least)
	p, err := MakePlan(s, Need{Budget: least.Minimum, Context: 2048, Talk: Talk{Prompt: 3*chunkStep + 1, Answer: 1}}, costRates)
	require.NoError(t, err)
	require.Equal(t, chunkStep, p.Chunk)
	f := p.Predicted
	require.Equal(t, 4, f.PromptPasses)
	require.Equal(t, 4*p.StreamedPerChunk-3*s.Pruned+s.Head.Bytes-p.HeadPinned, f.PromptRead)
	s.Pruned = 0
	whole, err := MakePlan(s, Need{Budget: least.Minimum, Context: 2048, Talk: f.Talk}, costRates)
	require.NoError(t, err)
	saved := 3 * float64(s.Layers[0].Bytes/2)
	require.InEpsilon(t, saved/1e9+handoff*saved/float64(p.Piece), whole.Predicted.FirstToken-f.FirstToken, 1e-6)
}

// TestExpertsOfPrompts compares how many experts the tokens of a chunk are expected to use with what routers used: the even one's
// by the formula of chance, and those of OLMoE's shape with random weights and random tokens, whose 8 of 64 experts were counted
// in 15 layers, for each number of tokens.
func TestExpertsOfPrompts(t *testing.T) {
	for tokens, counted := range map[int]float64{16: 33.1, 32: 40.4, 64: 46.3, 128: 49.5, 256: 53} {
		require.InEpsilon(t, 64*(1-math.Pow(7.0/8, float64(tokens))), usedOf(64, 8, float64(tokens), 1, 1), 1e-9)
		reuse := ReuseOfPrompts(64, 8, float64(tokens), counted)
		require.InDelta(t, 7.2, reuse, 1, "%d tokens teach the same as others", tokens)
		require.InEpsilon(t, counted, usedOf(64, 8, float64(tokens), reuse, 1), 1e-6)
		require.InEpsilon(t, counted, usedOf(64, 8, float64(tokens), 7.2, 1), 0.1)
	}
	require.InDelta(t, 1, ReuseOfPrompts(64, 8, 16, 64), 1e-6, "no router uses more than the even one")
	require.InDelta(t, 9, ReuseOfPrompts(64, 8, 16, 1), 1e-6)
	require.InEpsilon(t, 8, usedOf(64, 8, 1, 3, 1), 1e-9, "one token uses its experts")
	require.InEpsilon(t, 8*MissedUses(0.7, 3), usedOf(64, 8, 1, 3, 0.7), 1e-9, "as an answer misses them")
}

// TestMissesOfAnswers compares the uses of experts that find none in memory with what was counted, in answers of 24 and 48 tokens of
// the same model with 145, 169 and 426 of 1024 experts in memory.
func TestMissesOfAnswers(t *testing.T) {
	for slots, counted := range map[int]float64{145: 0.511, 169: 0.445, 426: 0.147} {
		absent := AbsentExperts(slots, 8, 1024)
		reuse := ReuseOfAnswers(absent, counted)
		require.InDelta(t, 5.7, reuse, 0.5, "%d in memory teach the same as others", slots)
		require.InEpsilon(t, counted, MissedUses(absent, reuse), 1e-6)
		require.InDelta(t, absent, MissedUses(absent, 1), 1e-9, "an even router")
	}
	require.InDelta(t, MostReuse, ReuseOfAnswers(0.5, 0), 1e-6)
	require.InDelta(t, 1, ReuseOfAnswers(0.5, 0.6), 1e-6)
}

// TestReuseOfUnknownRouters: a plan takes a router that nothing is known of for an even one. What prompts teach serves answers too, but not
// the other way around.
func TestReuseOfUnknownRouters(t *testing.T) {
	for _, c := range []struct{ answers, prompts, wantAnswers, wantPrompts float64 }{
		{0, 0, 1, 1}, {0, 3, 3, 3}, {3, 0, 3, 1}, {2, 3, 2, 3},
	} {
		r := Rates{ExpertReuse: c.answers, PromptReuse: c.prompts}
		require.InDelta(t, c.wantAnswers, r.answers(), 0)
		require.InDelta(t, c.wantPrompts, r.prompts(), 0)
	}
}

// TestForecastOfAChunkOfExperts computes the time of a prompt's only chunk by hand: the dense part computes while weights are streamed,
// and experts compute while others are read, but for the first of each layer.
func TestForecastOfAChunkOfExperts(t *testing.T) {
	s := expertShape()
	s.Elements = 0
	p, err := MakePlan(s, Need{Budget: 4 << 30, Context: 4096, Talk: Talk{Prompt: 200}}, costRates)
	require.NoError(t, err)
	require.GreaterOrEqual(t, p.Chunk, 200)
	require.Zero(t, p.Ring, "the dense part is in memory")
	used := usedOf(s.Experts, s.ExpertsUsed, 200, 1, 1)
	read := 32 * used * float64(s.ExpertBytes) / 1e9
	ops := 200 * float64(s.OpsPerToken) / 300e9
	part := float64(32*8*s.ExpertBytes) / float64(s.TokenBytes()-s.Head.Bytes)
	computed := max(ops*part, read/20)
	require.Greater(t, read, computed)
	want := ops*(1-part) + read + (overlapCost+4/used*(1-overlapCost))*computed
	require.InEpsilon(t, want, p.Predicted.FirstToken, 1e-3)
	require.Less(t, p.Predicted.FirstToken, ops+read, "reading runs beside computing")
}

// TestForecastOfReadWork: reads that take processor time, as copies from the page cache do, take it from computing, but not where nothing
// computes beside them.
func TestForecastOfReadWork(t *testing.T) {
	s := attending(denseShape())
	_, err := MakePlan(s, Need{Budget: 1, Context: 2048}, costRates)
	var least *MinimumError
	require.ErrorAs(t, err, &least)
	fast := costRates
	fast.ReadGBs = 16
	working := fast
	working.ReadWorkGBs = 16 // all cores are busy while they read
	for more, alone := range map[int64]float64{0: 1, 256 << 20: 0} {
		n := Need{Budget: least.Minimum + more, Context: 2048, Talk: Talk{Prompt: 16}}
		idle, err := MakePlan(s, n, fast)
		require.NoError(t, err)
		busy, err := MakePlan(s, n, working)
		require.NoError(t, err)
		require.Equal(t, idle.By, busy.By, "rates do not divide the memory")
		took, computed := float64(busy.StreamedPerToken)/16e9, float64(s.TokenBytes())/20e9+(1-alone)*float64(busy.StreamedPerToken)/16e9
		read := took + alone*handoff*float64(busy.StreamedPerToken)/float64(busy.Piece)
		require.InEpsilon(t, max(computed, read)+(overlapCost+alone*(1-overlapCost))*min(computed, read), 1/busy.PredictedDecode, 1e-9)
		require.LessOrEqual(t, busy.PredictedDecode, idle.PredictedDecode)
		require.InEpsilon(t, 1/busy.PredictedDecode, busy.Predicted.Pass(1), 1e-9)
		require.GreaterOrEqual(t, busy.Predicted.FirstToken, idle.Predicted.FirstToken)
	}
}

// TestForecastOfShortMatmuls computes by hand how long threads wait for the one whose core reads: not at all where a matmul takes as long
// as a read, half of the read's time where it takes half as long, and for nearly all of it where it is short.
func TestForecastOfShortMatmuls(t *testing.T) {
	s := attending(denseShape())
	r := costRates
	r.ReadGBs, r.ReadCoreGBs, r.ReadWorkGBs = 100, 4, 16 // four cores
	_, err := MakePlan(s, Need{Budget: 1, Context: 2048}, r)
	var least *MinimumError
	require.ErrorAs(t, err, &least)
	n := Need{Budget: least.Minimum + 256<<20, Context: 2048}
	p, err := MakePlan(s, n, r)
	require.NoError(t, err)
	computed, streamed, read := float64(s.TokenBytes())/20e9, float64(p.StreamedPerToken)/1e9, float64(p.Piece)/4e9
	alike := int(computed / read)
	for matmuls, waiting := range map[int]float64{0: 0, alike / 2: 0, alike: 0, 2 * alike: 0.5, 100 * alike: 0.99} {
		s.Matmuls = matmuls
		p, err := MakePlan(s, n, r)
		require.NoError(t, err)
		delay := streamed/16 + waiting*(streamed/4-streamed/16)
		require.InEpsilon(t, computed+delay+overlapCost*streamed/100, 1/p.PredictedDecode, 0.005, "%d matmuls", matmuls)
	}
}
