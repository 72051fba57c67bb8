package exec

import (
	"context"

	"github.com/llmrun/llmrun/exec/weights"
)

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
	return c.Open(ctx, ld.AddRead)
}
