package exec

import (
	"slices"
	"time"

	"github.com/llmrun/llmrun/exec/weights"
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
