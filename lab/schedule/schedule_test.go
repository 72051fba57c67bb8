package schedule

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func fixed(d int) func(int) time.Duration {
	return func(int) time.Duration { return time.Duration(d) * time.Millisecond }
}

// layer returns the subgraphs of one transformer layer.
func layer() []Stage {
	return []Stage{
		{Name: "norm", Time: fixed(1)},
		{Name: "qkv", NPU: true, Time: fixed(3)},
		{Name: "attention", Mixes: true, Time: func(c int) time.Duration { return time.Duration(2+c) * time.Millisecond }},
		{Name: "o", NPU: true, Time: fixed(1)},
		{Name: "norm", Time: fixed(1)},
		{Name: "ffn", NPU: true, Time: fixed(6)},
	}
}

func stack(layers int) (stages []Stage) {
	for range layers {
		stages = append(stages, layer()...)
	}
	return stages
}

// TestOutOfOrderIsValidAndShorter checks that schedules are valid for any number of chunks, and that
// out of order is shorter than in order for two chunks or more.
func TestOutOfOrderIsValidAndShorter(t *testing.T) {
	stages := stack(4)
	for chunks := 1; chunks <= 12; chunks++ {
		in, out := Run(stages, chunks, InOrder), Run(stages, chunks, OutOfOrder)
		require.NoError(t, Check(stages, chunks, in))
		require.NoError(t, Check(stages, chunks, out))
		if chunks == 1 {
			require.Equal(t, in, out)
			continue
		}
		require.Less(t, Length(out), Length(in), "%d chunks", chunks)
		require.Less(t, Bubbles(stages, out), Bubbles(stages, in))
	}
}

// TestRandomTimes checks with random times that schedules are valid and at least as long as the work
// of the busier processor.
func TestRandomTimes(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	for range 200 {
		stages := stack(1 + rng.IntN(3))
		for i := range stages {
			stages[i].NPU, stages[i].Mixes, stages[i].Time = rng.IntN(2) == 0, rng.IntN(3) == 0, fixed(rng.IntN(20))
		}
		chunks := 1 + rng.IntN(6)
		for _, order := range []Order{InOrder, OutOfOrder} {
			slots := Run(stages, chunks, order)
			require.NoError(t, Check(stages, chunks, slots))
			work := map[bool]time.Duration{}
			for _, s := range slots {
				work[stages[s.Stage].NPU] += s.End - s.Begin
			}
			require.GreaterOrEqual(t, Length(slots), max(work[true], work[false]))
		}
	}
}

// TestCheckFindsMistakes checks that Check rejects missing, repeated and early slots.
func TestCheckFindsMistakes(t *testing.T) {
	stages := stack(1)
	good := Run(stages, 2, OutOfOrder)
	require.ErrorContains(t, Check(stages, 2, good[1:]), "11 of 12")
	twice := append([]Slot{good[0]}, good...)
	require.ErrorContains(t, Check(stages, 2, twice), "twice")
	early := append([]Slot(nil), good...)
	early[len(early)-1].Begin = 0
	require.ErrorContains(t, Check(stages, 2, early), "before")
}

// TestGraphsAreShared checks that chunks share all graphs except attention, and that Place prefers
// the graphs with the most work per byte.
func TestGraphsAreShared(t *testing.T) {
	graphs := []Graph{
		{Name: "qkv", Weights: 100, Buffers: func(int) int64 { return 10 }, Work: 1},
		{Name: "attention", Buffers: func(before int) int64 { return int64(before) }, PerChunk: true, Work: 1},
		{Name: "ffn", Weights: 200, Buffers: func(int) int64 { return 20 }, Work: 3},
	}
	require.Equal(t, Graphs{Count: 24, Shared: 0, Bytes: 2 * (4*330 + 0 + 256 + 512 + 768)}, CountGraphs(graphs, 2, 4, 256, false))
	require.Equal(t, Graphs{Count: 12, Shared: 4, Bytes: 2 * (330 + 0 + 256 + 512 + 768)}, CountGraphs(graphs, 2, 4, 256, true))

	graphs[1].Buffers = func(int) int64 { return 1000 }
	require.Equal(t, []int{0, 0, 2}, Place(graphs, 2, 500), "the graph with the most work per byte comes first")
	require.Equal(t, []int{1, 0, 2}, Place(graphs, 2, 555))
	require.Equal(t, []int{2, 2, 2}, Place(graphs, 2, 1<<40))
	require.Equal(t, []int{0, 0, 0}, Place(graphs, 2, 0))
}
