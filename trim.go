package llmrun

import (
	"context"
	"errors"
	"fmt"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/tiering"
)

// SetBudget changes Options.RAM while the engine is in use, for programs that are
// told to give memory back, or may have more; 0 is what the system has to give beside
// what the engine holds. What is too much goes back to the
// system before SetBudget returns, weights first of all: they are read from flash
// from then on. A larger budget is filled from flash, while generations go on.
// Tokens stay what they are. A budget that cannot hold what has to be in memory,
// conversations included, is refused with a [*MinimumError], and nothing changes.
// Weights that cannot be read from flash stay, and a budget that does not hold them is
// refused with ErrBudget and the reason: the model is no pack, an option changed what
// is in it, or a device has a part of them. ErrReplaced says that the pack is not in its
// place any more. A conversation that later grows beyond what the budget leaves for it
// ends with ErrBudget.
//
// SetBudget undoes Trim.
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
		budget += m.committedBytes() // which the system has given already
	}
	if err := e.applyBudget(budget, false); err != nil {
		return err
	}
	m.ownerBudget, m.level = budget, TrimNone
	if ram > 0 {
		m.limitHeapNow()
	} else {
		heapLimits.update(m, heapUse{})
	}
	return nil
}

// committedBytes returns how much memory is held that the system does not count as available.
func (m *memory) committedBytes() int64 {
	u := m.budget.Usage()
	return u.Total - u.By[tiering.Code] - u.By[tiering.Heap] - u.By[tiering.Mapped]
}

// TrimLevel says how urgently memory is wanted back; see [Engine.Trim].
type TrimLevel int

// The levels, as Android and others have them.
const (
	TrimNone     TrimLevel = iota // not at all: takes back what the budget allows
	TrimModerate                  // what costs little to go without
	TrimLow                       // a quarter of what the engine holds
	TrimCritical                  // all but what it cannot work without
)

// Trim gives memory back without changing the budget, for programs that are asked
// to do so: what nobody uses at the moment, and as much more as the level says, of
// what was held before the first call. The same level twice changes nothing
// further; TrimNone, or SetBudget, makes everything as it was before. What has to
// be in memory stays, so that Trim never refuses, and so do all weights of a model
// that is no pack. Tokens stay what they are.
func (e *Engine) Trim(level TrimLevel) error {
	if level < TrimNone || level > TrimCritical {
		return fmt.Errorf("%w: trim level %d", ErrOptions, level)
	}
	m := &e.mem
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.level == TrimNone {
		m.untrimmed = m.budget.Usage().Total
	}
	budget := m.ownerBudget
	switch level {
	case TrimLow:
		budget = smaller(budget, m.untrimmed/4*3)
	case TrimCritical:
		budget = 1
	}
	if err := e.shrinkTo(budget, level > TrimNone); err != nil {
		return err
	}
	m.level = level
	return nil
}

// smaller returns the smaller of two budgets, of which 0 is none.
func smaller(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// shrinkTo makes the engine follow a budget, or the least that it can work in
// where that is more. e.mem.mu is held.
func (e *Engine) shrinkTo(budget int64, lean bool) error {
	err := e.applyBudget(budget, lean)
	// What conversations hold may change in between, so a second refusal is
	// possible. Many are not.
	var refused *MinimumError
	for range 8 {
		if !errors.As(err, &refused) || smaller(e.mem.ownerBudget, refused.Minimum) != refused.Minimum {
			break
		}
		err = e.applyBudget(refused.Minimum, lean)
	}
	if e.mem.residencyErr != nil && errors.Is(err, e.mem.residencyErr) {
		plan := *e.mem.current
		plan.Chunk = min(plan.Chunk, leanChunk)
		e.mem.targetBudget = budget
		return wrapClosed(e.model.Replan(context.Background(), &plan))
	}
	return err
}

// leanChunk is how many tokens of a prompt are computed together where memory is
// wanted back and weights have to stay.
const leanChunk = 16

// applyBudget makes the engine follow another budget, 0 for none. lean leaves out what
// only makes streaming smooth. e.mem.mu is held.
func (e *Engine) applyBudget(budget int64, lean bool) error {
	m := &e.mem
	e.model.TrimCache()
	if m.onDevice {
		return e.applyBudgetOnDevice(budget)
	}
	before := m.budget.Limit()
	for range 8 {
		plan, err := e.replan(budget)
		if err != nil {
			return err
		}
		if lean {
			plan = plan.Lean(m.shape)
		}
		if m.residencyErr != nil && !plan.Resident() {
			return m.residencyErr
		}
		if lean {
			e.model.CacheEmbeddingRows(false)
		}
		if err := e.model.SetHot(plan.KVHot); errors.Is(err, exec.ErrClosed) {
			return ErrClosed
		}
		if before != 0 && smaller(before, budget) == before {
			m.budget.SetLimit(budget)
		}
		if err := e.model.Replan(context.Background(), plan); err != nil {
			m.budget.SetLimit(before) // whoever was refused goes on in what he had
			return wrapClosed(err)
		}
		// A conversation may have grown meanwhile: once more, then.
		if m.budget.TrySetLimit(budget) {
			m.need.Budget, m.targetBudget, m.current = budget, budget, plan
			e.model.CacheEmbeddingRows(!lean)
			return nil
		}
	}
	m.budget.SetLimit(before)
	return fmt.Errorf("%w: conversations grow faster than memory can be given back", ErrBudget)
}

// applyBudgetOnDevice is follow where a device has some or all of the weights: nothing but what
// nobody uses can be given back, and a budget holds the rest or is refused.
func (e *Engine) applyBudgetOnDevice(budget int64) error {
	m := &e.mem
	if err := e.model.Replan(context.Background(), m.current); err != nil { // it is closed
		return wrapClosed(err)
	}
	if !m.budget.TrySetLimit(budget) {
		return fmt.Errorf("%w; the budget is %d bytes, and held are %s", m.residencyErr, budget, m.budget.Usage())
	}
	m.need.Budget, m.targetBudget = budget, budget
	return nil
}

// wrapClosed says ErrClosed where the model does.
func wrapClosed(err error) error {
	if errors.Is(err, exec.ErrClosed) {
		return ErrClosed
	}
	return err
}

// replan makes a plan in which the conversations that there are have room.
func (e *Engine) replan(budget int64) (*tiering.Plan, error) {
	m := &e.mem
	need := m.need
	need.Budget = budget
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
		// A disk that is full leaves them in memory.
		if err := e.model.SetHot(max(1, room-m.shape.KVFixed)); errors.Is(err, exec.ErrClosed) {
			return nil, ErrClosed
		}
		if used = m.budget.Usage().By[tiering.KVHot]; room >= used {
			return plan, nil
		}
		need.KVHot = used
	}
	perToken := max(1, m.shape.KVBytesPerToken)
	need.Context = max(need.Context, int((used+perToken-1)/perToken))
	return makePlan(m.shape, need, m.current.Rates)
}
