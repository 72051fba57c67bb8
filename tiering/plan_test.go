package tiering

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

const mib = 1 << 20

// denseShape resembles a Llama with 8B parameters in 4 bits: 32 layers of 123 MB, a
// head of 431 MB in 6 bits and a separate embedding.
func denseShape() Shape {
	s := Shape{
		Unit: 128 << 10, Vectors: mib,
		Head: Section{Name: "ends", Bytes: 430_940_160, Granule: mib, Block: 64 << 10}, Embedding: 295 << 20, RowBytes: 2304,
		KVFixed: 2 << 20, KVBytesPerToken: 32 * 8 * 264, KVPageTokens: 64,
		Scratch: Line{2 << 20, 120_000}, Logits: Line{6 << 20, 50_000}, OpsPerToken: 2 * 6_979_321_856, Elements: 32 * 4096,
	}
	for l := range 32 {
		s.Layers = append(s.Layers, Section{Name: fmt.Sprintf("blk.%d", l), Bytes: 122_720_256, Granule: mib, Block: 64 << 10})
	}
	return s
}

// expertShape resembles Qwen3-30B-A3B in 4 bits.
func expertShape() Shape {
	s := denseShape()
	for l := range s.Layers {
		s.Layers[l].Bytes = 21 << 20
	}
	s.ExpertLayers, s.Experts, s.ExpertsUsed, s.ExpertBytes = 32, 128, 8, 2_654_208
	return s
}

var rates = Rates{ReadGBs: 1.5, MemGBs: 33, PrefillGops: 800}

func makePlan(t *testing.T, s Shape, n Need) *Plan {
	p, err := MakePlan(s, n, rates)
	require.NoError(t, err)
	return p
}

func TestPlanPinsEverythingThatFits(t *testing.T) {
	s := denseShape()
	for _, budget := range []int64{0, 64 << 30, 6 << 30} {
		p := makePlan(t, s, Need{Budget: budget, Context: 4096, Code: 12 * mib, Heap: 40 * mib})
		require.True(t, p.Resident())
		require.Zero(t, p.Ring)
		require.Zero(t, p.StreamedPerToken)
		require.Equal(t, DefaultChunk, p.Chunk)
		require.Equal(t, s.Head.Bytes, p.HeadPinned)
		for l := range s.Layers {
			require.Equal(t, s.Layers[l].Bytes, p.Pinned[l])
		}
		require.EqualValues(t, 12*mib, p.By[Code])
		require.EqualValues(t, EmbeddingRowCache, p.By[Cached], "the embedding stays on flash")
		require.InDelta(t, 33e9/(32*122_720_256+430_940_160), p.PredictedDecode, 0.01)
		require.InDelta(t, 800e9/(2*6_979_321_856+32*4096*elementOps), p.PredictedPrefill, 0.01)
	}
}

func TestPlanSpreadsWhatItPins(t *testing.T) {
	s := denseShape()
	p := makePlan(t, s, Need{Budget: 3 << 30, Context: 4096})
	require.False(t, p.Resident())
	low, high := p.Pinned[0], p.Pinned[0]
	var streamed int64
	for l, n := range p.Pinned {
		require.Zero(t, n%(64<<10), "the pinned part ends at a block of the pack")
		low, high = min(low, n), max(high, n)
		streamed += s.Layers[l].Bytes - n
	}
	require.LessOrEqual(t, high-low, int64(mib))
	require.Equal(t, s.Head.Bytes, p.HeadPinned, "the head is pinned first")
	require.Equal(t, streamed, p.StreamedPerChunk)
	require.Equal(t, streamed+s.Head.Bytes-p.HeadPinned, p.StreamedPerToken)
	flash := float64(p.StreamedPerToken) / 1.5e9
	require.Less(t, p.PredictedDecode, 1/flash, "flash is the limit")
	require.Greater(t, p.PredictedDecode, 1/(1.2*flash))
	// The unused rest is at most a block, a piece and a step of the chunk size.
	require.Greater(t, p.Total(), p.Budget-mib-p.Piece-2*chunkStep*s.Scratch.PerToken)
}

