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
// undoes Trim. It counts the heap of the program anew, also if that has become smaller; see [MemoryOptions].RAM.
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
	m.dropProgram(program)
	if err := e.applyWithRepair(budget); err != nil {
		if m.keepProgram() {
			m.need.Heap -= program - before
		} else {
			m.program = program
		}
		return err
	}
	if err := m.programLease.Resize(program); err != nil { // a session has taken the memory meanwhile
		m.need.Heap -= program - before
		return errors.Join(err, e.applyBudget(m.ownerBudget))
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
	return e.change(ctx, &budgetChange{budget: budget, lean: lean, orMinimum: true, repairs: true})
}

// applyWithRepair is applyBudget for a budget that must also have room for the repair of the engine's
// pack. The caller holds e.mem.mu.
func (e *Engine) applyWithRepair(budget int64) error {
	return e.change(context.Background(), &budgetChange{budget: budget, repairs: true})
}

// applyBudget makes the engine follow another budget, 0 for none. The caller holds e.mem.mu.
func (e *Engine) applyBudget(budget int64) error {
	return e.change(context.Background(), &budgetChange{budget: budget})
}

// budgetChange is a change of the budget. All that releases memory happens in one step between two passes, in
// which no session grows: the plan is made for what sessions hold then, and the new limit holds when the next pass
// begins. Weights that the plan adds are read afterwards, while sessions go on.
type budgetChange struct {
	budget    int64
	lean      bool // omit buffers that only make streaming smoother
	orMinimum bool // a budget that is too small becomes the minimum, at most the user's budget
	repairs   bool // there must be room for the repair of the pack

	plan  *tiering.Plan // nil until something changes
	extra int64         // memory in use that no plan contains, such as that of a fork's state
}

// change makes a change. After an error, also if ctx ends, the engine goes on as before. The caller holds e.mem.mu.
func (e *Engine) change(ctx context.Context, c *budgetChange) error {
	m := &e.mem
	before := m.budget.Limit()
	err := e.model.Pause(func(p exec.Paused) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return e.releaseFor(p, c)
	})
	if err == nil {
		err = e.model.Grow(ctx, c.plan)
		if errors.Is(err, ErrBudget) { // sessions took the memory meanwhile, and the weights are streamed
			err = nil
		}
	}
	if err == nil {
		m.need.Budget, m.targetBudget, m.current = c.budget, c.budget, c.plan
		return nil
	}
	if c.plan != nil {
		m.budget.SetLimit(before)
		_ = e.model.Pause(func(p exec.Paused) error {
			_ = p.SetHot(m.current.KVHot)
			p.CacheEmbeddingRows(m.level == TrimNone)
			return p.Apply(context.Background(), m.current)
		})
		_ = e.model.Grow(context.Background(), m.current)
	}
	if errors.Is(err, exec.ErrClosed) {
		return ErrClosed
	}
	return err
}

// releaseFor plans a change and releases what the plan does not contain, until the new limit holds.
func (e *Engine) releaseFor(p exec.Paused, c *budgetChange) error {
	p.TrimCache()
	for {
		if err := e.applyPlan(p, c); err != nil {
			return err
		}
		if e.mem.budget.TrySetLimit(c.budget) {
			p.CacheEmbeddingRows(!c.lean)
			return nil
		}
		if c.extra > 0 { // what is not in the plan grows faster than it can be counted
			return fmt.Errorf("%w: other requests take the memory that the engine releases", ErrBudget)
		}
		c.extra = max(1, e.mem.budget.Usage().Total-c.budget)
	}
}

// applyPlan makes the plan of a change, and releases what it does not contain.
func (e *Engine) applyPlan(p exec.Paused, c *budgetChange) error {
	plan, err := e.planChange(c, false)
	if err != nil {
		return err
	}
	c.plan = plan
	if !e.spillTo(p, plan) { // the disk is full, and pages stay in memory
		if plan, err = e.planChange(c, true); err != nil {
			return err
		}
		c.plan = plan
		e.spillTo(p, plan)
	}
	if c.lean {
		p.CacheEmbeddingRows(false)
	}
	e.freeDrafts(plan.By[tiering.Drafts])
	if before := e.mem.budget.Limit(); before != 0 && smaller(before, c.budget) == before {
		e.mem.budget.SetLimit(c.budget)
	}
	return p.Apply(context.Background(), plan)
}

// planChange makes the plan of a change. It changes nothing else; see replan for stays.
func (e *Engine) planChange(c *budgetChange, stays bool) (*tiering.Plan, error) {
	for {
		plan, err := e.replanBeside(c, stays)
		var refused *MinimumError
		if !errors.As(err, &refused) {
			if err == nil && c.lean {
				plan = plan.Lean(e.mem.shape)
			}
			return plan, err
		}
		refused.Minimum += c.extra
		if !c.orMinimum || refused.Minimum <= c.budget || smaller(e.mem.ownerBudget, refused.Minimum) != refused.Minimum {
			return nil, err
		}
		c.budget = refused.Minimum
	}
}

// replanBeside is replan beside what no plan contains.
func (e *Engine) replanBeside(c *budgetChange, stays bool) (*tiering.Plan, error) {
	m, budget := &e.mem, c.budget
	if budget > 0 {
		budget = max(1, budget-c.extra)
	}
	if c.repairs && m.repair > 0 {
		m.need.Heap += m.repair
		_, err := e.replan(budget, false)
		m.need.Heap -= m.repair
		if err != nil {
			return nil, err
		}
	}
	return e.replan(budget, stays)
}

// spillTo moves pages to flash until those in memory have the room that a plan gives them. It reports
// whether that succeeded; a full disk leaves pages in memory.
func (e *Engine) spillTo(p exec.Paused, plan *tiering.Plan) bool {
	m := &e.mem
	room := plan.By[tiering.KVHot]
	if plan.KVHot == 0 && m.need.KVCold && m.budget.Usage().By[tiering.KVHot] > room {
		_ = p.SetHot(max(1, room-m.shape.KVFixed)) // the pages that it could not write are still in use
	}
	_ = p.SetHot(plan.KVHot)
	return m.budget.Usage().By[tiering.KVHot] <= room
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
