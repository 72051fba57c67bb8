package exec

import (
	"slices"
	"time"

	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/internal/trace"
)

// statsOf returns the statistics of the matrices of one kind, and counts one more of them.
func (a *offloadDevice) statsOf(p weights.Matmul, split weights.RowSplit) *weights.SplitMatmul {
	for _, r := range a.stats {
		known := r.Matmul
		if known.Count = 0; known == p && r.Split == split {
			r.Count++
			return r
		}
	}
	p.Count = 1
	r := &weights.SplitMatmul{Matmul: p, Split: split}
	a.stats = append(a.stats, r)
	return r
}

// countStats assigns the matrices of all layouts their statistics.
func (a *offloadDevice) countStats(w *weights.Weights, layouts []weights.Layout) {
	for i := range layouts {
		for _, m := range w.Splittable(&layouts[i]) {
			o := m.Matrix.Offload
			o.Matmul = a.statsOf(o.Matmul.Matmul, o.RowSplit)
		}
	}
}

// record adds a completed step to the statistics. hostDone is the time at which the CPU's rows
// were complete.
func (a *offloadPass) record(matmuls []matmul, hostDone time.Duration) {
	if len(matmuls) == 0 || matmuls[0].w.Offload == nil {
		return
	}
	predicted, ok := a.predictedStep(matmuls)
	if !ok {
		return
	}
	mul := &matmuls[0]
	s := &mul.w.Offload.Matmul.Single
	if mul.w.Offload.Batched(mul.n) {
		s = &mul.w.Offload.Matmul.Batch
	}
	now := a.Device.Clock().Now()
	s.Steps++
	s.Tokens += mul.n
	s.Predicted += predicted
	s.Took += now - a.begun
	if len(a.work) > 0 {
		s.Waited += now - hostDone
	}
}

// predictedStep returns the predicted time of a step. ok is false if the plan does not cover the
// step's number of tokens.
func (a *offloadPass) predictedStep(matmuls []matmul) (sum time.Duration, ok bool) {
	for i := range matmuls {
		w, n := matmuls[i].w.Offload, matmuls[i].n
		if w == nil {
			continue
		}
		if n > 1 && (w.Matmul.LastTokenOnly || !w.Batched(n)) {
			return 0, false
		}
		sum += a.predicted(w, n)
	}
	return sum, true
}

// SplitStats returns the split of the matmuls (see Options.Split) and their measured times.
func (m *Model) SplitStats() []weights.SplitMatmul {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.offload == nil {
		return nil
	}
	list := make([]weights.SplitMatmul, len(m.offload.stats))
	for i, r := range m.offload.stats {
		list[i] = *r
	}
	slices.SortStableFunc(list, func(a, b weights.SplitMatmul) int { // the output matrix is loaded first and used last
		switch {
		case a.LastTokenOnly == b.LastTokenOnly:
			return 0
		case a.LastTokenOnly:
			return 1
		}
		return -1
	})
	return list
}

// offloadTrace records the steps of a split pass: the host's work, and when the device completed
// its rows.
type offloadTrace struct {
	recorder         *trace.Recorder // nil: no trace
	host, device     *trace.Lane
	begun, submitted time.Duration // of the current step
}

func newOffloadTrace(r *trace.Recorder, device string) offloadTrace {
	return offloadTrace{recorder: r, host: r.Lane("host", "split steps"), device: r.Lane(device, "offloaded rows")}
}

// record records a completed step. hostDone is when the host's rows were complete.
func (t *offloadTrace) record(clock hetero.Clock, matmuls []matmul, work []offloadedWork, hostDone time.Duration) {
	if t.recorder == nil || len(work) == 0 {
		return
	}
	end, zero := time.Duration(0), t.recorder.Now()-clock.Now()
	for i := range work {
		end = t.recordRows(&work[i], &matmuls[work[i].matmul], end, zero)
	}
	name := matmuls[work[0].matmul].w.Offload.Matmul.Name
	t.host.Span("submit "+name, t.begun, t.submitted, nil)
	t.host.Span("host rows of "+name, t.submitted, hostDone, nil)
	t.host.Span("wait for "+name, hostDone, work[len(work)-1].observed, nil)
}

// recordRows records the device's work on the rows of one matmul, which begins after the
// previous work, and returns its end. zero is the trace's time at the zero of the device's
// clock.
func (t *offloadTrace) recordRows(w *offloadedWork, mul *matmul, after, zero time.Duration) (end time.Duration) {
	args := map[string]any{"tokens": mul.n, "rows": mul.w.Offload.Ranges[w.part].Rows}
	begin := max(w.submitted, after)
	if timed, ok := w.ticket.(hetero.Timed); ok {
		from, to := timed.Ran()
		begin, end = zero+from, zero+to
	} else { // the end is the observation, which may be much later
		end, args["end"] = w.observed, "observed by the host"
	}
	t.device.Span(mul.w.Offload.Matmul.Name, begin, end, args)
	return end
}
