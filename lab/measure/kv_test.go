package measure

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/bench"
)

// syntheticKV is a machine with simple numbers: a token takes 20 ms, plus 1 ms for each 1000 tokens of
// context; a token of context takes 1000 bytes in all layers; 1000 tokens stay in memory; and flash
// reads the bytes of 1000 tokens in a millisecond.
func syntheticKV(contexts ...int) *KVReport {
	r := &KVReport{Model: "m", Layers: 10, TokenBytes: 1000, HeadFraction: 0.2, Ring: 8e6}
	for _, n := range contexts {
		row := KVRow{Context: n, Cold: int64(max(0, n-1000)) * 1000, FlashGBs: 1}
		row.Memory = 20 + float64(n)/1000
		busy := float64(row.Cold) / 1e6
		row.With = max(row.Memory, busy)
		row.Stalled = row.With - row.Memory
		row.Without = row.Memory + busy
		row.Ratio = row.With / row.Memory
		if row.Cold == 0 {
			row.FlashGBs = 0
		}
		r.Rows = append(r.Rows, row)
	}
	return r
}

// flatKV is the same machine with attention that takes no time.
func flatKV(contexts ...int) *KVReport {
	r := syntheticKV(contexts...)
	for i := range r.Rows {
		row := &r.Rows[i]
		row.Memory = 20
		row.With = max(20, float64(row.Cold)/1e6)
		row.Stalled, row.Ratio = row.With-20, row.With/20
	}
	return r
}

// TestKVPredictions checks that the predictions equal the measurements on a machine without a
// time for attention.
func TestKVPredictions(t *testing.T) {
	r := flatKV(500, 5000, 10000, 20000, 30000, 40000, 60000)
	r.summarize()
	s := r.Summary
	require.InDelta(t, 20, s.Fixed, 1e-9)
	require.InDelta(t, 0, s.Slope, 1e-9)
	require.InDelta(t, 1000, s.Hot, 1e-9)
	require.InDelta(t, 1, s.FlashGBs, 1e-9)
	require.InDelta(t, 21000, s.PredictedCrossing, 1e-6, "20 ms hide 20 MB")
	require.InDelta(t, 17000, s.NarrowCrossing, 1e-6, "four fifths of 20 ms")
	require.InDelta(t, 21000, s.Crossing, 1e-6)
	require.InDelta(t, 1.024, s.PredictedBeyond, 1e-9)
	require.InDelta(t, 1.024, s.Beyond, 1e-9)
	require.Equal(t, 3, s.MaskedRows)
	require.InDelta(t, 1, s.Masked, 1e-9)
	for _, row := range r.Rows {
		require.InDelta(t, row.With, row.Predicted, 1e-9, "%d", row.Context)
	}
}

// TestKVPredictionsWithASmallRing checks the predictions if the ring is full before the output matrix
// is computed, so that flash is idle.
func TestKVPredictionsWithASmallRing(t *testing.T) {
	r := flatKV(5000, 40000, 60000)
	r.Ring = 1e6 // 1 ms; the output matrix takes 4 ms
	r.summarize()
	require.InDelta(t, 18000, r.Summary.PredictedCrossing, 1e-6)
	require.InDelta(t, 39+3, r.Rows[1].Predicted, 1e-9)
}

// TestKVPredictionsOfASlowAttention checks that there is no crossing if attention takes as long as
// the reads.
func TestKVPredictionsOfASlowAttention(t *testing.T) {
	r := syntheticKV(2000, 30000, 60000)
	r.summarize()
	require.Zero(t, r.Summary.Crossing)
	require.Zero(t, r.Summary.PredictedCrossing)
	require.Equal(t, 3, r.Summary.MaskedRows)

	r = syntheticKV(500)
	r.summarize()
	require.Zero(t, r.Summary.PredictedBeyond, "no KV is on flash")
}

// TestKVCostBeforeTheCrossing checks that a slow row with an idle flash counts as before the
// crossing, and that its extra time is the cost of reads there.
func TestKVCostBeforeTheCrossing(t *testing.T) {
	r := flatKV(5000, 10000, 30000, 40000)
	r.Rows[1].With, r.Rows[1].Ratio = 26, 1.3
	r.summarize()
	require.InDelta(t, 1.3, r.Summary.Masked, 1e-9)
	require.InDelta(t, 21000, r.Summary.Crossing, 1e-6)
}

// TestKVBoundOfBoth checks the bound for reads of streamed weights and KV.
func TestKVBoundOfBoth(t *testing.T) {
	r := &KVReport{Streamed: true, Rows: []KVRow{
		{Context: 1, Weights: 200e6, WeightsGBs: 2, With: 110},
		{Context: 2, Weights: 200e6, WeightsGBs: 2, Cold: 50e6, FlashGBs: 1, With: 200},
	}}
	r.summarize()
	require.InDelta(t, 100, r.Rows[0].Predicted, 1e-9)
	require.InDelta(t, 150, r.Rows[1].Predicted, 1e-9)
	require.InDelta(t, 0.75, r.Summary.OfBound, 1e-9)
	var b strings.Builder
	r.WriteTable(&b)
	require.Contains(t, b.String(), "| 2 | 200 MB | 50.0 MB | 2.00, 1.00 | 200.0 ms | 150.0 ms | 75 % |")
	require.Contains(t, b.String(), "- At least 75 % of the bound.")
	require.NoError(t, r.WritePlot(&b))
}

