package measure

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec"
)

// A device that has the whole pass leaves nothing to divide: scripts get an empty list
// and people a sentence.
func TestDividedReportOfAWholePass(t *testing.T) {
	for _, c := range []struct {
		products    []exec.DividedProduct
		whole, list string // in JSON
		text        string
	}{
		{nil, "true", "[]", "No product is divided: gpu has the whole pass"},
		{[]exec.DividedProduct{{Product: exec.Product{Name: "attn_q", Rows: 8, Cols: 8}}}, "false", "[{", "| attn_q |"},
	} {
		r := &DividedReport{Device: "gpu"}
		r.list(c.products)
		data, err := json.Marshal(r)
		require.NoError(t, err)
		require.Contains(t, string(data), `"whole_pass_on_device":`+c.whole)
		require.Contains(t, string(data), `"products":`+c.list)
		var text strings.Builder
		r.WriteTables(&text)
		require.Contains(t, text.String(), c.text)
	}
}
