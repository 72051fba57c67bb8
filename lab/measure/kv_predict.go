package measure

import (
	"math"

	"github.com/llmrun/llmrun/internal/bench"
)

// KVSummary is what the rows say together. Contexts and times that cannot be told
// are 0.
type KVSummary struct {
	FlashGBs float64 `json:"flash_gb_s"` // median
	// A token with all in memory takes Fixed and Slope for each 1024 tokens of
	// context, a line through the rows.
	Fixed float64 `json:"memory_ms"`
	Slope float64 `json:"memory_ms_per_1024"`
	Hot   float64 `json:"hot_tokens"` // that stay in memory, on average

	// PredictedCrossing is the context from which on flash takes longer to bring what
	// is cold of a layer than the layer's other work does, that on keys and values
	// that have come included. NarrowCrossing hides the reads behind the work besides
	// attention only. Crossing is where the measurements cross.
	PredictedCrossing float64 `json:"predicted_crossing"`
	NarrowCrossing    float64 `json:"predicted_crossing_without_attention"`
	Crossing          float64 `json:"crossing"`
	// Beyond it each 1024 tokens take so many milliseconds: their bytes ÷ flash, and
	// a line through the rows.
	PredictedBeyond float64 `json:"predicted_ms_per_1024_beyond"`
	Beyond          float64 `json:"ms_per_1024_beyond"`
	// Masked is the most that a row with cold bytes took of its time in memory, of
	// those where flash needs no longer than that: 1 is as fast.
	Masked     float64 `json:"worst_ratio_before_crossing"`
	MaskedRows int     `json:"rows_before_crossing"`
	// Work is how long, in those rows, the processors computed more than with all in
	// memory, in seconds for each gigabyte that was read; 0 where nobody knows.
	Work float64 `json:"processor_s_per_gb,omitempty"`
	// OfBound is, with weights on flash, the least share of the speed that the bytes
	// of both allow.
	OfBound float64 `json:"of_bound,omitempty"`
}

// summarize predicts the rows and finds what they say together.
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
	var read int64   // for a token of each row
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

// bound predicts rows with weights on flash: both kinds of bytes come one after
// the other.
func (r *KVReport) bound() {
	r.Summary.OfBound = math.Inf(1)
	for i := range r.Rows {
		row := &r.Rows[i]
		row.Predicted = msOf(row.Cold, row.FlashGBs) + msOf(row.Weights, row.WeightsGBs)
		r.Summary.OfBound = min(r.Summary.OfBound, row.Predicted/row.With)
	}
}

// msOf returns how long bytes take at a speed.
func msOf(bytes int64, gbs float64) float64 {
	if bytes == 0 || gbs == 0 {
		return 0
	}
	return float64(bytes) / gbs / 1e6
}

// flashTime returns for how long flash is busy, or must wait, during a token: the
// ring is full while the output matrix is computed, if that takes long.
func (r *KVReport) flashTime(row *KVRow) float64 {
	if row.Cold == 0 {
		return 0
	}
	return msOf(row.Cold, row.FlashGBs) + r.idle(row.FlashGBs)
}

func (r *KVReport) idle(gbs float64) float64 {
	return max(0, r.Summary.Fixed*r.HeadFraction-msOf(r.Ring, gbs))
}

// predictCrossing finds where the lines meet that a token's time in memory and the
// time of flash are of the context.
func (r *KVReport) predictCrossing() {
	s := &r.Summary
	if s.FlashGBs == 0 {
		return
	}
	per := msOf(r.TokenBytes, s.FlashGBs) // of a token of context
	s.PredictedBeyond = 1024 * per
	s.NarrowCrossing = s.Hot + s.Fixed*(1-r.HeadFraction)/per
	if slope := s.Slope / 1024; per > slope {
		s.PredictedCrossing = (s.Fixed - r.idle(s.FlashGBs) + per*s.Hot) / (per - slope)
	}
}

const (
	// kvBusy is the share of a token's time for which flash is busy where it no longer
	// keeps up, and kvOver how much of its time in memory such a token takes.
	kvBusy, kvOver = 0.9, 1.05
	// kvNear is how many rows beyond the crossing say where it is.
	kvNear = 3
)

// findCrossing finds where the measurements leave those in memory. What flash takes
// longer is a line over the first rows in which it is always busy: the crossing is
// where that begins. What reading costs the processor before it does not count.
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

// kvLine returns the line through something of rows over their contexts that has
// the least squares.
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
