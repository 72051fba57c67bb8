package llmrun

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/tiering"
)

// errNeedsPack is the refusal to read a model piece by piece that is no pack.
var errNeedsPack = fmt.Errorf("%w: the model does not fit as it is, and only a pack can be read piece by piece: import it", tiering.ErrBudget)

// memory is who may hold how much.
type memory struct {
	budget *tiering.Budget
	leases []*tiering.Lease // of the program itself
	// program is what the program around the engine needs of the heap, part of the plan.
	program int64

	// residencyErr is why all weights stay in memory, and what to do about it; nil: they can be
	// read piece by piece.
	residencyErr error
	onDevice     bool // some or all of them are a device's

	mu           sync.Mutex
	ownerBudget  int64 // budget that the owner gave; 0 = none
	targetBudget int64 // budget that is aimed at, which all that has to stay may exceed
	level        TrimLevel
	untrimmed    int64        // what was held before the first trim
	need         tiering.Need // that the plan was made for
	shape        tiering.Shape
	current      *tiering.Plan
}

// limit returns the budget that options ask for; 0 means none.
func (o *Options) limit() int64 {
	switch o.Memory.RAM {
	case NoLimit:
		return 0
	case 0:
		return AvailableMemory()
	}
	return o.Memory.RAM
}

// plan decides what of a model will be in memory, before anything is loaded.
func (m *memory) plan(ctx context.Context, f *modelfile.Files, perTensor *exec.W8A8, opts *Options) error {
	var err error
	limit := opts.limit()
	if m.onDevice = opts.usesDevice(); m.onDevice {
		limit = 0 // some weights are on a device; what stays on the machine is counted as it is taken
	}
	if m.shape, m.need, err = opts.planInputs(f, perTensor, limit); err != nil {
		return err
	}
	inPieces, err := f.CanStream(opts.Exact)
	if err != nil {
		return err
	}
	if !inPieces { // then an embedding is loaded as well
		m.shape.OtherPinned += m.shape.Embedding
		m.shape.Embedding = 0
	}
	if m.current, err = makePlan(m.shape, m.need, tiering.Rates{}); err != nil {
		return err
	}
	if !m.current.Resident() && !inPieces {
		return notStreamable(f)
	}
	if opts.Lab.Measure && !m.onDevice {
		if m.current, _, err = opts.predict(ctx, f, m.shape, m.need, m.current, false); err != nil {
			return err
		}
	}
	if m.onDevice {
		m.need.Budget = opts.limit()
	}
	m.ownerBudget, m.targetBudget = m.need.Budget, m.need.Budget
	m.budget = tiering.New(m.ownerBudget)
	for _, p := range []tiering.Purpose{tiering.Code, tiering.Heap} {
		lease, err := m.budget.Reserve(p, m.current.By[p])
		if err != nil {
			m.release()
			return err
		}
		m.leases = append(m.leases, lease)
	}
	m.program = opts.program
	if opts.Memory.RAM > 0 {
		m.limitHeap()
	}
	return nil
}

// notStreamable refuses to read a model piece by piece.
func notStreamable(f *modelfile.Files) error {
	if f.Packed() == nil {
		return fmt.Errorf("%w (%s)", errNeedsPack, f.Path)
	}
	return fmt.Errorf("%w: not all weights fit, and those that Quantize, W8A8 or Exact change while they are loaded cannot be read piece by piece: raise the budget, or open the model without these (%s)", tiering.ErrBudget, f.Path)
}

// residencyError returns why all weights of a model stay in memory while it is in use.
func (o *Options) residencyError(f *modelfile.Files) error {
	if o.usesDevice() {
		return fmt.Errorf("%w: with Device %s all weights stay where they are: raise the budget, or open the model again without the device (%s)", tiering.ErrBudget, o.Device.Name, f.Path)
	}
	return notStreamable(f)
}

// limitHeap makes Go's own memory limit follow the plan, in which the program's heap is
// what it was when the engine was opened.
func (m *memory) limitHeap() {
	heapLimits.update(m, heapUse{m.current.By[tiering.Heap], m.engineHeap()})
}

// limitHeapNow is limitHeap for a budget that came later: the program's heap, which may
// have grown, is not to be collected all the time.
func (m *memory) limitHeapNow() {
	engine := m.engineHeap()
	heapLimits.update(m, heapUse{engine + max(m.program, programHeap(m, engine)), engine})
}