// TestPlanPinsWhatIsLookedUpLast: no pass of an encoder reads the embedding as a whole, so its layers come first.
func TestPlanPinsWhatIsLookedUpLast(t *testing.T) {
	s := denseShape()
	s.HeadLookedUp = true
	layers := int64(0)
	for i := range s.Layers {
		layers += s.Layers[i].Bytes
	}
	p := makePlan(t, s, Need{Budget: 3 << 30, Context: 4096})
	require.False(t, p.Resident())
	require.Equal(t, s.Head.Fixed, p.HeadPinned)
	require.Equal(t, p.StreamedPerChunk, p.StreamedPerToken)
	require.Less(t, p.StreamedPerToken, layers)
	p = makePlan(t, s, Need{Budget: 16 << 30, Context: 4096})
	require.Equal(t, s.Head.Bytes, p.HeadPinned)
	require.Zero(t, p.StreamedPerToken)
}

// TestPlanOfASmallModel checks that a model smaller than a ring stays in memory.
func TestPlanOfASmallModel(t *testing.T) {
	s := Shape{Layers: []Section{{Name: "blk.0", Bytes: 300_000, Granule: mib}, {Name: "blk.1", Bytes: 300_000, Granule: mib}}, Head: Section{Name: "ends", Bytes: 200_000, Granule: mib}, Scratch: Line{Fixed: 1000}}
	p := makePlan(t, s, Need{Budget: mib, Context: 10})
	require.True(t, p.Resident())
	_, err := MakePlan(s, Need{Budget: mib / 2, Context: 10, Piece: mib}, rates)
	var refused *MinimumError
	require.ErrorAs(t, err, &refused)
	require.Greater(t, refused.By[Pinned], int64(800_000))
	require.Zero(t, refused.By[Ring])
}

func TestPlanOfExperts(t *testing.T) {
	s := expertShape()
	p := makePlan(t, s, Need{Budget: 4 << 30, Context: 4096})
	require.Zero(t, p.Ring, "the dense parts fit")
	require.False(t, p.Resident())
	all := s.ExpertLayers * s.Experts
	require.Greater(t, p.ExpertSlots, all/5)
	require.Less(t, p.ExpertSlots, all/3)
	missing := float64(all-p.ExpertSlots) / float64(all-s.ExpertsUsed)
	require.InEpsilon(t, missing*32*8*2_654_208, p.StreamedPerToken, 1e-6, "no run has taught the plan: the router chooses evenly")
	require.Greater(t, p.StreamedPerChunk, 10*p.StreamedPerToken, "a chunk uses most experts")
	taught := rates
	taught.ExpertReuse, taught.PromptReuse = 4, 3
	learned, err := MakePlan(s, Need{Budget: 4 << 30, Context: 4096}, taught)
	require.NoError(t, err)
	require.Equal(t, p.By, learned.By, "the division of memory does not depend on what runs have taught")
	require.InEpsilon(t, MissedUses(missing, 4)*32*8*2_654_208, learned.StreamedPerToken, 1e-6)
	require.Less(t, learned.StreamedPerChunk, p.StreamedPerChunk)

	tight := makePlan(t, s, Need{Budget: 900 << 20, Context: 1024})
	require.Equal(t, s.ExpertsUsed, tight.ExpertSlots)
	require.NotZero(t, tight.Ring)

	whole := makePlan(t, s, Need{Context: 4096})
	require.True(t, whole.Resident())
	require.Equal(t, all, whole.ExpertSlots)
}

