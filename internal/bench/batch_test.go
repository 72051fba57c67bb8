package bench

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBatchesTimeEachNumberOfSequences decodes a small model. The bound of one sequence is its speed, if no
// pass is limited by operations, and more sequences have a greater one.
func TestBatchesTimeEachNumberOfSequences(t *testing.T) {
	o := tinyBench(tinyModel(t))
	o.Depths, o.Decode, o.Repeats = []int{20}, []int{3}, 1
	var runs, all int64
	o.Running = func(done, total int64) { runs, all = done, total }
	tests, err := RunBatch(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, all, runs)
	require.Equal(t, []int{1, 2, 4, 8, 16}, batchSizes, "programs read these rows")
	require.Len(t, tests, len(batchSizes))
	for i, test := range tests {
		require.Equal(t, batchSizes[i], test.N)
		require.Positive(t, test.TokPerSec)
		require.Positive(t, test.PeakGops)
		require.GreaterOrEqual(t, test.Bound, tests[0].Bound)
		require.LessOrEqual(t, test.Bound, float64(test.N)*tests[0].TokPerSec*1.0001)
	}
	o.Decode = []int{1 << 20}
	_, err = RunBatch(t.Context(), o)
	require.ErrorIs(t, err, ErrBench)
}

// TestLimitsOfBatchesFitBesideNoModel measures the limits in a budget, before the model is opened and after it is closed, each time in
// what the program leaves of the budget.
func TestLimitsOfBatchesFitBesideNoModel(t *testing.T) {
	o := tinyBench(tinyModel(t))
	o.Depths, o.Decode, o.Repeats, o.RAM = []int{0}, []int{1}, 1, 64<<20
	isOpen := false
	o.Open = func(ctx context.Context, threads, tokens int) (*Opened, error) {
		opened, err := o.openWithDefaults(ctx, threads, tokens)
		if err == nil {
			isOpen = true
			opened.Close = func(closeModel func() error) func() error {
				return func() error { isOpen = false; return closeModel() }
			}(opened.Close)
		}
		return opened, err
	}
	var asked []bool
	was := residentMemory
	t.Cleanup(func() { residentMemory = was })
	residentMemory = func() int64 { asked = append(asked, isOpen); return 40 << 20 }
	_, err := RunBatch(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, []bool{false, false}, asked)
}
