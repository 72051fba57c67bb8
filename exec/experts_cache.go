package exec

import (
	"context"

	"github.com/llmrun/llmrun/exec/weights"
)

// ExpertStats returns how well the memory for experts served.
func (m *Model) ExpertStats() weights.ExpertStats {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.experts == nil {
		return weights.ExpertStats{}
	}
	return m.experts.Snapshot()
}

// openExperts makes the cache of a pack's experts and reads them, if it holds all.
func openExperts(ctx context.Context, m *Model, ld *weights.Loader, o *Options) error {
	if len(ld.Cold) == 0 {
		return nil
	}
	c, err := weights.NewExpertCache(ld, o.Plan.ExpertSlots, o.Experts)
	if err != nil {
		return err
	}
	m.frames = append(m.frames, c.Frame)
	m.experts, m.residency.Experts = c, c
	return c.Open(ctx, ld.Arrived)
}