func TestPlanRefuses(t *testing.T) {
	s := denseShape()
	n := Need{Budget: 120 * mib, Context: 4096, Code: 12 * mib, Heap: 40 * mib, KVBytesLow: s.KVBytesPerToken / 8}
	_, err := MakePlan(s, n, rates)
	require.ErrorIs(t, err, ErrBudget)
	var e *MinimumError
	require.ErrorAs(t, err, &e)
	require.Equal(t, e.By.Total(), e.Minimum)
	require.EqualValues(t, 2*smallPiece+s.Unit, e.By[Ring])
	require.EqualValues(t, 33*s.Unit+s.Vectors, e.By[Pinned])
	require.True(t, e.KVFits)
	require.ErrorContains(t, err, "code 12 MiB)")
	require.ErrorContains(t, err, fmt.Sprintf("a context of at most %d tokens, or select a KV format of lower precision", e.ContextFits))
	require.Positive(t, e.ContextFits)

	n.Context = e.ContextFits
	makePlan(t, s, n)
	n.Context += s.KVPageTokens
	_, err = MakePlan(s, n, rates)
	require.Error(t, err, "no longer context fits")

	n.Budget = 30 * mib
	_, err = MakePlan(s, n, rates)
	require.ErrorContains(t, err, "use a smaller model")

	// A shorter prompt helps where the rest fits.
	n.Context, n.Budget = e.ContextFits, e.Budget
	n.Heap, n.Prompt = n.Heap+100*mib, 100*mib
	_, err = MakePlan(s, n, rates)
	require.ErrorContains(t, err, "raise the budget, or use a shorter prompt")
	require.NotContains(t, err.Error(), "smaller model")
	n.Budget = 30 * mib
	_, err = MakePlan(s, n, rates)
	require.ErrorContains(t, err, "use a smaller model")
	require.NotContains(t, err.Error(), "shorter prompt")
}

func TestPlanChoosesAContext(t *testing.T) {
	for budget, want := range map[int64]int{0: 131072, 40 << 30: 131072, 12 << 30: 65536, 6 << 30: 16384, 2 << 30: 2048} {
		p := makePlan(t, denseShape(), Need{Budget: budget, ContextMax: 131072})
		require.Equal(t, want, p.Context, "budget %d", budget)
		if want > 2048 {
			require.True(t, p.Resident(), "a context takes memory that the weights leave")
		}
	}
	require.Equal(t, 512, makePlan(t, denseShape(), Need{Budget: 2 << 30, ContextMax: 512}).Context)
}

// smallShape resembles Qwen2.5-0.5B in 4 bits, for which the program and the
// activations are a large part of the memory.
func smallShape() Shape {
	s := Shape{
		Unit: 43 << 10, Vectors: mib, Head: Section{Name: "ends", Bytes: 144_649_728, Granule: mib, Block: 64 << 10},
		KVFixed: 2 << 20, KVBytesPerToken: 6500, KVPageTokens: 64,
		Scratch: Line{2 << 20, 37_000}, Logits: Line{7 << 20, 16_000},
	}
	for l := range 24 {
		s.Layers = append(s.Layers, Section{Name: fmt.Sprintf("blk.%d", l), Bytes: 8_398_336, Granule: mib, Block: 64 << 10})
	}
	return s
}

// TestPlanPrefillsAPromptInOneChunk checks that a quarter of a small model's size is
// enough for one chunk: a prompt in two chunks would read twice the bytes.
func TestPlanPrefillsAPromptInOneChunk(t *testing.T) {
	s := smallShape()
	whole := makePlan(t, s, Need{Context: 512}).By[Pinned]
	for _, divisor := range []int64{2, 4} {
		p := makePlan(t, s, Need{Budget: whole / divisor, Context: 512, Code: 8 * mib, Heap: 43 * mib})
		require.GreaterOrEqual(t, p.Chunk, goodChunk)
		require.Less(t, float64(p.StreamedPerToken), 1.02*float64(whole-p.By[Pinned]), "the cost for each token")
	}
}

func TestPlanWithoutRatesPredictsNothing(t *testing.T) {
	for _, budget := range []int64{0, 2 << 30} {
		p, err := MakePlan(denseShape(), Need{Budget: budget, Context: 100}, Rates{})
		require.NoError(t, err)
		require.Zero(t, p.PredictedDecode+p.PredictedPrefill)
	}
}

func TestPlanByName(t *testing.T) {
	plan := makePlan(t, denseShape(), Need{Budget: 2 << 30, Context: 100})
	require.Len(t, plan.Pinned, 32)
	by := plan.By.ByName()
	require.Positive(t, by["weight ring"])
	require.NotContains(t, by, "heap")
}

