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
	if m.now, err = tiering.MakePlan(m.from, m.need, tiering.Rates{}); err != nil {
		return err
	}
	if f.Packed() == nil && !m.now.Resident() {
		return fmt.Errorf("%w (%s)", errNeedsPack, f.Path)
	}
	if opts.Measure {
		r := rateMeasurer{fsys: opts.fsys(), dir: opts.CacheDir, threads: opts.threads()}
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
