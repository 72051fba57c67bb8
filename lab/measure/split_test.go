package measure

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/internal/bench"
	"github.com/llmrun/llmrun/quant"
)

// TestSplitReportOfAWholePass checks that the JSON list is empty and the text has a sentence if the
// device computes the whole pass.
func TestSplitReportOfAWholePass(t *testing.T) {
	for _, c := range []struct {
		matmuls     []weights.SplitMatmul
		whole, list string // in JSON
		text        string
	}{
		{nil, "true", "[]", "No matmul is split: gpu computes the whole pass"},
		{[]weights.SplitMatmul{{Matmul: weights.Matmul{Name: "attn_q", Rows: 8, Cols: 8}}}, "false", "[{", "| attn_q |"},
	} {
		r := &SplitReport{Device: "gpu"}
		r.list(c.matmuls)
		data, err := json.Marshal(r)
		require.NoError(t, err)
		require.Contains(t, string(data), `"whole_pass_on_device":`+c.whole)
		require.Contains(t, string(data), `"products":`+c.list)
		var text strings.Builder
		r.WriteTables(&text)
		require.Contains(t, text.String(), c.text)
	}
}

// TestUnmeasuredSplitStepsAreBlank checks that the table leaves unmeasured steps blank, and
// checks the JSON names.
func TestUnmeasuredSplitStepsAreBlank(t *testing.T) {
	matmul := weights.SplitMatmul{
		Matmul: weights.Matmul{Name: "attn_q", Type: quant.Q4_0, Rows: 8, Cols: 32, Count: 2},
		Split:  weights.RowSplit{Single: 8, Batch: 2, MinBatch: 32},
		Single: weights.SplitSteps{Steps: 2, Took: 8 * time.Microsecond},
	}
	head := matmul
	head.Name, head.Split = "output", weights.RowSplit{Single: 4, Batch: 4}
	head.Single.Predicted = 6 * time.Microsecond
	r := &SplitReport{Device: "npu"}
	r.list([]weights.SplitMatmul{matmul, head})
	var text strings.Builder
	r.WriteTables(&text)
	require.Contains(t, text.String(), "| attn_q | 2 of 8×32 Q4_0 | 0 % | 32 | 75 % | | 4 µs | 0 | | | |\n")
	require.Contains(t, text.String(), "| output | 2 of 8×32 Q4_0 | 50 % | | | 3 µs | 4 | 0 | | | |\n")
	data, err := json.Marshal(r.Matmuls[0])
	require.NoError(t, err)
	require.Equal(t, `{"name":"attn_q","count":2,"rows":8,"cols":32,"type":"Q4_0","one_share":0,"many_share":0.75,"least":32,"one":{"steps":2,"took_us":4,"waited_us":0}}`, string(data))
}

// TestSplitRefusesLongTestsEarly checks that tests beyond the context are refused before the
// model is loaded again.
func TestSplitRefusesLongTestsEarly(t *testing.T) {
	_, err := CompareSplit(t.Context(), SplitOptions{Path: tinyModel(t), Device: "the device is never opened", Prefill: []int{2049}, Repeats: 1})
	require.ErrorIs(t, err, bench.ErrBench)
	require.ErrorContains(t, err, "pp2049")
}
