package measure

import (
	"fmt"
	"io"

	"github.com/llmrun/llmrun/internal/plot"
)

// WriteTable writes the report in Markdown: a table and a summary.
func (r *KVReport) WriteTable(w io.Writer) {
	if r.Streamed {
		r.writeStreamed(w)
		return
	}
	fmt.Fprintf(w, "| context | on flash per layer | all in memory | on flash, not prefetched | prefetched | over memory | predicted | error | stalled | flash GB/s |\n")
	fmt.Fprintf(w, "|---|---|---|---|---|---|---|---|---|---|\n")
	for i := range r.Rows {
		row := &r.Rows[i]
		fmt.Fprintf(w, "| %d | %.2f MB | %.1f ms | %.1f ms | %.1f ms | %+.1f %% | %.1f ms | %+.0f %% | %.1f ms | %.2f |\n",
			row.Context, float64(row.Cold)/float64(max(1, r.Layers))/1e6, row.Memory, row.Without, row.With, 100*(row.Ratio-1),
			row.Predicted, 100*(row.Predicted/row.With-1), row.Stalled, row.FlashGBs)
	}
	s := &r.Summary
	fmt.Fprintf(w, "\nMilliseconds per token, medians. %s, %d threads, keys and values in %s, %.0f MB in memory (%.0f tokens), %d bytes per token. Flash reads are %s.\n\n",
		r.Model, r.Threads, r.KV, float64(r.KVRAM)/1e6, s.Hot, r.TokenBytes, r.Flash)
	if s.FlashGBs == 0 {
		fmt.Fprintf(w, "- Nothing was on flash.\n")
		return
	}
	fmt.Fprintf(w, "- The times with all in memory include %+.2f ms for the placement of the other copy of the model.\n", r.PlacementCost)
	fmt.Fprintf(w, "- Where flash keeps up, prefetched is at most %+.1f %% slower than all in memory (%d contexts).\n", 100*(max(s.Masked, 1)-1), s.MaskedRows)
	fmt.Fprintf(w, "- Crossing: predicted at %.0f tokens (%.0f if only the work outside attention hid the reads), measured %s.\n",
		s.PredictedCrossing, s.NarrowCrossing, crossing(s.Crossing, s.PredictedCrossing))
	if s.Work > 0 {
		fmt.Fprintf(w, "- Reading and checking a gigabyte takes %.2f s of processor time.\n", s.Work)
	}
	if s.Beyond > 0 {
		fmt.Fprintf(w, "- Beyond it, 1024 tokens add %.2f ms; their bytes ÷ flash speed are %.2f ms (%+.0f %%).\n",
			s.Beyond, s.PredictedBeyond, 100*(s.Beyond/s.PredictedBeyond-1))
	}
}

// crossing formats the measured crossing and its error.
func crossing(measured, predicted float64) string {
	switch {
	case measured == 0:
		return "in fewer than two contexts"
	case predicted == 0:
		return fmt.Sprintf("at %.0f", measured)
	}
	return fmt.Sprintf("at %.0f (%+.0f %%)", measured, 100*(measured/predicted-1))
}

// writeStreamed writes the report of weights, keys and values on flash.
func (r *KVReport) writeStreamed(w io.Writer) {
	fmt.Fprintf(w, "| context | weights per token | keys and values per token | flash GB/s | per token | bound | of bound |\n|---|---|---|---|---|---|---|\n")
	for i := range r.Rows {
		row := &r.Rows[i]
		fmt.Fprintf(w, "| %d | %.0f MB | %.1f MB | %.2f, %.2f | %.1f ms | %.1f ms | %.0f %% |\n",
			row.Context, float64(row.Weights)/1e6, float64(row.Cold)/1e6, row.WeightsGBs, row.FlashGBs, row.With, row.Predicted, 100*row.Predicted/row.With)
	}
	fmt.Fprintf(w, "\nMilliseconds per token, medians; the flash speeds are those of weights, and of keys and values. The bound is the time for reading their bytes. %s in %.0f MB, %d threads, keys and values in %s, %.0f MB of them in memory.\n\n- At least %.0f %% of the bound.\n",
		r.Model, float64(r.RAM)/1e6, r.Threads, r.KV, float64(r.KVRAM)/1e6, 100*r.Summary.OfBound)
}

// WritePlot draws the time per token over the context.
func (r *KVReport) WritePlot(w io.Writer) error {
	c := plot.Chart{Title: r.Model + ": decoding after a context on flash", X: "context, 1024 tokens", Y: "milliseconds per token"}
	line := func(name string, of func(row *KVRow) (ms float64, ok bool)) plot.Line {
		l := plot.Line{Name: name}
		for i := range r.Rows {
			if ms, ok := of(&r.Rows[i]); ok {
				l.Points = append(l.Points, plot.Point{X: float64(r.Rows[i].Context) / 1024, Y: ms})
			}
		}
		return l
	}
	predicted := line("predicted", func(row *KVRow) (float64, bool) { return row.Predicted, true })
	predicted.Dashed, predicted.Colour = true, 7
	if r.Streamed {
		predicted.Name = "bound of the bytes"
		c.Lines = append(c.Lines, line("prefetched", func(row *KVRow) (float64, bool) { return row.With, true }), predicted)
		return c.Write(w)
	}
	beyond := func(row *KVRow) bool { return r.Summary.Crossing > 0 && float64(row.Context) >= r.Summary.Crossing }
	last := 0 // context of the last row before the crossing, which both lines include
	for i := range r.Rows {
		if !beyond(&r.Rows[i]) {
			last = r.Rows[i].Context
		}
	}
	c.Lines = append(c.Lines,
		line("all in memory", func(row *KVRow) (float64, bool) { return row.Memory, true }),
		line("flash, not prefetched", func(row *KVRow) (float64, bool) { return row.Without, true }),
		line("prefetched", func(row *KVRow) (float64, bool) { return row.With, !beyond(row) }),
		line("prefetched, exceeding", func(row *KVRow) (float64, bool) { return row.With, beyond(row) || row.Context == last }),
		predicted,
	)
	if x := r.Summary.PredictedCrossing / 1024; x > 0 && len(r.Rows) > 0 && x*1024 <= float64(r.Rows[len(r.Rows)-1].Context) {
		top := 0.0
		for i := range r.Rows {
			top = max(top, r.Rows[i].With, r.Rows[i].Without)
		}
		c.Lines = append(c.Lines, plot.Line{Name: "crossing, predicted", Dashed: true, Colour: 4, Points: []plot.Point{{X: x, Y: 0}, {X: x, Y: top}}})
	}
	return c.Write(w)
}
