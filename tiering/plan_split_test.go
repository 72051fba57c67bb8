package tiering

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSplitPrefersDenseWeights checks that KV gets the minimum while dense weights are streamed:
// every token reads a byte of weights, but only deep ones a byte of KV.
func TestSplitPrefersDenseWeights(t *testing.T) {
	s := attending(denseShape())
	p := makePlan(t, s, Need{Budget: 2 << 30, Context: 32768, KVCold: true})
	require.False(t, p.Resident())
	minimum := int64(DefaultChunk+kvExtraPages*s.KVPageTokens) * s.KVBytesPerToken
	require.Less(t, p.KVHot, 2*minimum)
	require.Greater(t, p.Total(), p.Budget-4*mib)
}

// TestSplitIsGoodAtEveryDepth checks that no token of a conversation with streamed weights is much
// slower than with the division that is the best one for its depth. It is if KV reserves a ring
// that it does not use.
func TestSplitIsGoodAtEveryDepth(t *testing.T) {
	s := attending(smallShape())
	s.KVInStream, s.KVUnit = true, int64(s.KVPageTokens)*s.KVBytesPerToken/int64(len(s.Layers))
	for budget := int64(200) << 20; budget < 400<<20; budget += 50 << 20 {
		n := Need{Budget: budget, Context: 8192, KVCold: true, Code: 10 << 20, Heap: 34 << 20}
		p := makePlan(t, s, n)
		if p.Resident() {
			continue
		}
		require.Less(t, p.By[KVFrames], int64(mib))
		m := plannerOf(s, n)
		for _, depth := range []int{0, p.Context / 4, p.Context / 2, p.Context - 1} {
			best := math.Inf(1)
			for tokens := m.leastHot(); tokens <= p.Context; tokens += 128 {
				if other, err := m.attempt(m.kv(tokens), rates); err == nil {
					c := coster{m, other, splitRates}
					best = min(best, c.decode(depth))
				}
			}
			c := coster{m, p, splitRates}
			require.LessOrEqual(t, c.decode(depth), 1.05*best, "%d MiB, depth %d", budget>>20, depth)
		}
	}
}

// TestSplitPrefersKVToExperts checks that KV of a long conversation gets memory before experts:
// a token reads all of the KV, and few of the experts.
func TestSplitPrefersKVToExperts(t *testing.T) {
	s := attending(expertShape())
	p := makePlan(t, s, Need{Budget: 8 << 30, Context: 65536, KVCold: true})
	require.Less(t, p.ExpertSlots, s.ExpertLayers*s.Experts)
	short := makePlan(t, s, Need{Budget: 8 << 30, Context: 4096, KVCold: true})
	require.Greater(t, p.KVHot, int64(p.Context/2)*s.KVBytesPerToken)
	require.Less(t, p.ExpertSlots, short.ExpertSlots)
}

// TestSplitGivesTheRestToKV checks that KV gets all the memory that resident weights leave.
func TestSplitGivesTheRestToKV(t *testing.T) {
	p := makePlan(t, attending(denseShape()), Need{Budget: 5200 << 20, Context: 65536, KVCold: true})
	require.True(t, p.Resident())
	require.Positive(t, p.KVCold)
	require.Greater(t, p.Total(), p.Budget-64*mib)
}

// TestSplitProperties checks that no other division which leaves the ring and the chunks of the
// general rules is much faster than the one that the plan takes; that plans stay within their
// budget; and that MakePlan refuses exactly the budgets below the stated minimum.
func TestSplitProperties(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(3, seed))
		s := attending(randomShape(rng))
		s.KVUnit = int64(max(1, s.KVPageTokens)) * s.KVBytesPerToken / int64(len(s.Layers))
		s.KVInStream = seed%2 == 0
		n := Need{Context: 1 + rng.IntN(20_000), KVCold: true, Code: rng.Int64N(mib), Heap: rng.Int64N(mib), Budget: 1}
		_, err := MakePlan(s, n, rates)
		var refused *MinimumError
		require.ErrorAs(t, err, &refused, "seed %d", seed)
		n.Budget = refused.Minimum - 1
		_, err = MakePlan(s, n, rates)
		require.Error(t, err, "seed %d: below the minimum", seed)
		n.Budget = refused.Minimum
		for range 6 {
			p := makePlan(t, s, n)
			require.LessOrEqual(t, p.Total(), n.Budget, "seed %d", seed)
			checkDivisions(t, rng, seed, p, plannerOf(s, n))
			n.Budget += rng.Int64N(4096 << rng.IntN(15))
		}
	}
}

// plannerOf returns the planner that MakePlan uses, for a need without a chunk and a piece.
func plannerOf(s Shape, n Need) *planner {
	m := &planner{Shape: s, Need: n, pinOrder: new([]block)}
	m.Piece, m.Chunk = smallPiece, min(DefaultChunk, roundUp(m.Context, chunkStep))
	return m
}

// checkDivisions compares a plan with random divisions of the memory.
func checkDivisions(t *testing.T, rng *rand.Rand, seed uint64, p *Plan, m *planner) {
	full := m.kv(m.Context)
	least := min(full, m.kv(m.leastHot()))
	base, err := m.attempt(least, rates)
	if err != nil || least == full {
		return
	}
	cost := m.conversation(p)
	for range 20 {
		try := *m
		try.hot, try.chunkAtLeast = least+rng.Int64N(full-least+1), base.Chunk
		other, err := try.make(rates)
		if err != nil || other.Chunk < base.Chunk || other.Ring > 0 && other.Ring < base.Ring {
			continue
		}
		require.LessOrEqual(t, cost, 1.03*m.conversation(other), "seed %d: %d bytes, %d of KV", seed, m.Budget, try.hot)
	}
}

// TestSplitIsGoodForAnyRouter compares the division of memory, for which the plan takes a router with favourites, with the best one
// for a router that chooses evenly, and for one with favourites.
func TestSplitIsGoodForAnyRouter(t *testing.T) {
	s := attending(expertShape())
	for budget := int64(2) << 30; budget <= 10<<30; budget += 2 << 30 {
		for _, context := range []int{4096, 32768} {
			n := Need{Budget: budget, Context: context, KVCold: true}
			p, m := makePlan(t, s, n), plannerOf(s, n)
			for _, reuse := range []float64{1, 4} {
				fixed := splitRates
				fixed.ExpertReuse, fixed.PromptReuse = reuse, reuse
				cost := (&coster{m, p, fixed}).conversation()
				best := math.Inf(1)
				for i := range 24 {
					least := m.kv(m.leastHot())
					try := *m
					try.hot, try.chunkAtLeast = least+(m.kv(context)-least)*int64(i)/23, p.Chunk
					if other, err := try.make(rates); err == nil && other.Chunk >= p.Chunk {
						best = min(best, (&coster{m, other, fixed}).conversation())
					}
				}
				require.LessOrEqual(t, cost, 1.03*best, "%d GiB, %d tokens, reuse %v", budget>>30, context, reuse)
			}
		}
	}
}
