package measure

import (
	"fmt"
	"io"
	"slices"
)

// WriteTable writes the report in Markdown.
func (r *RecallReport) WriteTable(w io.Writer) {
	fmt.Fprintf(w, "| KV | context | mode | passkeys | notes | other answers than | ms a token | read of flash | for the first question | times as fast |\n|---|---|---|---|---|---|---|---|---|---|\n")
	for i := range r.Rows {
		r.Rows[i].write(w)
	}
	fmt.Fprintf(w, "\n| KV | questions | context | asked | exact | selection %s | points lost | counts |\n|---|---|---|---|---|---|---|---|\n", r.Selection)
	for _, k := range r.Kinds {
		counts := "yes"
		if !k.Counts {
			counts = "no"
		}
		lost, margin := k.Points()
		fmt.Fprintf(w, "| %s | %s | %d | %d | %d (%.0f %%) | %d (%.0f %%) | %.1f ± %.1f | %s |\n", k.KV, k.Kind, k.Context, k.Asked,
			k.Exact, percent(k.Exact, k.Asked), k.Select, percent(k.Select, k.Asked), lost, margin, counts)
	}
	fmt.Fprintf(w, "\nQuestions that count:\n\n| KV | questions | asked | exact | selection %s | only exact | only selection | points lost (95 %%) |\n|---|---|---|---|---|---|---|---|\n", r.Selection)
	for _, v := range r.Verdicts {
		if v.Asked > 0 {
			fmt.Fprintf(w, "| %s | %s | %d | %d | %d | %d | %d | %.1f ± %.1f |\n", v.KV, v.Kind, v.Asked, v.Exact, v.Select, v.Lost, v.Won, v.Points, v.Margin)
		}
	}
	fmt.Fprintf(w, "\n%d documents, %d at once, %d threads each.\n", r.Documents, r.Jobs, r.Threads)
	for _, failure := range r.Failures {
		fmt.Fprintf(w, "Not reached: %s.\n", failure)
	}
}

func (x *RecallRow) write(w io.Writer) {
	fmt.Fprintf(w, "| %s | %d | %s |", x.KV, x.Context, x.Mode)
	for _, kind := range factKinds {
		if i := slices.IndexFunc(x.Scores, func(s RecallScore) bool { return s.Kind == kind }); i >= 0 {
			s := x.Scores[i]
			fmt.Fprintf(w, " %d of %d (%.0f %%)", s.Right, s.Asked, percent(s.Right, s.Asked))
		}
		fmt.Fprintf(w, " |")
	}
	if x.Same != "" {
		fmt.Fprintf(w, " %s: %d", x.Same, x.Different)
	}
	fmt.Fprintf(w, " | %.1f |", x.TokenMS)
	if x.ColdRead > 0 {
		fmt.Fprintf(w, " %.1f %%", 100*x.ColdRead)
	}
	fmt.Fprintf(w, " |")
	if x.FirstRead > 0 {
		fmt.Fprintf(w, " %.0f %%", 100*x.FirstRead)
	}
	fmt.Fprintf(w, " |")
	if x.Faster > 0 {
		fmt.Fprintf(w, " %.1f", x.Faster)
	}
	fmt.Fprintf(w, " |\n")
}

func percent(part, all int) float64 {
	if all == 0 {
		return 0
	}
	return 100 * float64(part) / float64(all)
}
