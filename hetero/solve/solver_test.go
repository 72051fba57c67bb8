package solve_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/hetero/solve"
	"github.com/llmrun/llmrun/lab/sim"
)

func matmulOp(tokens, rows, cols int) hetero.Op {
	return hetero.Op{Tokens: tokens, Rows: rows, Cols: cols, Streamed: true}
}

func profiled(t *testing.T) *solve.Profiler {
	soc, err := sim.New("8-gen-3", sim.Options{TimeOnly: true})
	require.NoError(t, err)
	p := solve.NewProfiler([]hetero.Device{soc.GPU, soc.NPU}, nil)
	t.Cleanup(func() { require.NoError(t, p.Err) })
	return p
}

// TestSplitIsNoSlowerThanOneDevice checks that a split is never predicted to be
// slower than the better device alone, and that it is faster for devices of similar
// speed.
func TestSplitIsNoSlowerThanOneDevice(t *testing.T) {
	p := profiled(t)
	s := solve.Solver{Costs: p, Steps: solve.DefaultSteps, Static: true}
	alone := solve.Solver{Costs: p, Steps: solve.DefaultSteps, Static: true, Allow: func(s *solve.Split) bool { return s.Cut == solve.None }}
	for _, tokens := range []int{1, 20, 64, 300, 525, 600} {
		for _, shape := range [][2]int{{4096, 4096}, {1024, 4096}, {14336, 4096}, {4096, 14336}} {
			op := matmulOp(tokens, shape[0], shape[1])
			require.LessOrEqual(t, s.Solve(op).Time, alone.Solve(op).Time, "%d tokens, %v", tokens, shape)
		}
	}
	down := matmulOp(256, 4096, 14336)
	require.Less(t, s.Solve(down).Time.Seconds(), 0.75*alone.Solve(down).Time.Seconds())
	runs := p.Runs
	s.Solve(down)
	require.Equal(t, runs, p.Runs, "known matmuls are not measured again")
}

// TestOrderIsChosen checks the choice of the stationary operand: weights are streamed
// past few tokens, and few weights are stationary under many tokens.
func TestOrderIsChosen(t *testing.T) {
	s := solve.Solver{Costs: profiled(t), Steps: solve.DefaultSteps, Static: true}
	require.True(t, s.Solve(matmulOp(64, 14336, 4096)).Streamed)
	require.False(t, s.Solve(matmulOp(1024, 256, 4096)).Streamed)
}

// TestSequencesAreSplitByLength checks splits by length: 300 = 256 + 44, and 600 =
// 512 + 32 + 56.
func TestSequencesAreSplitByLength(t *testing.T) {
	steps := solve.DefaultSteps
	op := matmulOp(600, 1024, 4096)
	found := map[solve.Cut][]solve.Piece{}
	for _, split := range steps.Cuts(op, true) {
		if len(split.Pieces) == 3 && split.Cut == solve.MultiSequence {
			found[split.Cut] = split.Pieces
		}
	}
	require.Equal(t, []solve.Piece{{1, 0, 512, 512, 0, 1024}, {1, 512, 64, 64, 0, 1024}, {0, 576, 24, 24, 0, 1024}}, found[solve.MultiSequence])
	for _, split := range steps.Cuts(matmulOp(300, 1024, 4096), true) {
		if split.Cut == solve.Sequence {
			require.Equal(t, []solve.Piece{{1, 0, 256, 256, 0, 1024}, {0, 256, 44, 44, 0, 1024}}, split.Pieces)
		}
	}
}

// TestBuffersFitEverySplit checks that a buffer for a matmul's padded size fits every
// split.
func TestBuffersFitEverySplit(t *testing.T) {
	for tokens := 1; tokens < 1400; tokens += 37 {
		for _, static := range []bool{false, true} {
			for _, split := range solve.DefaultSteps.Cuts(hetero.Op{Tokens: tokens, Rows: 512, Cols: 256}, static) {
				require.LessOrEqual(t, split.PaddedTokens(), solve.DefaultSteps.PaddedTokens(tokens), "%d tokens, static %v: %v", tokens, static, split)
			}
		}
	}
}

