package solve_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/hetero/solve"
	"github.com/llmrun/llmrun/lab/sim"
	"github.com/llmrun/llmrun/quant"
)

// TestRecordsAreSaved checks that a profiler that restores a record, through its JSON
// text, does not measure again.
func TestRecordsAreSaved(t *testing.T) {
	soc, err := sim.New("8-gen-3", sim.Options{TimeOnly: true})
	require.NoError(t, err)
	pair := []hetero.Device{soc.GPU, soc.NPU}
	p := solve.NewProfiler(pair, nil)
	p.Weights = quant.Q4_0
	op := matmulOp(1, 4096, 1024)
	op.Type = quant.Q8_0
	times := func(p *solve.Profiler) []any {
		return []any{p.Time(0, op), p.Time(1, op), p.Start(0), p.Start(1), p.Slowdown(op)}
	}
	want := times(p)
	require.Positive(t, p.Runs)

	text, err := json.Marshal([]solve.Record{p.Record(0), p.Record(1)})
	require.NoError(t, err)
	var saved []solve.Record
	require.NoError(t, json.Unmarshal(text, &saved))
	q := solve.NewProfiler(pair, nil)
	for d := range saved {
		require.NoError(t, q.Restore(d, saved[d]))
	}
	require.NoError(t, q.RestoreSlowdowns(p.Slowdowns()))
	before := soc.Elapsed()
	require.Equal(t, want, times(q))
	require.Zero(t, q.Runs)
	require.Equal(t, before, soc.Elapsed(), "nothing ran")
}

func TestImplausibleRecordsAreRejected(t *testing.T) {
	good := solve.Shape{Type: "Q8_0", Tokens: 1, Rows: 32, Cols: 32}
	p := solve.NewProfiler(nil, nil)
	negative := -time.Second
	for _, r := range []solve.Record{
		{Times: []solve.Timing{{good, 1, 0}}},
		{Times: []solve.Timing{{good, -1, 1}}},
		{Times: []solve.Timing{{solve.Shape{Type: "Q8_1", Tokens: 1, Rows: 1, Cols: 1}, 1, 1}}},
		{Times: []solve.Timing{{solve.Shape{Type: "F32", Tokens: 1, Rows: 0, Cols: 1}, 1, 1}}},
		{Start: &negative},
	} {
		require.ErrorIs(t, p.Restore(0, r), solve.ErrRecord)
	}
	require.ErrorIs(t, p.RestoreSlowdowns([]solve.Slowdown{{good, 0.5}}), solve.ErrRecord)
}

// TestRecordsAreMerged checks that a new measurement replaces only that of the same
// matmul and that implausible ones are dropped.
func TestRecordsAreMerged(t *testing.T) {
	shape := func(rows int) solve.Shape { return solve.Shape{Type: "Q8_0", Tokens: 1, Rows: rows, Cols: 32} }
	early, late, negative := time.Second, 2*time.Second, -time.Second
	r := solve.Record{Start: &late, Times: []solve.Timing{{shape(64), 3, 3}}}
	r.Merge(solve.Record{Start: &early, Copy: &early, Times: []solve.Timing{{shape(32), 1, 1}, {shape(64), 2, 2}, {shape(96), -1, 1}}})
	require.Equal(t, solve.Record{Start: &late, Copy: &early, Times: []solve.Timing{{shape(32), 1, 1}, {shape(64), 3, 3}}}, r)
	r = solve.Record{}
	r.Merge(solve.Record{Start: &negative, Copy: &negative})
	require.Equal(t, solve.Record{}, r)

	list := solve.MergeSlowdowns([]solve.Slowdown{{shape(64), 3}}, []solve.Slowdown{{shape(32), 1}, {shape(64), 2}, {shape(96), 0.5}})
	require.Equal(t, []solve.Slowdown{{shape(32), 1}, {shape(64), 3}}, list)
}
