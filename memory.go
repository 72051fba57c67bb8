package llmrun

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/tiering"
)

// errNeedsPack is the refusal to read a model piece by piece that is no pack.
var errNeedsPack = fmt.Errorf("%w: the model does not fit as it is, and only a pack can be read piece by piece: import it", tiering.ErrBudget)

// memory is who may hold how much.
type memory struct {
	budget *tiering.Budget
	code   []*tiering.Lease // of the program itself
	// limited: the budget was given by the owner, so Go's memory limit follows it;
	// goLimit is what that was before.
	limited bool
	goLimit int64

	mu   sync.Mutex
	need tiering.Need // that the plan was made for
	from tiering.Shape
	now  *tiering.Plan
}

// limit returns the budget that options ask for; 0 means none.
func (o *Options) limit() int64 {
	switch o.RAM {
	case NoLimit:
		return 0
	case 0:
		return AvailableMemory()
	}
	return o.RAM
}

// plan decides what of a model will be in memory, before anything is loaded.
func (m *memory) plan(ctx context.Context, f *exec.Files, opts *Options) error {
	var err error
	if m.from, m.need, err = opts.planInputs(f, opts.limit()); err != nil {
		return err
	}
	if f.Packed() == nil { // then an embedding is loaded as well
		m.from.Vectors += m.from.Embedding
		m.from.Embedding = 0
	}
	if m.now, err = tiering.MakePlan(m.from, m.need, tiering.Rates{}); err != nil {
		return err
	}
	if f.Packed() == nil && !m.now.Resident() {
		return fmt.Errorf("%w (%s)", errNeedsPack, f.Path)
	}
	if opts.Measure {
		r := opts.rateMeasurer()
		measured, err := r.rates(ctx, f, m.now.Piece)
		if err != nil {
			return err
		}
		if m.now, err = tiering.MakePlan(m.from, m.need, measured.forPlan()); err != nil {
			return err
		}
	}
	m.budget = tiering.New(m.need.Budget)
	for _, p := range []tiering.Purpose{tiering.Code, tiering.Heap} {
		lease, err := m.budget.Reserve(p, m.now.By[p])
		if err != nil {
			m.free()
			return err
		}
		m.code = append(m.code, lease)
	}
	if m.limited = opts.RAM > 0; m.limited {
		m.goLimit = debug.SetMemoryLimit(m.now.By[tiering.Heap])
	}
	return nil
}

// free gives back what the program's own memory was charged with.
func (m *memory) free() {
	for _, lease := range m.code {
		lease.Release()
	}
	m.code = nil
	if m.limited {
		debug.SetMemoryLimit(m.goLimit)
		m.limited = false
	}
}

// SetBudget changes Options.RAM while the engine is in use, for programs that are
// told to give memory back, or may have more. What is too much goes back to the
// system before SetBudget returns, weights first of all: they are read from flash
// from then on. A larger budget is filled from flash, while generations go on.
// Tokens stay what they are. A budget that cannot hold what has to be in memory,
// conversations included, is refused with a [*MinimumError], and nothing changes.
func (e *Engine) SetBudget(ram int64) error {
	opts := Options{RAM: ram}
	if err := opts.validate(); err != nil {
		return err
	}
	m := &e.mem
	m.mu.Lock()
	defer m.mu.Unlock()
	e.model.TrimCache()
	need := m.need
	need.Budget = opts.limit()
	plan, err := e.replan(need)
	if err != nil {
		return err
	}
	larger := need.Budget == 0 || m.need.Budget != 0 && need.Budget > m.need.Budget
	if larger {
		m.budget.SetLimit(need.Budget)
	}
	if e.model.KeepsFiles() {
		if err := e.model.Replan(context.Background(), plan); err != nil {
			return err
		}
	} else if !plan.Resident() {
		return fmt.Errorf("%w (%s)", errNeedsPack, e.info.Path)
	}
	m.budget.SetLimit(need.Budget)
	m.need, m.now = need, plan
	return nil
}

// replan makes a plan in which the conversations that there are have room.
func (e *Engine) replan(need tiering.Need) (*tiering.Plan, error) {
	m := &e.mem
	plan, err := tiering.MakePlan(m.from, need, m.now.Rates)
	used := m.budget.Usage().By[tiering.KVHot]
	if err != nil || plan.By[tiering.KVHot] >= used {
		return plan, err
	}
	perToken := max(1, m.from.KVBytesPerToken)
	need.Context = int((used + perToken - 1) / perToken)
	return tiering.MakePlan(m.from, need, m.now.Rates)
}

// flashUse returns what the engine has read of its weights so far.
func (e *Engine) flashUse() FlashUse {
	s := e.model.StreamStats()
	return FlashUse{Bytes: s.Bytes, Stalled: s.Stalled, Stalls: s.Stalls}
}

func (u FlashUse) since(before FlashUse) FlashUse {
	return FlashUse{u.Bytes - before.Bytes, u.Stalled - before.Stalled, u.Stalls - before.Stalls}
}

// MemoryReport says who holds how much memory of an engine.
type MemoryReport struct {
	Budget int64            `json:"budget_bytes"` // 0 = unlimited
	Held   map[string]int64 `json:"held_bytes"`   // by purpose, now
	Peak   map[string]int64 `json:"peak_bytes"`   // by purpose, at most so far
	Plan   tiering.Plan     `json:"plan"`         // that the engine follows
}

// Memory returns who holds how much.
func (e *Engine) Memory() MemoryReport {
	e.mem.mu.Lock()
	defer e.mem.mu.Unlock()
	u := e.mem.budget.Usage()
	r := MemoryReport{Budget: e.mem.need.Budget, Held: map[string]int64{}, Peak: map[string]int64{}, Plan: *e.mem.now}
	for _, p := range tiering.Purposes() {
		if u.Peak[p] > 0 {
			r.Held[p.String()], r.Peak[p.String()] = u.By[p], u.Peak[p]
		}
	}
	return r
}
