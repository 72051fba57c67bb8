package exec

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/weights"
)

// guessExperts runs the layer's router before attention. Its choice approximates the choice
// after attention, so the expert cache can read missing experts while attention runs.
func (e *experts) guessExperts() {
	s, cache, router := e.m.Spec, e.m.experts, &e.w.Router
	if cache == nil || cache.Slots() == cache.Count || router.Streamed.Count > 0 {
		return // all experts are in memory, or the stream delivers the router only after attention's weights
	}
	if !e.anyWanted(0, e.n) {
		return // no row continues to the experts
	}
	in := e.x
	if s.PreNorm && s.Parallel != arch.ParallelSharedNorm {
		norm := &e.w.FFNNorm
		if s.DenseBeside {
			norm = &e.w.Beside.Router
		}
		in = e.queueNorm(norm)
	}
	e.mm.queue(router, in, e.n, e.routing.logits)
	e.mm.run()
	e.rankGuesses()
	ready := e.routing.ready
	cache.Guess(e.index, ready[:min(len(ready), cache.Slots()/weights.SlotsPerGuess)])
}

// rankGuesses lists the experts that rows are likely to choose, in descending order of the number
// of rows.
func (e *experts) rankGuesses() {
	r := &e.routing
	clear(r.first)
	r.ready = r.ready[:0]
	for row := range e.n {
		if e.anyWanted(row, 1) {
			e.countGuesses(row)
		}
	}
	slices.SortStableFunc(r.ready, func(a, b int32) int { return cmp.Compare(r.first[b], r.first[a]) })
}

// countGuesses adds a row's best experts to ready, and counts in first how many rows chose each.
func (e *experts) countGuesses(row int) {
	s, r := e.m.Spec, &e.routing
	logits := r.logits[row*s.Experts : (row+1)*s.Experts]
	for range s.ExpertsUsed {
		best := 0
		for i, v := range logits {
			if v > logits[best] {
				best = i
			}
		}
		logits[best] = float32(math.Inf(-1))
		if r.first[best] == 0 {
			r.ready = append(r.ready, int32(best))
		}
		r.first[best]++
	}
}

// ExpertStats returns the statistics of the expert cache.
func (m *Model) ExpertStats() weights.ExpertStats {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.experts == nil {
		return weights.ExpertStats{}
	}
	return m.experts.Snapshot()
}

// openExperts creates the cache of a pack's experts and, if it has a slot for each, reads all of
// them.
func openExperts(ctx context.Context, m *Model, ld *weights.Loader, o *Options) error {
	if len(ld.CachedExperts) == 0 {
		return nil
	}
	c, err := weights.NewExpertCache(ld, o.Plan.ExpertSlots, o.Experts)
	if err != nil {
		return err
	}
	m.frames = append(m.frames, c.Frame)
	m.experts, m.residency.Experts = c, c
	return c.Open(ctx, m.scheduler, ld.AddRead)
}
