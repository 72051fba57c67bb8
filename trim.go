package llmrun

import (
	"context"
	"errors"
	"fmt"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/tiering"
)

// SetBudget changes the budget of Options.Memory.RAM while the engine is in use. 0 means the
// available memory plus what the engine holds.
//
// If the engine holds more than the new budget, SetBudget releases memory before it returns,
// weights first; the engine then streams them from flash. If the budget is larger, the engine
// loads weights while generations continue. The budget does not change the answers. SetBudget
// undoes Trim.
//
// SetBudget returns a [*MinimumError], and changes nothing, if the budget is smaller than
// what must be in memory, sessions included. It returns ErrBudget if the budget does not hold
// weights that cannot be streamed, because the device of a split computes whole passes. It
// returns ErrReplaced if the file of the pack was moved or replaced. A session that later outgrows the budget ends with ErrBudget.
func (e *Engine) SetBudget(ram int64) error {
	opts := Options{Memory: MemoryOptions{RAM: ram}}
	if err := opts.validate(); err != nil {
		return err
	}
	m := &e.mem
	m.mu.Lock()
	defer m.mu.Unlock()
	budget := opts.limit()
	if ram == 0 && budget > 0 {
		budget += m.committedBytes() // available memory excludes it
	}
	program, before := m.wantedProgram(ram), m.program
	m.need.Heap += program - before
	if err := e.applyWithRepair(context.Background(), budget, false); err != nil {
		m.need.Heap -= program - before
		return err
	}
	if err := m.programLease.Resize(program); err != nil { // a session has taken the memory meanwhile
		m.need.Heap -= program - before
		return errors.Join(err, e.applyBudget(context.Background(), m.ownerBudget, false))
	}
	m.program = program
	m.ownerBudget, m.level = budget, TrimNone
	if ram > 0 {
		m.limitHeap()
	} else {
		heapLimits.update(m, heapUse{})
	}
	return nil
}

// committedBytes returns the memory that the system does not count as available.
func (m *memory) committedBytes() int64 {
	u := m.budget.Usage()
	return u.Total - u.By[tiering.Code] - u.By[tiering.Heap] - u.By[tiering.Driver] - u.By[tiering.Mapped]
}

// smaller returns the smaller of two budgets, where 0 means no limit.
func smaller(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// shrinkTo applies a budget, or the minimum if that is more. The caller holds e.mem.mu.
func (e *Engine) shrinkTo(ctx context.Context, budget int64, lean bool) error {
	err := e.applyWithRepair(ctx, budget, lean)
	// The memory of sessions can change in between, so that a second refusal is possible, but
	// many are not.
	var refused *MinimumError
	for range 8 {
		if !errors.As(err, &refused) || smaller(e.mem.ownerBudget, refused.Minimum) != refused.Minimum {
			break
		}
		err = e.applyWithRepair(ctx, refused.Minimum, lean)
	}
	return err
}

// applyWithRepair is applyBudget for a budget that must also have room for the repair of the engine's
// pack. The caller holds e.mem.mu.
func (e *Engine) applyWithRepair(ctx context.Context, budget int64, lean bool) error {
	m := &e.mem
	if m.repair > 0 {
		m.need.Heap += m.repair
		_, err := e.replan(budget, false)
		m.need.Heap -= m.repair
		if err != nil {
			return err
		}
	}
	return e.applyBudget(ctx, budget, lean)
}

// applyBudget makes the engine follow another budget, 0 for none. lean omits buffers that
// only make streaming smoother. The caller holds e.mem.mu.
func (e *Engine) applyBudget(ctx context.Context, budget int64, lean bool) error {
	m := &e.mem
	e.model.TrimCache()
	before, stays := m.budget.Limit(), false
	refuse := func(err error) error { // those that were refused memory continue with the old budget
		m.budget.SetLimit(before)
		_ = e.model.SetHot(m.current.KVHot)
		e.model.CacheEmbeddingRows(m.level == TrimNone)
		return err
	}
	for range 8 {
		if err := ctx.Err(); err != nil {
			return refuse(err)
		}
		plan, err := e.replan(budget, stays)
		switch {
		case err != nil && stays:
			return refuse(err)
		case err != nil:
			return err
		}
		if lean {
			plan = plan.Lean(m.shape)
			e.model.CacheEmbeddingRows(false)
		}
		switch spilled, err := e.spillTo(plan); {
		case err != nil:
			return err
		case !spilled && !stays:
			stays = true
			continue
		}
		e.freeDrafts(plan.By[tiering.Drafts])
		if before != 0 && smaller(before, budget) == before {
			m.budget.SetLimit(budget)
		}
		if err := e.model.Replan(ctx, plan); err != nil {
			return refuse(wrapClosed(err))
		}
		// A session may have grown in the meantime; then try again.
		if m.budget.TrySetLimit(budget) {
			m.need.Budget, m.targetBudget, m.current = budget, budget, plan
			e.model.CacheEmbeddingRows(!lean)
			return nil
		}
	}
	return refuse(fmt.Errorf("%w: sessions grow faster than the engine releases memory", ErrBudget))
}

// wrapClosed returns ErrClosed for the error of a closed model.
func wrapClosed(err error) error {
	if errors.Is(err, exec.ErrClosed) {
		return ErrClosed
	}
	return err
}

// spillTo moves pages to flash until those in memory have the room that a plan gives them. It reports
// whether that succeeded; a full disk leaves pages in memory.
func (e *Engine) spillTo(plan *tiering.Plan) (bool, error) {
	m := &e.mem
	room := plan.By[tiering.KVHot]
	if plan.KVHot == 0 && m.need.KVCold && m.budget.Usage().By[tiering.KVHot] > room {
		if err := e.model.SetHot(max(1, room-m.shape.KVFixed)); errors.Is(err, exec.ErrClosed) {
			return false, ErrClosed
		}
	}
	if err := e.model.SetHot(plan.KVHot); errors.Is(err, exec.ErrClosed) {
		return false, ErrClosed
	}
	return m.budget.Usage().By[tiering.KVHot] <= room, nil
}

// replan makes a plan with enough room for the current sessions: for the pages that cannot move to flash, or,
// if none can move because stays is set, for all in memory. It changes nothing.
func (e *Engine) replan(budget int64, stays bool) (*tiering.Plan, error) {
	m := &e.mem
	need := m.need
	need.Budget, need.Opening, need.DriverPeak = budget, 0, 0 // the model and the device's driver are open
	need.HeldDrafts = e.heldDrafts()
	plan, err := makePlan(m.shape, need, m.current.Rates)
	var room int64
	var refused *MinimumError
	switch {
	case err == nil:
		room = plan.By[tiering.KVHot]
	case errors.As(err, &refused):
		room = refused.By[tiering.KVHot.String()]
	default:
		return nil, err
	}
	used := m.budget.Usage().By[tiering.KVHot]
	if room >= used {
		return plan, err
	}
	if need.KVCold {
		if err != nil {
			return nil, err
		}
		if !stays {
			used -= e.model.Spillable()
		}
		if room >= used {
			return plan, nil
		}
		need.KVHot = used
	}
	perToken := max(1, m.shape.KVBytesPerToken)
	need.Context = max(need.Context, int((used+perToken-1)/perToken))
	return makePlan(m.shape, need, m.current.Rates)
}
