package exec

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/tiering"
)

// Paused is a model between two passes.
type Paused struct{ m *Model }

// Pause runs f between two passes. Until f returns, no pass begins, and no sequence grows or is restored: what f
// reads of the memory of keys and values stays true. f must not call methods of the model that wait for a pass.
func (m *Model) Pause(f func(p Paused) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	return f(Paused{m})
}

// Replan applies another plan to the model, between two passes. It first frees the weights that
// the new plan does not pin. It then reads the weights that the plan adds, a few megabytes at a
// time; passes may run in between. Logits do not change. A model that was loaded without a plan
// keeps all of its weights, and Replan returns an error if the plan streams some. Layers and rows on
// a device are in no plan, and with a device the chunk stays. After an error the model keeps working,
// with the residency that was reached.
func (m *Model) Replan(ctx context.Context, plan *tiering.Plan) error {
	if err := m.Pause(func(p Paused) error { return p.Apply(ctx, plan) }); err != nil {
		return err
	}
	return m.Grow(ctx, plan)
}

// Apply is the first part of Replan: it frees what the plan does not contain, and reads weights that it adds if these
// are few. [Model.Grow] is the rest.
func (p Paused) Apply(ctx context.Context, plan *tiering.Plan) error {
	m, r := p.m, p.m.residency
	m.passes.expect(plan)
	if r == nil {
		return m.replanResident(plan)
	}
	if err := r.Check(plan); err != nil {
		return err
	}
	return m.changeResidency(plan, func() error {
		if err := m.shrinkTo(plan); err != nil {
			return err
		}
		if r.BytesToGrow(plan) < weights.GrowBytes { // too little to justify a ring while it is read
			return r.GrowPartly(ctx, plan)
		}
		return nil
	})
}

// Grow reads the weights that a plan pins and that are not in memory yet, after [Paused.Apply]. Passes may run
// meanwhile. After an error the model streams what is missing.
func (m *Model) Grow(ctx context.Context, plan *tiering.Plan) (err error) {
	r := m.residency
	if r == nil {
		return nil
	}
	for err == nil && r.BytesToGrow(plan) > 0 {
		err = m.betweenPasses(plan, func() error { return r.GrowPartly(ctx, plan) })
	}
	if err == nil && r.Experts != nil {
		err = m.betweenPasses(plan, func() error { return r.Experts.Resize(plan.ExpertSlots) })
	}
	return err
}

// shrinkTo frees the weights that a plan does not pin, and resizes the ring for keys and values, the
// pass's buffers and the embedding lookup. The caller holds m.mu.
func (m *Model) shrinkTo(plan *tiering.Plan) error {
	m.kvReader.SetRing(plan.KVRing)
	if plan.KVInStream {
		m.kvReader.Release()
	}
	if err := m.residency.BypassCache(plan); err != nil {
		return err
	}
	if err := m.residency.Shrink(plan); err != nil {
		return err
	}
	if err := m.setChunk(plan.Chunk); err != nil {
		return err
	}
	// Without room in the budget, the lookup keeps one reader.
	err := m.embedding.Resize(m.budget, m.weights.LookupMemory(plan).Readers)
	if errors.Is(err, tiering.ErrBudget) {
		return nil
	}
	return err
}

// replanResident is Replan for a model whose weights are all resident.
func (m *Model) replanResident(plan *tiering.Plan) error {
	if plan.Resident() {
		m.kvReader.SetRing(plan.KVRing)
		return m.setChunk(plan.Chunk)
	}
	return fmt.Errorf("%w: only weights that were loaded with a plan can be streamed", tiering.ErrBudget)
}

// setChunk changes the tokens of a prefill chunk; 0 leaves it. It frees the old buffers before
// it allocates the new ones. The caller holds m.mu.
func (m *Model) setChunk(n int) error {
	if m.offload != nil || m.offloadedLayers != nil { // a device's kernels are compiled for the chunk
		return nil
	}
	old := m.pass.chunk
	if n <= 0 || n == old && m.pass.frame != nil {
		return nil
	}
	m.pass.free()
	pass, err := newPass(m, n)
	if err != nil {
		var retryErr error
		if pass, retryErr = newPass(m, old); retryErr != nil {
			return err // the pass has no buffers; retryAllocations tries again
		}
	}
	setPass(m, pass)
	return err
}

// retryAllocations retries the allocations that a Replan could not make. The caller holds m.mu.
func (m *Model) retryAllocations() error {
	if m.pass.frame == nil {
		if err := m.setChunk(m.pass.chunk); err != nil {
			return err
		}
	}
	if m.residency != nil && m.residency.NoRing {
		if err := m.residency.Restart(m.residency.Plan); m.residency.NoRing {
			return err
		}
	}
	return nil
}

// betweenPasses changes the weight residency while no pass runs and the stream is stopped. A nil
// plan is the current one.
func (m *Model) betweenPasses(plan *tiering.Plan, change func() error) error {
	return m.Pause(func(Paused) error { return m.changeResidency(plan, change) })
}

// changeResidency is betweenPasses; the caller holds m.mu.
func (m *Model) changeResidency(plan *tiering.Plan, change func() error) error {
	if m.residency == nil {
		return change()
	}
	if plan == nil {
		plan = m.residency.Plan
	}
	before := cmp.Or(m.residency.Plan, plan)
	m.residency.Stop()
	err := change()
	m.residency.Promoting = m.residency.MapFirst && m.residency.Mapped // there may be room to promote now
	if err != nil {                                                    // the ring of the plan may need memory that was to be freed
		_ = m.residency.Restart(before, plan)
	} else {
		err = m.residency.Restart(plan, before)
	}
	if err != nil {
		m.residency.Plan = before
	}
	return err
}

// TrimCache frees, between two passes, KV memory that no sequence uses.
func (m *Model) TrimCache() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cache.Compact()
}

// TrimCache is [Model.TrimCache].
func (p Paused) TrimCache() { p.m.cache.Compact() }

// CacheEmbeddingRows turns the embedding row cache on or off. It holds often used rows of an
// embedding on flash; without it, each lookup reads flash.
func (p Paused) CacheEmbeddingRows(on bool) {
	p.m.embedding.Cache.Enable(on)
	if table := p.m.embedding.Table; table != nil {
		table.Cache.Enable(on)
	}
}
