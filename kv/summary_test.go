package kv

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/tiering"
)

// summary returns the stored corners of a box.
func (s *Summaries) summary(layer, head, block, i int) (high, low []float32) {
	g, d := s.Group(layer, head, block/SummaryBlocks), s.shape.HeadDim
	row := block%SummaryBlocks*blockSummaries + i
	tile := g.Codes[row/keyTile*keyTile*SummaryCols(d):]
	corner := func(at int) (out []float32) {
		for c := at; c < at+d; c++ {
			out = append(out, float32(int8(tile[c/4*keyStep+row%keyTile*4+c%4]^0x80))*g.Scales[row])
		}
		return out
	}
	return corner(0), corner(d)
}

// TestSummariesBoundStoredKeys compares summaries of every format with boxes computed
// from the stored keys.
func TestSummariesBoundStoredKeys(t *testing.T) {
	forEachFormat(t, func(t *testing.T, f Format, d int) {
		budget := tiering.New(0)
		s := NewSummaries(Shape{HeadDim: d, KVHeads: []int{1, 0, 2}, Format: f}, budget)
		random := rand.New(rand.NewPCG(uint64(d), 3))
		blocks := []int{1, SummaryBlocks}
		require.NoError(t, s.Grow((SummaryBlocks+1)*BlockTokens))
		w := NewSummarizer(d)
		var headBlocks [][]byte
		each := func(do func(layer, head, block int)) {
			for _, block := range blocks {
				for _, at := range [][2]int{{0, 0}, {2, 0}, {2, 1}} {
					do(at[0], at[1], block)
				}
			}
		}
		each(func(layer, head, block int) {
			headBlock := aligned(t, f.BlockBytes(d))
			for row := range BlockTokens {
				k, v := randomToken(random, d)
				f.put(headBlock, row, k, v)
			}
			headBlocks = append(headBlocks, headBlock)
			s.Summarize(w, layer, head, block, headBlock)
		})
		next := 0
		each(func(layer, head, block int) {
			headBlock := headBlocks[next]
			next++
			for i := range blockSummaries {
				high, low := s.summary(layer, head, block, i)
				requireBox(t, f, headBlock, i*SummaryTokens, high, low)
			}
		})
		s.Close()
		require.NoError(t, budget.Check())
		require.Zero(t, budget.Usage().Total)
	})
}

// requireBox checks one summary: its corners are half as far from the middle as those
// of the exact box, apart from quantization errors.
func requireBox(t *testing.T, f Format, headBlock []byte, first int, high, low []float32) {
	t.Helper()
	d := len(high)
	top, bottom := make([]float64, d), make([]float64, d)
	most := 0.0
	for row := range SummaryTokens {
		k, _ := readKey(f, headBlock, d, first+row)
		for i, v := range k {
			x := float64(v)
			if row == 0 {
				top[i], bottom[i] = x, x
			}
			top[i], bottom[i] = max(top[i], x), min(bottom[i], x)
			most = max(most, math.Abs(x))
		}
	}
	for i := range d {
		middle, half := (top[i]+bottom[i])/2, (top[i]-bottom[i])/2*boxFraction
		require.InDelta(t, middle+half, high[i], most/127*0.51)
		require.InDelta(t, middle-half, low[i], most/127*0.51)
	}
}

// TestNonFiniteKeysPoisonTheirSummary checks that the page selector can detect blocks
// with NaNs and infinities.
func TestNonFiniteKeysPoisonTheirSummary(t *testing.T) {
	for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))} {
		forEachFormat(t, func(t *testing.T, f Format, d int) {
			s := NewSummaries(Shape{HeadDim: d, KVHeads: []int{1}, Format: f}, tiering.New(0))
			defer s.Close()
			require.NoError(t, s.Grow(BlockTokens))
			headBlock := aligned(t, f.BlockBytes(d))
			for row := range BlockTokens {
				k, v := make([]float32, d), make([]float32, d)
				k[0] = 1
				if row == 20 {
					k[d-1] = bad
				}
				f.put(headBlock, row, k, v)
			}
			s.Summarize(NewSummarizer(d), 0, 0, 0, headBlock)
			scales := s.Group(0, 0, 0).Scales
			require.True(t, math.IsNaN(float64(scales[1])) || math.IsInf(float64(scales[1]), 0))
			require.False(t, math.IsNaN(float64(scales[0])) || math.IsInf(float64(scales[0]), 0))
		})
	}
}

// TestSummariesAfterTruncateAndClone checks the number of summarized blocks.
func TestSummariesAfterTruncateAndClone(t *testing.T) {
	budget := tiering.New(0)
	shape := Shape{HeadDim: 64, KVHeads: []int{64, 0}, Format: K8V8} // many heads, so that rounding to memory pages hardly matters
	s := NewSummaries(shape, budget)
	const tokens = 3*SummaryBlocks*BlockTokens + 5
	require.NoError(t, s.Grow(tokens))
	perToken := float64(budget.Usage().By[tiering.KVSummaries]) / (3 * SummaryBlocks * BlockTokens)
	require.InDelta(t, shape.SummaryBytes(), perToken, 4)
	s.SetReady(0, 0, 40)
	s.SetReady(0, 45, 48) // not adjacent to the summarized blocks
	require.Equal(t, 40, s.Ready(0))
	s.SetReady(0, 39, 48)
	require.Equal(t, 48, s.Ready(0))
	require.True(t, s.Complete(49*BlockTokens-1))
	require.False(t, s.Complete(49*BlockTokens))
	c, err := s.Clone()
	require.NoError(t, err)
	s.Truncate(20*BlockTokens + 63)
	require.Equal(t, 20, s.Ready(0))
	require.Equal(t, 48, c.Ready(0))
	require.Len(t, s.groups, 2)
	s.Close()
	c.Close()
	require.NoError(t, budget.Check())
	require.Zero(t, budget.Usage().Total)
}

// TestSummariesStayWithinTheBudget checks that a refusal by the budget changes
// nothing.
func TestSummariesStayWithinTheBudget(t *testing.T) {
	shape := Shape{HeadDim: 64, KVHeads: []int{1}, Format: K8V8}
	budget := tiering.New(shape.SummaryBytes()*SummaryBlocks*BlockTokens + 8192)
	s := NewSummaries(shape, budget)
	defer s.Close()
	require.NoError(t, s.Grow(SummaryBlocks*BlockTokens))
	require.ErrorIs(t, s.Grow(2*SummaryBlocks*BlockTokens), tiering.ErrBudget)
	s.Group(0, 0, 0)
}