// engineHeap returns what the engine itself needs of the heap.
func (m *memory) engineHeap() int64 { return m.current.By[tiering.Heap] - m.program }

// release gives back what the program's own memory was charged with.
func (m *memory) release() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, lease := range m.leases {
		lease.Release()
	}
	m.leases = nil
	heapLimits.update(m, heapUse{})
}

// flashUse returns what the engine has read of its weights so far.
func (e *Engine) flashUse() FlashUse {
	s, x := e.model.StreamStats(), e.model.ExpertStats()
	return FlashUse{
		Bytes: s.Bytes + x.Bytes, Stalled: s.Stalled + x.Stalled, Stalls: s.Stalls,
		Experts: ExpertUse{x.Slots, x.Used, x.Hits, x.Bytes},
	}
}

// KVUse says where the keys and values of all sessions are, and what of them was
// read from flash and written there.
type KVUse struct {
	PageTokens int           `json:"page_tokens"`
	HotPages   int           `json:"hot_pages"`  // in memory
	ColdPages  int           `json:"cold_pages"` // on flash
	PageBytes  int           `json:"page_bytes"` // of a page, all layers together
	Read       int64         `json:"read_bytes"`
	Written    int64         `json:"written_bytes"`
	Stalled    time.Duration `json:"stalled_ns"` // that attention waited for them
	Stalls     int           `json:"stalls"`
	// Failed says why pages stayed in memory that should have gone to flash.
	Failed string `json:"failed,omitempty"`
}

// KVUse returns where keys and values are.
func (e *Engine) KVUse() KVUse {
	s := e.model.KVStats()
	u := KVUse{
		PageTokens: s.PageTokens, HotPages: s.HotPages, ColdPages: s.ColdPages, PageBytes: s.PageBytes,
		Read: s.Read, Written: s.Written, Stalled: s.Stalled, Stalls: s.Stalls,
	}
	if s.Failed != nil {
		u.Failed = s.Failed.Error()
	}
	return u
}

// SelectionUse says what Options.KVSelect has left out: of blocks of tokens that
// could be, counted for each token and layer, how many were taken all the same. It
// is all zeros with "exact" and for texts that are too short.
type SelectionUse struct {
	Blocks   int64 `json:"blocks"`
	Selected int64 `json:"taken"`
	Read     int64 `json:"read_bytes"` // from flash, of what was looked at
}

// selectionUse returns what all sessions have left out so far.
func (e *Engine) selectionUse() SelectionUse {
	s := e.model.SelectionStats()
	return SelectionUse{s.Candidates, s.Selected, s.ReadBytes}
}

func (u SelectionUse) since(before SelectionUse) SelectionUse {
	return SelectionUse{u.Blocks - before.Blocks, u.Selected - before.Selected, u.Read - before.Read}
}

// since returns the use with what was counted less what had been before.
func (u KVUse) since(before KVUse) KVUse {
	u.Read, u.Written = u.Read-before.Read, u.Written-before.Written
	u.Stalled, u.Stalls = u.Stalled-before.Stalled, u.Stalls-before.Stalls
	return u
}

func (u FlashUse) since(before FlashUse) FlashUse {
	return FlashUse{u.Bytes - before.Bytes, u.Stalled - before.Stalled, u.Stalls - before.Stalls, u.Experts.since(before.Experts)}
}

// MemoryReport says who holds how much memory of an engine.
type MemoryReport struct {
	Budget int64            `json:"budget_bytes"` // 0 = unlimited
	Held   map[string]int64 `json:"held_bytes"`   // by purpose, now
	Peak   map[string]int64 `json:"peak_bytes"`   // by purpose, at most so far
	Plan   Plan             `json:"plan"`         // that the engine follows
}

// Memory returns who holds how much.
func (e *Engine) Memory() MemoryReport {
	e.mem.mu.Lock()
	defer e.mem.mu.Unlock()
	u := e.mem.budget.Usage()
	r := MemoryReport{Budget: e.mem.need.Budget, Held: map[string]int64{}, Peak: map[string]int64{}, Plan: planOf(e.mem.current)}
	for _, p := range tiering.Purposes() {
		if u.Peak[p] > 0 {
			r.Held[p.String()], r.Peak[p.String()] = u.By[p], u.Peak[p]
		}
	}
	return r
}