// randomShape returns a random shape, usually unlike a real model.
func randomShape(rng *rand.Rand) Shape {
	size := func(limit int64) int64 { return rng.Int64N(limit) }
	fixed := rng.Int64N(2)
	section := func() Section {
		s := Section{Bytes: size(20*mib) + 1, Granule: []int64{0, 256 << 10, mib}[rng.IntN(3)], Block: []int64{0, 1, 64 << 10}[rng.IntN(3)]}
		s.Fixed = fixed * min(s.Bytes, size(s.Bytes+1)/(64<<10)*64<<10)
		return s
	}
	s := Shape{
		Unit: size(3 * mib), Vectors: size(mib),
		Head: section(), Embedding: size(2) * size(8*mib), RowBytes: size(10_000), Lookup: size(2) * size(mib),
		KVFixed: size(mib), KVBytesPerToken: size(10_000), KVPageTokens: rng.IntN(100),
		Scratch: Line{size(mib), size(300_000)}, Logits: Line{size(6 * mib), size(50_000)}, OpsPerToken: size(1e9),
	}
	for range 1 + rng.IntN(12) {
		s.Layers = append(s.Layers, section())
	}
	if rng.IntN(2) == 0 {
		s.ExpertLayers, s.Experts, s.ExpertBytes = len(s.Layers), 1+rng.IntN(16), size(mib)+1
		s.ExpertsUsed = 1 + rng.IntN(s.Experts)
	}
	return s
}

// TestPlanProperties checks that a plan never exceeds its budget; that a larger
// budget never pins less, caches less, uses smaller chunks or predicts lower speed;
// and that MakePlan refuses exactly the budgets below the stated minimum.
func TestPlanProperties(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(2, seed))
		s := randomShape(rng)
		n := Need{
			Context: 1 + rng.IntN(3000), Chunk: rng.IntN(600), Piece: rng.Int64N(2) * 256 << 10,
			Code: rng.Int64N(mib), Heap: rng.Int64N(mib), Budget: 1,
		}
		_, err := MakePlan(s, n, rates)
		var refused *MinimumError
		require.ErrorAs(t, err, &refused, "seed %d", seed)
		n.Budget = refused.Minimum - 1
		_, err = MakePlan(s, n, rates)
		require.Error(t, err, "seed %d: below the minimum", seed)

		n.Budget = refused.Minimum
		last := makePlan(t, s, n)
		for !last.Resident() {
			// Small steps find rounding errors, large ones cover the range.
			n.Budget += rng.Int64N(4096 << rng.IntN(13))
			p := makePlan(t, s, n)
			require.LessOrEqual(t, p.Total(), n.Budget, "seed %d", seed)
			checkMore(t, seed, last, p)
			for l := range s.Layers {
				require.GreaterOrEqual(t, p.Pinned[l], s.Layers[l].Fixed, "seed %d", seed)
			}
			last = p
		}
		n.Budget = 0
		checkMore(t, seed, last, makePlan(t, s, n))
	}
}

// checkMore compares the plans of two budgets.
func checkMore(t *testing.T, seed uint64, less, more *Plan) {
	context := fmt.Sprintf("seed %d: from %d to %d bytes", seed, less.Budget, more.Budget)
	for l := range less.Pinned {
		require.GreaterOrEqual(t, more.Pinned[l], less.Pinned[l], context)
	}
	require.GreaterOrEqual(t, more.HeadPinned, less.HeadPinned, context)
	require.GreaterOrEqual(t, more.ExpertSlots, less.ExpertSlots, context)
	require.GreaterOrEqual(t, more.Chunk, less.Chunk, context)
	require.LessOrEqual(t, more.StreamedPerToken, less.StreamedPerToken, context)
	require.GreaterOrEqual(t, more.PredictedDecode, less.PredictedDecode, context)
	require.GreaterOrEqual(t, more.PredictedPrefill, less.PredictedPrefill*(1-1e-9), context)
}