// TestKVTableAndPlot checks the texts of the table and the names in the plot.
func TestKVTableAndPlot(t *testing.T) {
	r := flatKV(500, 10000, 30000, 40000)
	r.Rows[2].With, r.Rows[2].Ratio, r.Rows[2].Stalled = 31, 1.55, 11
	r.Rows[3].With, r.Rows[3].Ratio, r.Rows[3].Stalled = 41, 2.05, 21
	r.summarize()
	var b strings.Builder
	r.WriteTable(&b)
	require.Contains(t, b.String(), "| 30000 | 2.90 MB | 20.0 ms | 79.0 ms | 31.0 ms | +55.0 % | 29.0 ms | -6 % | 11.0 ms | 1.00 |")
	require.Contains(t, b.String(), "predicted at 21000 tokens (17000 if only the work outside attention hid the reads), measured at 19000 (-10 %).")
	require.Contains(t, b.String(), "1024 tokens add 1.02 ms; their bytes ÷ flash speed are 1.02 ms (+0 %).")
	b.Reset()
	require.NoError(t, r.WritePlot(&b))
	for _, name := range []string{"all in memory", "flash, not prefetched", "prefetched", "prefetched, exceeding", "predicted", "crossing, predicted"} {
		require.Contains(t, b.String(), ">"+name+"<")
	}
	b.Reset()
	none := flatKV(500)
	none.summarize()
	none.WriteTable(&b)
	require.Contains(t, b.String(), "Nothing was on flash.")
}

// TestKVContexts checks that kvContexts sorts contexts, removes repeated ones and cuts them to
// the limit.
func TestKVContexts(t *testing.T) {
	list, err := kvContexts([]int{4096, 64, 8192, 4096}, 5000)
	require.NoError(t, err)
	require.Equal(t, []int{64, 4096, 5000}, list)
	_, err = kvContexts([]int{64}, 0)
	require.ErrorIs(t, err, bench.ErrBench)
}

// TestKVCurvesOfATinyModel checks that a measurement fills every row of the report.
func TestKVCurvesOfATinyModel(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.gguf")
	_, err := bench.Synth(t.Context(), bench.SynthOptions{Path: path, Shape: "tiny", Quant: "q4_0", Context: 4096})
	require.NoError(t, err)
	o := KVOptions{Path: path, Contexts: []int{2000, 64, 100000}, KVRAM: 1, Dir: t.TempDir(), Threads: 2, Decode: 2, Repeats: 2}
	var runs, all int64
	o.Running = func(done, total int64) { runs, all = done, total }
	r, err := KVCurves(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, all, runs)
	require.Len(t, r.Rows, 3)
	require.Equal(t, 4096-o.Decode-warmTokens, r.Rows[2].Context)
	require.Equal(t, "k8v8", r.KV)
	for i, row := range r.Rows {
		require.Positive(t, row.Memory)
		require.Positive(t, row.Without)
		require.Positive(t, row.With)
		require.GreaterOrEqual(t, row.Predicted, row.Memory)
		if i > 0 {
			require.Greater(t, row.Cold, r.Rows[i-1].Cold)
			require.Positive(t, row.FlashGBs)
			require.GreaterOrEqual(t, row.Read, row.Cold/2, "prefetch may read some bytes of the two tokens before the measurement")
		}
	}
	require.InDelta(t, 4093, float64(r.Rows[2].Cold)/float64(r.TokenBytes), 200, "all but the last pages")
	text, err := json.Marshal(r)
	require.NoError(t, err)
	require.True(t, bytes.Contains(text, []byte(`"predicted_crossing":`)))

	o.RAM = "50%"
	_, err = KVCurves(t.Context(), o)
	require.ErrorIs(t, err, ErrPack)
}

// TestKVCurvesOfStreamedWeights checks the report of a budget in which weights are streamed.
func TestKVCurvesOfStreamedWeights(t *testing.T) {
	o := KVOptions{
		Path: tinyPack(t, false), Contexts: []int{64, 2000}, KVRAM: 1, RAM: "90%", Dir: t.TempDir(), Threads: 2,
		Decode: 2, Repeats: 1, Disk: llmrun.DiskSpeed{BytesPerSecond: 1e9},
	}
	r, err := KVCurves(t.Context(), o)
	require.NoError(t, err)
	require.True(t, r.Streamed)
	require.Len(t, r.Rows, 2)
	for _, row := range r.Rows {
		require.Zero(t, row.Memory)
		require.Positive(t, row.Weights)
		require.Positive(t, row.WeightsGBs)
		require.Positive(t, row.Predicted)
	}
	require.Positive(t, r.Rows[1].Cold)
	require.Positive(t, r.Rows[1].FlashGBs)
	require.Positive(t, r.Summary.OfBound)
}
