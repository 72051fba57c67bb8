package measure

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/lab/papers"
	"github.com/llmrun/llmrun/lab/sim"
)

// TestPapersReportStatesItsLimits checks that the report marks fitted constants and missed figures,
// and states that it is simulated.
func TestPapersReportStatesItsLimits(t *testing.T) {
	r := &PapersReport{
		Tables: []papers.Table{{Title: "T", Figures: []papers.Figure{
			{What: "reached", Source: "§1", Paper: 2, Ours: 2, Fitted: true},
			{What: "missed", Source: "§2", Paper: 2, Ours: 3},
			{What: "range", Source: "§3", Low: 1, High: 5, Ours: 2, Unit: "%"},
		}}},
		Curves:    []papers.Curve{{Method: papers.Pipe, Lengths: []int{1, 2}, Seconds: []float64{1, 2}}},
		Constants: sim.Constants("8-gen-3"),
	}
	var out bytes.Buffer
	r.WriteTables(&out)
	for _, want := range []string{
		"Simulated phones", "2 of 3 figures", "| reached | §1 | 2.00x | 2.00x | yes, fitted |", "| missed | §2 | 2.00x | 3.00x | no |",
		"| range | §3 | 1 to 5 % | 2.0 % | yes |", "**fitted**",
	} {
		require.Contains(t, out.String(), want)
	}
	text, err := json.Marshal(r)
	require.NoError(t, err)
	require.Contains(t, string(text), `"curves":[{"method":"pipe","lengths":[1,2],"seconds":[1,2]}]`)
	require.NotRegexp(t, `"[^"]*[A-Z][^"]*":`, string(text), "JSON names are lower case")
	for _, write := range []func(io.Writer) error{r.WriteLengths, r.WriteRatios} {
		out.Reset()
		require.NoError(t, write(&out))
		points := bytes.Contains(out.Bytes(), []byte("polyline"))
		require.True(t, points)
		for d := xml.NewDecoder(&out); ; {
			_, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
		}
	}
}