// TestStreamedRemaindersFillReads checks that the streamed part of a section is a
// whole number of reads, up to a block, even if the section has an odd size, and that
// layers with one more pinned read are spread over the model.
func TestStreamedRemaindersFillReads(t *testing.T) {
	const block = 64 << 10
	for _, bytes := range []int64{8_398_336, 8 * mib, 8*mib - 1, 8*mib + 65, mib, 100} {
		s := Section{Bytes: bytes, Granule: mib, Block: block}
		var sum int64
		for off, n := range s.blocks() {
			require.Equal(t, sum, off)
			if off > 0 {
				rest := (bytes - off + block - 1) / block * block
				require.Zero(t, rest%mib, "%d bytes are left of %d", bytes-off, bytes)
				require.Zero(t, off%block)
			}
			sum += n
		}
		require.Equal(t, bytes, sum)
	}

	p, err := MakePlan(denseShape(), Need{Budget: 3 << 30, Context: 2048, Code: 8 * mib, Heap: 32 * mib}, Rates{})
	require.NoError(t, err)
	less, before := slices.Min(p.Pinned), -1
	for l, n := range p.Pinned {
		if n > less {
			if before >= 0 {
				require.InDelta(t, len(p.Pinned)/countAbove(p.Pinned, less), l-before, float64(len(p.Pinned)/countAbove(p.Pinned, less)), "layers %d and %d", before, l)
			}
			before = l
		}
	}
	require.GreaterOrEqual(t, before, 0, "this budget divides evenly: the test needs another one")
}

func countAbove(list []int64, least int64) (n int) {
	for _, v := range list {
		if v > least {
			n++
		}
	}
	return n
}

// TestStatedMinimumOfAChosenContext follows the minimum that a refusal states, for keys and values
// that may move to flash and for others: it is enough, whatever context a larger budget would choose.
func TestStatedMinimumOfAChosenContext(t *testing.T) {
	for name, change := range map[string]func(*Shape, *Need){
		"in memory":         func(*Shape, *Need) {},
		"cold":              func(_ *Shape, n *Need) { n.KVCold = true },
		"cold with a limit": func(_ *Shape, n *Need) { n.KVCold, n.KVHot = true, 4*mib },
		"picked pages":      func(s *Shape, n *Need) { n.KVCold, s.KVSummaryPerToken = true, s.KVBytesPerToken/16 },
	} {
		t.Run(name, func(t *testing.T) {
			s := smallShape()
			s.KVUnit = int64(s.KVPageTokens) * s.KVBytesPerToken / int64(len(s.Layers))
			n := Need{Budget: 1, ContextMax: 131072, Code: 10 * mib, Heap: 11 * mib}
			change(&s, &n)
			_, err := MakePlan(s, n, rates)
			var refused *MinimumError
			require.ErrorAs(t, err, &refused)
			least := refused.Minimum
			for _, budget := range []int64{least - 1, least / 2} {
				n.Budget = budget
				_, err = MakePlan(s, n, rates)
				require.ErrorAs(t, err, &refused)
				require.Equal(t, least, refused.Minimum)
			}
			context := 0
			for budget := least; budget < 20*least; budget += least / 4 {
				n.Budget = budget
				p := makePlan(t, s, n)
				require.LessOrEqual(t, p.Total(), budget)
				require.GreaterOrEqual(t, p.Context, context, "a larger budget has no shorter context")
				context = p.Context
			}
			require.Greater(t, context, lowContext)
		})
	}
}

// TestPlanHasRoomForDriver plans a model beside the driver of a device. The driver takes its memory from
// the budget; a peak while it compiles only matters if it is more than the model takes later. The
// stated minimum suffices, and a byte less does not.
func TestPlanHasRoomForDriver(t *testing.T) {
	need := Need{Budget: 1 << 30, Context: 1024, Code: 12 * mib, Heap: 40 * mib, Opening: 30 * mib}
	without := makePlan(t, denseShape(), need)
	need.Driver = 100 * mib
	with := makePlan(t, denseShape(), need)
	require.EqualValues(t, 100*mib, with.By[Driver])
	require.Less(t, with.PinnedBytes(), without.PinnedBytes())
	require.LessOrEqual(t, with.Total(), need.Budget)

	least := func(peak int64) int64 {
		need.DriverPeak, need.Budget = peak, 1
		_, err := MakePlan(denseShape(), need, rates)
		var refused *MinimumError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, refused.Minimum, refused.By.Total())
		for _, more := range []int64{0, -1} {
			need.Budget = refused.Minimum + more
			_, err := MakePlan(denseShape(), need, rates)
			require.Equal(t, more == 0, err == nil, "%v", err)
		}
		return refused.Minimum
	}
	low := least(0)
	require.Equal(t, low, least(low-42*mib))
	require.Equal(t, low+1, least(low-42*mib+1))
	require.EqualValues(t, 1042*mib, least(1000*mib))
}
