package measure

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/llmrun/llmrun/internal/plot"
	"github.com/llmrun/llmrun/store/pack"
)

// WriteTable writes the report as a table in Markdown.
func (r *BudgetReport) WriteTable(w io.Writer) {
	fmt.Fprintf(w, "| model | RAM | context | read per token | flash GB/s | decode | predicted | error | bound | of bound | prefill | predicted | bound | of bound | read | same |\n")
	fmt.Fprintf(w, "|%s\n", strings.Repeat("---|", 16))
	for _, row := range r.Rows {
		ram := "no limit"
		if row.Fraction > 0 {
			ram = fmt.Sprintf("%.0f %%", 100*row.Fraction)
		}
		if row.Refused != "" {
			fmt.Fprintf(w, "| %s | %s | %d | refused | | | | | | | | | | | | |\n", row.Model, ram, row.Context)
			continue
		}
		fmt.Fprintf(w, "| %s | %s | %d | %.0f MB | %.2f to %.2f | %.2f | %.2f | %+.0f %% | %.2f | %.0f %% | %.1f | %.1f | %.1f | %.0f %% | %.0f MB | %s |\n",
			row.Model, ram, row.Context, float64(row.Streamed)/1e6, row.FlashGBs, row.FlashAfter, row.Decode, row.Predicted.Decode,
			100*(row.Predicted.Decode/row.Decode-1), row.Bound, 100*row.OfBound, row.Prefill, row.Predicted.Prefill,
			row.PrefillBound, 100*row.OfPrefillBound, float64(row.PromptRead)/1e6, yesNo(row.Same))
	}
	fmt.Fprintf(w, "\nRAM is in percent of the bytes of the model's tensors, not of the machine's memory. Speeds are in tokens per second. The decoding speed was predicted within 20 %% in %.0f %% of the configurations.\n", 100*r.Within)
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// WritePlot draws the decoding speed of each model over its budget: a colour for each model, a
// line for each context, rings for predictions.
func (r *BudgetReport) WritePlot(w io.Writer) error {
	c := plot.Chart{
		Title: "Decoding under a memory budget: lines are measured, rings predicted",
		X:     "budget, % of the tensors' bytes", Y: "tokens per second", LogY: true, XTicks: r.budgetPercents(),
	}
	type key struct {
		model   string
		context int
	}
	lines, models, contexts := map[key]int{}, map[string]int{}, map[int]int{}
	for _, row := range r.Rows {
		if row.Fraction == 0 || row.Refused != "" {
			continue
		}
		k := key{row.Model, row.Context}
		at, ok := lines[k]
		if !ok {
			at = len(c.Lines)
			lines[k] = at
			line := plot.Line{
				Name:   fmt.Sprintf("%s, %d", strings.TrimSuffix(row.Model, pack.Suffix), row.Context),
				Dashed: ordinal(contexts, k.context) > 1, Colour: ordinal(models, k.model),
			}
			c.Lines = append(c.Lines, line, plot.Line{Dots: true, Hollow: true, Colour: line.Colour})
		}
		c.Lines[at].Points = append(c.Lines[at].Points, plot.Point{X: 100 * row.Fraction, Y: row.Decode})
		c.Lines[at+1].Points = append(c.Lines[at+1].Points, plot.Point{X: 100 * row.Fraction, Y: row.Predicted.Decode})
	}
	return c.Write(w)
}

// ordinal returns the number of a value, counted from 1 in the order of first use.
func ordinal[T comparable](numbers map[T]int, of T) int {
	if numbers[of] == 0 {
		numbers[of] = len(numbers) + 1
	}
	return numbers[of]
}

// budgetPercents returns the budgets in percent of the tensors' bytes.
func (r *BudgetReport) budgetPercents() (list []float64) {
	for _, row := range r.Rows {
		if row.Fraction > 0 && !slices.Contains(list, 100*row.Fraction) {
			list = append(list, 100*row.Fraction)
		}
	}
	return list
}
