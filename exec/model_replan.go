package exec

import (
	"context"
	"errors"
	"fmt"

	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/tiering"
)

// Replan makes the model follow another plan, between two passes. What the plan
// keeps less is given back before anything else; what it keeps more is read a few
// layers at a time, while passes may run in between. Logits stay what they are. A
// model that was not loaded from a pack, or has its weights on a device, keeps all of
// them, and a plan that asks for something else is refused. On an error, memory is as
// the error left it and the model goes on working.
func (m *Model) Replan(ctx context.Context, plan *tiering.Plan) error {
	r := m.residency
	if r == nil {
		return m.between(nil, func() error { return m.replanWhole(plan) })
	}
	if err := r.Check(plan); err != nil {
		return err
	}
	err := m.between(plan, func() error {
		if !plan.Resident() {
			if err := r.File.BypassCache(); err != nil {
				return err
			}
		}
		if err := r.Shrink(plan); err != nil {
			return err
		}
		if err := m.setChunk(plan.Chunk); err != nil {
			return err
		}
		// Rows are looked up with one reader too.
		if err := m.embedding.Resize(m.budget, m.weights.RowMemory(plan).Readers); err != nil && !errors.Is(err, tiering.ErrBudget) {
			return err
		}
		if r.ToGrow(plan) < weights.GrowStep { // too little to leave room for a ring until it is read
			return r.GrowSome(ctx, plan)
		}
		return nil
	})
	for err == nil && r.ToGrow(plan) > 0 {
		err = m.between(plan, func() error { return r.GrowSome(ctx, plan) })
	}
	if err == nil && r.Experts != nil {
		err = m.between(plan, func() error { return r.Experts.Resize(plan.ExpertSlots) })
	}
	return err
}

// replanWhole is Replan for a model whose weights stay where they are.
func (m *Model) replanWhole(plan *tiering.Plan) error {
	apart := m.offloadedLayers != nil || m.offload != nil
	switch {
	case plan.Resident() && apart:
		return nil // the device's kernels are made for the chunk that there is
	case plan.Resident():
		return m.setChunk(plan.Chunk)
	case apart:
		return fmt.Errorf("%w: weights that a device has, or a part of, stay where they are", tiering.ErrBudget)
	}
	return fmt.Errorf("%w: only weights of a pack, loaded with a plan and as they are, can be read piece by piece", tiering.ErrBudget)
}

// setChunk changes how many tokens of a prompt are computed together; 0 leaves it.
// The memory of the old buffers serves for the new ones. The model is locked.
func (m *Model) setChunk(n int) error {
	old := m.pass.chunk
	if n <= 0 || n == old && m.pass.frame != nil {
		return nil
	}
	m.pass.free()
	pass, err := newPass(m, n)
	if err != nil {
		var again error
		if pass, again = newPass(m, old); again != nil {
			return err // without buffers: ready tries again
		}
	}
	m.pass = pass
	return err
}

// ready takes memory that a change of plan did not get. The model is locked.
func (m *Model) ready() error {
	if m.pass.frame == nil {
		if err := m.setChunk(m.pass.chunk); err != nil {
			return err
		}
	}
	if m.residency != nil && m.residency.Idle {
		return m.residency.Start(m.residency.Plan)
	}
	return nil
}

// between changes the residency while no pass runs and nothing is read. plan is
// nil where weights are not streamed.
func (m *Model) between(plan *tiering.Plan, change func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	if m.residency == nil {
		return change()
	}
	m.residency.Stop()
	err := change()
	m.residency.Settling = m.residency.MapFirst && m.residency.Mapped // there may be room now
	if started := m.residency.Start(plan); err == nil {
		err = started
	}
	return err
}

// TrimCache gives memory for keys and values back that no sequence uses.
func (m *Model) TrimCache() { m.cache.Trim() }

// CacheEmbeddingRows says whether rows of an embedding on flash that are used often are kept
// in memory. Without them each is read when it is used.
func (m *Model) CacheEmbeddingRows(on bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed {
		m.embedding.Kept.Keep(on)
	}
}