// TestQuotaIsRespected checks that the solver respects the quota of a device at some
// cost.
func TestQuotaIsRespected(t *testing.T) {
	p := profiled(t)
	op := matmulOp(256, 4096, 14336)
	free := (&solve.Solver{Costs: p, Steps: solve.DefaultSteps, Static: true}).Solve(op)
	for _, quota := range []float64{0.2, 0.5} {
		s := solve.Solver{Costs: p, Steps: solve.DefaultSteps, Static: true, Quota: quota}
		split := s.Solve(op)
		busy := time.Duration(0)
		for _, piece := range split.Pieces {
			if piece.Device == 0 {
				busy += p.Time(0, piece.Op(op))
			}
		}
		require.LessOrEqual(t, busy.Seconds(), quota*split.Time.Seconds())
		require.Greater(t, split.Time, free.Time)
	}
}

// TestCopiesDiscourageSplits checks that copies, on devices without shared memory,
// discourage splits.
func TestCopiesDiscourageSplits(t *testing.T) {
	p := profiled(t)
	op := matmulOp(1, 14336, 4096)
	s := solve.Solver{Costs: p, Steps: solve.DefaultSteps, Static: true}
	require.Equal(t, solve.Row, s.Solve(op).Cut)
	s = solve.Solver{Costs: p, Steps: solve.DefaultSteps, Static: true, Copy: 400 * time.Microsecond}
	require.Equal(t, []solve.Piece{{0, 0, 1, 1, 0, 14336}}, s.Solve(op).Pieces)
}

func TestTreeFindsSteps(t *testing.T) {
	var samples []solve.Sample
	want := func(a, b float64) float64 {
		if a < 10 {
			return 1
		}
		if b < 5 {
			return 2
		}
		return 7
	}
	for a := range 20 {
		for b := range 10 {
			samples = append(samples, solve.Sample{X: []float64{float64(a), float64(b)}, Y: want(float64(a), float64(b))})
		}
	}
	tree := solve.GrowTree(samples, 2)
	require.Equal(t, 3, tree.Leaves())
	for a := 0.0; a < 20; a++ {
		for b := 0.0; b < 10; b++ {
			require.InDelta(t, want(a, b), tree.Predict([]float64{a, b}), 1e-9)
		}
	}
	require.Equal(t, 1, solve.GrowTree([]solve.Sample{{X: []float64{1}, Y: 3}, {X: []float64{1}, Y: 5}}, 1).Leaves(), "equal features cannot be separated")
}

// TestPredictions checks that predictions for shapes between the measured ones are
// accurate, and that a tree with one leaf is not.
func TestPredictions(t *testing.T) {
	p := profiled(t)
	var samples, between []hetero.Op
	for _, tokens := range []int{32, 128, 512} {
		for rows := 512; rows <= 8192; rows *= 2 {
			for cols := 1024; cols <= 8192; cols *= 2 {
				samples = append(samples, matmulOp(tokens, rows, cols))
				between = append(between, matmulOp(tokens, rows+256, cols))
			}
		}
	}
	q := solve.NewPredictor(p, samples)
	mean, largest := q.Error(1, between)
	require.Less(t, mean, 0.25)
	require.False(t, math.IsNaN(largest))
	flat, _ := solve.NewPredictor(p, samples[:1]).Error(1, between)
	require.Greater(t, flat, 2*mean)
	gpu, _ := q.Error(0, between)
	require.Less(t, gpu, 0.1)
}

// TestMatricesLargerThanDeviceMemory checks that such matrices are split so that the
// device's piece fits, or stay on the other device.
func TestMatricesLargerThanDeviceMemory(t *testing.T) {
	soc, err := sim.New("8-gen-3", sim.Options{TimeOnly: true})
	require.NoError(t, err)
	p := solve.NewProfiler([]hetero.Device{soc.GPU, soc.NPU}, nil)
	steps := solve.DefaultSteps
	steps.Rows = 1 << 16
	s := solve.Solver{Costs: p, Steps: steps, Static: true}
	for _, tokens := range []int{1, 32} {
		op := matmulOp(tokens, 1<<18, 1<<16) // 8 GiB in 4 bits
		split := s.Solve(op)
		require.NoError(t, p.Err)
		require.Len(t, split.Pieces, 2, "%v", split)
		exec := solve.Executor{Devices: [2]hetero.Device{soc.GPU, soc.NPU}, Costs: p}
		require.NoError(t, exec.Prepare("w", op, &split))
		require.NoError(t, exec.Close())
	}
	narrow := matmulOp(1, 1<<16, 1<<18) // one step of rows has 8 GiB
	split := s.Solve(narrow)
	require.NoError(t, p.Err)
	require.Equal(t, []solve.Piece{{Device: 0, Tokens: 1, Padded: 1, Rows: 1 << 16}}, split.Pieces)
	require.EqualValues(t, 1, p.Slowdown(narrow))
}
