package measure

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/bench"
	"github.com/llmrun/llmrun/store/synth"
	"github.com/llmrun/llmrun/store/vfs"
)

// tinyPack writes a pack of a small shape.
func tinyPack(t *testing.T, tied bool) string {
	t.Helper()
	shape, ok := synth.FindShape("tiny")
	require.True(t, ok)
	shape.Tied, shape.Layers, shape.Dim = tied, 6, 512
	return packOf(t, shape)
}

// perLayerPack writes a pack of a small shape whose layers have embeddings of their own.
func perLayerPack(t *testing.T) string {
	t.Helper()
	shape, ok := synth.FindShape("gemma-4-e2b")
	require.True(t, ok)
	shape.Layers, shape.Dim, shape.FFN, shape.Vocab, shape.Layered.SharedKV, shape.Layered.PerLayer = 5, 512, 512, 512, 0, 64
	return packOf(t, shape)
}

func packOf(t *testing.T, shape synth.Shape) string {
	t.Helper()
	source := t.TempDir() + "/m.gguf"
	require.NoError(t, synth.Write(t.Context(), vfs.OS(), source, synth.Options{Shape: shape, Quant: "q8_0"}))
	path := source + ".pack"
	_, err := llmrun.Import(t.Context(), source, path, llmrun.ImportOptions{Replace: true})
	require.NoError(t, err)
	return path
}

// TestOverheads checks that the report has a row for each pack, and that other files are
// refused.
func TestOverheads(t *testing.T) {
	tied, untied, layers := tinyPack(t, true), tinyPack(t, false), perLayerPack(t)
	var done, total int64
	r, err := Overheads(t.Context(), OverheadOptions{
		Paths: []string{tied, untied, layers}, Rounds: 3, Decode: 2, Threads: 2,
		Running: func(d, all int64) { done, total = d, all },
	})
	require.NoError(t, err)
	require.Len(t, r.Rows, 3)
	require.EqualValues(t, 9, done)
	require.Equal(t, total, done)
	require.Nil(t, r.Rows[0].Embedding)
	require.Equal(t, 6, r.Rows[1].Embedding.Pairs)
	require.Equal(t, 6, r.Rows[2].Embedding.Pairs, "the table of the layers' embeddings is on flash")
	for _, row := range r.Rows {
		require.Equal(t, 3, row.Budget.Pairs)
		require.Positive(t, min(row.Budget.With, row.Budget.Without, 1+row.Budget.Cost))
	}
	_, err = Overheads(t.Context(), OverheadOptions{Paths: []string{tinyModel(t)}})
	require.ErrorIs(t, err, ErrPack)
}

// TestPairedIsTheMedian checks that paired times are summarized by medians.
func TestPairedIsTheMedian(t *testing.T) {
	var p Paired
	for _, ms := range [][2]int{{10, 10}, {30, 20}, {11, 10}, {900, 10}, {10, 20}} {
		p.add([2]time.Duration{time.Duration(ms[0]) * time.Millisecond, time.Duration(ms[1]) * time.Millisecond})
	}
	p.summarize()
	require.Equal(t, 5, p.Pairs)
	require.InDelta(t, 11, p.With, 1e-9)
	require.InDelta(t, 10, p.Without, 1e-9)
	require.InDelta(t, 0.1, p.Cost, 1e-9)
	require.InDelta(t, 0, p.Low, 1e-9)
	require.InDelta(t, 0.5, p.High, 1e-9)
}

// TestDrift checks that drift is the ratio of the largest to the smallest flash speed of the plan,
// the beginning and the end of a configuration.
func TestDrift(t *testing.T) {
	row := BudgetRow{FlashGBs: 2, FlashAfter: 2.2, planned: 1.9}
	require.EqualValues(t, 1, row.drift(), "the row reads nothing from flash")
	row.Streamed = 1
	require.InDelta(t, 2.2/1.9, row.drift(), 1e-9)
}

// TestBudgets checks the rows of budgets that fit and of a budget that is too small.
func TestBudgets(t *testing.T) {
	r, err := Budgets(t.Context(), BudgetOptions{
		Paths: []string{tinyPack(t, false)}, Fractions: []float64{0.01, 20}, Contexts: []int{64}, Prompt: 8, Decode: 3, Threads: 2,
		Disk: llmrun.DiskSpeed{BytesPerSecond: 500e6},
	})
	require.NoError(t, err)
	_, errLong := Budgets(t.Context(), BudgetOptions{Contexts: []int{64, 8}, Prompt: 8, Decode: 3})
	require.ErrorIs(t, errLong, bench.ErrBench)
	require.Len(t, r.Rows, 3)
	require.NotEmpty(t, r.Rows[1].Refused)
	for _, row := range []BudgetRow{r.Rows[0], r.Rows[2]} {
		require.True(t, row.Same)
		require.Equal(t, 1, row.Tries, "the row reads nothing from flash")
		require.Positive(t, min(row.Decode, row.FlashGBs, row.FlashAfter, row.Predicted.Decode))
		require.LessOrEqual(t, row.FlashGBs, 0.75, "flash is at most as fast as the configured speed")
	}
}
