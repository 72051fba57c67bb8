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

// errNeedsPack refuses to stream the weights of a model that is not a pack.
var errNeedsPack = fmt.Errorf("%w: the model does not fit into memory, and only a pack can be streamed from flash: import it", tiering.ErrBudget)

// memory manages the memory budget of an engine.
type memory struct {
	budget *tiering.Budget
	leases []*tiering.Lease // code and heap of the program
	// program is the program's part of the planned Go heap.
	program int64

	// residencyErr explains why all weights must stay in memory, and what to do about it. It
	// is nil if the engine can stream weights.
	residencyErr error
	onDevice     bool // a device holds some or all of the weights

	mu           sync.Mutex
	ownerBudget  int64 // budget that the user set; 0 = none
	targetBudget int64 // budget that Trim aims for; what must stay may exceed it
	level        TrimLevel
	untrimmed    int64        // bytes held before the first trim
	need         tiering.Need // inputs of the current plan
	shape        tiering.Shape
	current      *tiering.Plan
}

// limit returns the budget in bytes, 0 for none.
func (o *Options) limit() int64 {
	switch o.Memory.RAM {
	case NoLimit:
		return 0
	case 0:
		return AvailableMemory()
	}
	return o.Memory.RAM
}

// plan decides which parts of a model will be in memory, before anything is loaded.
func (m *memory) plan(ctx context.Context, f *modelfile.Files, perTensor *exec.W8A8, opts *Options) error {
	limit := opts.limit()
	if m.onDevice = opts.usesDevice(); m.onDevice {
		limit = 0 // the plan cannot know how much is on the device; memory is counted as it is allocated
	}
	var err error
	if m.shape, m.need, err = opts.planInputs(f, perTensor, limit); err != nil {
		return err
	}
	if err := m.makePlan(f, opts); err != nil {
		return err
	}
	if opts.Lab.Measure && !m.onDevice {
		if m.current, _, err = opts.predict(ctx, f, m.shape, m.need, m.current, false); err != nil {
			return err
		}
	}
	if m.onDevice {
		m.need.Budget = opts.limit()
	}
	if err := m.setBudget(); err != nil {
		return err
	}
	m.program = opts.program
	if opts.Memory.RAM > 0 {
		m.limitHeap()
	}
	return nil
}

// makePlan makes the first plan, and refuses one that streams weights which cannot be streamed.
func (m *memory) makePlan(f *modelfile.Files, opts *Options) error {
	streamable, err := f.CanStream(opts.Exact)
	if err != nil {
		return err
	}
	if !streamable { // the embedding is loaded too
		m.shape.OtherPinned += m.shape.Embedding
		m.shape.Embedding = 0
	}
	if m.current, err = makePlan(m.shape, m.need, tiering.Rates{}); err != nil {
		return err
	}
	if !m.current.Resident() && !streamable {
		return notStreamable(f)
	}
	return nil
}

// setBudget creates the budget and reserves the memory of the program itself.
func (m *memory) setBudget() error {
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
	return nil
}

// notStreamable returns the error for a model whose weights cannot be streamed.
func notStreamable(f *modelfile.Files) error {
	if f.Packed() == nil {
		return fmt.Errorf("%w (%s)", errNeedsPack, f.Path)
	}
	return fmt.Errorf("%w: the weights do not fit, and weights that Quantize, Lab.W8A8 or Exact change while they are loaded cannot be streamed: raise the budget, or open the model without these options (%s)", tiering.ErrBudget, f.Path)
}

// residencyError returns why all weights of a model must stay in memory.
func (o *Options) residencyError(f *modelfile.Files) error {
	if o.usesDevice() {
		return fmt.Errorf("%w: with Device.Name %s all weights stay in memory: raise the budget, or open the model without the device (%s)", tiering.ErrBudget, o.Device.Name, f.Path)
	}
	return notStreamable(f)
}

// limitHeap sets Go's memory limit to the planned heap. The plan contains the program's heap
// at the time when the engine was opened.
func (m *memory) limitHeap() {
	heapLimits.update(m, heapUse{m.current.By[tiering.Heap], m.engineHeap()})
}

// limitHeapNow is limitHeap for a budget that is set later. It reserves room for the
// program's current heap, so that the garbage collector does not run continuously.
func (m *memory) limitHeapNow() {
	engine := m.engineHeap()
	heapLimits.update(m, heapUse{engine + max(m.program, programHeap(m, engine)), engine})
}

// engineHeap returns the planned heap of the engine itself.
func (m *memory) engineHeap() int64 { return m.current.By[tiering.Heap] - m.program }

// release releases the leases for the program's own memory.
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

// KVUse reports where the keys and values of all sessions are, and how much of them was
// transferred to and from flash.
type KVUse struct {
	PageTokens int           `json:"page_tokens"`
	HotPages   int           `json:"hot_pages"`  // pages in memory
	ColdPages  int           `json:"cold_pages"` // pages on flash
	PageBytes  int           `json:"page_bytes"` // bytes of a page, over all layers
	Read       int64         `json:"read_bytes"`
	Written    int64         `json:"written_bytes"`
	Stalled    time.Duration `json:"stalled_ns"` // time that attention waited for reads
	Stalls     int           `json:"stalls"`
	// Failed is the error that prevented pages from moving to flash.
	Failed string `json:"failed,omitempty"`
}

// KVUse returns where the engine's keys and values are.
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

// SelectionUse reports the effect of Options.Memory.KVSelect: how many blocks of tokens it
// could leave out, and how many of those were selected, summed over tokens and layers. It is
// zero with "exact" and for short sequences.
type SelectionUse struct {
	Blocks   int64 `json:"blocks"`
	Selected int64 `json:"taken"`
	Read     int64 `json:"read_bytes"` // bytes of selected pages that were read from flash
}

// selectionUse returns the use by all sessions so far.
func (e *Engine) selectionUse() SelectionUse {
	s := e.model.SelectionStats()
	return SelectionUse{s.Candidates, s.Selected, s.ReadBytes}
}

func (u SelectionUse) since(before SelectionUse) SelectionUse {
	return SelectionUse{u.Blocks - before.Blocks, u.Selected - before.Selected, u.Read - before.Read}
}

// since returns the use after before. The page counts are current.
func (u KVUse) since(before KVUse) KVUse {
	u.Read, u.Written = u.Read-before.Read, u.Written-before.Written
	u.Stalled, u.Stalls = u.Stalled-before.Stalled, u.Stalls-before.Stalls
	return u
}

func (u FlashUse) since(before FlashUse) FlashUse {
	return FlashUse{u.Bytes - before.Bytes, u.Stalled - before.Stalled, u.Stalls - before.Stalls, u.Experts.since(before.Experts)}
}

// MemoryReport is the memory of an engine by purpose.
type MemoryReport struct {
	Budget int64            `json:"budget_bytes"` // 0 = unlimited
	Held   map[string]int64 `json:"held_bytes"`   // by purpose, now
	Peak   map[string]int64 `json:"peak_bytes"`   // by purpose, the maximum so far
	Plan   Plan             `json:"plan"`         // the current plan
}

// Memory returns how much memory the engine holds for each purpose.
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
