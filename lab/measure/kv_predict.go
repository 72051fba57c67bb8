package measure

import (
	"math"

	"github.com/llmrun/llmrun/internal/bench"
)

// KVSummary summarizes the rows. Unknown contexts and times are 0.
type KVSummary struct {
	FlashGBs float64 `json:"flash_gb_s"` // median
	// Fixed and Slope are a line through the rows: the time per token with all in memory, and its
	// growth per 1024 tokens of context.
	Fixed float64 `json:"memory_ms"`
	Slope float64 `json:"memory_ms_per_1024"`
	Hot   float64 `json:"hot_tokens"` // tokens that stay in memory, on average

	// PredictedCrossing is the context from which reading the cold pages of a layer takes longer
	// than the computation of a layer. NarrowCrossing counts only the computation outside
	// attention. Crossing is the measured one.
	PredictedCrossing float64 `json:"predicted_crossing"`
	NarrowCrossing    float64 `json:"predicted_crossing_without_attention"`
	Crossing          float64 `json:"crossing"`
	// Milliseconds per 1024 tokens beyond the crossing: predicted as their bytes ÷ flash, and as a
	// line through the rows.
	PredictedBeyond float64 `json:"predicted_ms_per_1024_beyond"`
	Beyond          float64 `json:"ms_per_1024_beyond"`
	// Masked is the worst ratio to the time in memory, of rows with cold bytes where flash keeps
	// up: 1 means that prefetch hides all reads.
	Masked     float64 `json:"worst_ratio_before_crossing"`
	MaskedRows int     `json:"rows_before_crossing"`
	// Work is the extra processor time of those rows over all in memory, in seconds per gigabyte
	// read; 0 = unknown.
	Work float64 `json:"processor_s_per_gb,omitempty"`
	// OfBound is, with weights on flash, the worst ratio of the bound of the bytes to the time.
	OfBound float64 `json:"of_bound,omitempty"`
}

// summarize predicts the rows and fills in the summary.
func (r *KVReport) summarize() {
	s := &r.Summary
	var speeds, hot []float64
	for i := range r.Rows {
		row := &r.Rows[i]
		if row.FlashGBs > 0 {
			speeds = append(speeds, row.FlashGBs)
		}
		if row.Cold > 0 {
			hot = append(hot, float64(row.Context)-float64(row.Cold)/float64(r.TokenBytes))
		}
	}
	if len(speeds) > 0 {
		s.FlashGBs = bench.Median(speeds)
	}
	if len(hot) > 0 {
		s.Hot = mean(hot)
	}
	if r.Streamed {
		r.bound()
		return
	}
	s.Fixed, s.Slope = kvLine(r.Rows, func(row *KVRow) float64 { return row.Memory })
	s.Fixed, s.Slope = max(0, s.Fixed), 1024*s.Slope
	var read int64   // per token, over rows
	var more float64 // milliseconds of the processors
	for i := range r.Rows {
		row := &r.Rows[i]
		row.Predicted = max(row.Memory, r.flashTime(row))
		if row.Cold > 0 && row.Predicted == row.Memory {
			s.MaskedRows++
			s.Masked = max(s.Masked, row.Ratio)
			read += row.Read
			more += row.WithWork - row.MemoryWork
		}
	}
	if read > 0 {
		s.Work = max(0, 1e6*more/float64(read))
	}
	r.predictCrossing()
	r.findCrossing()
}

// bound predicts rows with weights on flash: flash reads both kinds of bytes in sequence.
func (r *KVReport) bound() {
	r.Summary.OfBound = math.Inf(1)
	for i := range r.Rows {
		row := &r.Rows[i]
		row.Predicted = msOf(row.Cold, row.FlashGBs) + msOf(row.Weights, row.WeightsGBs)
		r.Summary.OfBound = min(r.Summary.OfBound, row.Predicted/row.With)
	}
}

// msOf returns the milliseconds for bytes at a speed.
func msOf(bytes int64, gbs float64) float64 {
	if bytes == 0 || gbs == 0 {
		return 0
	}
	return float64(bytes) / gbs / 1e6
}

// flashTime returns the time per token that flash reads or waits. Flash waits when the output
// matrix takes so long that the ring fills up.
func (r *KVReport) flashTime(row *KVRow) float64 {
	if row.Cold == 0 {
		return 0
	}
	return msOf(row.Cold, row.FlashGBs) + r.idle(row.FlashGBs)
}

func (r *KVReport) idle(gbs float64) float64 {
	return max(0, r.Summary.Fixed*r.HeadFraction-msOf(r.Ring, gbs))
}

// predictCrossing finds the context where the line of the time in memory meets that of flash.
func (r *KVReport) predictCrossing() {
	s := &r.Summary
	if s.FlashGBs == 0 {
		return
	}
	per := msOf(r.TokenBytes, s.FlashGBs) // per token of context
	s.PredictedBeyond = 1024 * per
	s.NarrowCrossing = s.Hot + s.Fixed*(1-r.HeadFraction)/per
	if slope := s.Slope / 1024; per > slope {
		s.PredictedCrossing = (s.Fixed - r.idle(s.FlashGBs) + per*s.Hot) / (per - slope)
	}
}

const (
	// A row is beyond the crossing if flash is busy for at least kvBusy of the time per token, and
	// that time is at least kvOver times the time in memory.
	kvBusy, kvOver = 0.9, 1.05
	// kvNear is the number of rows beyond the crossing that locate it.
	kvNear = 3
)

// findCrossing finds the context where flash becomes the bottleneck. A line through the extra time
// of the first rows with a busy flash is zero there. The processor time of reads before the
// crossing does not count.
func (r *KVReport) findCrossing() {
	s := &r.Summary
	first := len(r.Rows) // of the rows beyond
	for ; first > 0; first-- {
		if row := &r.Rows[first-1]; r.flashTime(row) < kvBusy*row.With || row.Ratio < kvOver {
			break
		}
	}
	beyond := r.Rows[first:]
	if len(beyond) < 2 {
		return
	}
	fixed, slope := kvLine(beyond[:min(kvNear, len(beyond))], func(row *KVRow) float64 { return row.With - row.Memory })
	if slope > 0 {
		s.Crossing = max(s.Hot, -fixed/slope)
	}
	_, s.Beyond = kvLine(beyond, func(row *KVRow) float64 { return row.With })
	s.Beyond *= 1024
}

// kvLine fits a line to a value of rows over their contexts, by least squares.
func kvLine(rows []KVRow, of func(row *KVRow) float64) (fixed, slope float64) {
	var x, y []float64
	for i := range rows {
		x, y = append(x, float64(rows[i].Context)), append(y, of(&rows[i]))
	}
	mx, my := mean(x), mean(y)
	var xy, xx float64
	for i := range x {
		xy += (x[i] - mx) * (y[i] - my)
		xx += (x[i] - mx) * (x[i] - mx)
	}
	if xx > 0 {
		slope = xy / xx
	}
	return my - slope*mx, slope
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(max(1, len(values)))
}
