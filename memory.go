package llmrun

import (
	"context"
	"runtime/debug"
	"sync"
	"time"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/tiering"
)

// memory manages the memory budget of an engine.
type memory struct {
	budget *tiering.Budget
	leases []*tiering.Lease // code and heap of the program
	// program is the program's part of the planned Go heap, which has a lease of its own.
	program      int64
	programLease *tiering.Lease

	leaveGoLimit bool // MemoryOptions.LeaveGoLimit

	flashReads string
	measured   *Rates // of the machine; nil without LabOptions.Measure

	mu           sync.Mutex
	ownerBudget  int64 // budget that the user set; 0 = none
	targetBudget int64 // budget that Trim aims for; what must stay may exceed it
	level        TrimLevel
	untrimmed    int64 // bytes held before the first trim
	// excessReported: the user knows that the process exceeds the budget for good.
	excessReported bool
	need           tiering.Need // inputs of the current plan
	repair         int64        // memory for the repair of a pack from the cache, until it is reserved
	shape          tiering.Shape
	current        *tiering.Plan
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

// plan takes over the plan that decides which parts of a model will be in memory, before anything
// is loaded.
func (m *memory) plan(ctx context.Context, f *modelfile.Files, a *admission, opts *Options) (err error) {
	opts.noteStreaming(f, a)
	m.flashReads, m.leaveGoLimit = opts.flashReads(), opts.Memory.LeaveGoLimit
	m.shape, m.need, m.current = a.shape, a.need, a.plan
	if f.Cached() {
		m.repair = a.repair
	}
	if opts.Lab.Measure && !opts.usesDevice() {
		if err := opts.opening.leaveForPlan(&a.need); err != nil {
			return err
		}
		m.need = a.need
		var measured Rates
		if m.current, measured, err = opts.predict(ctx, f, a, opts.rateMeasurer()); err != nil {
			return err
		}
		m.measured = &measured
		if ledger := opts.opening.ledger(); ledger != nil {
			ledger.ResetPeak() // reports are about the model, not about the measurement
		}
	}
	if err := m.setBudget(opts.opening, opts.program); err != nil {
		return err
	}
	if opts.Memory.RAM > 0 {
		m.limitHeap()
	}
	return nil
}

// setBudget takes the budget over from the opening of the files, and reserves the memory of
// the program itself, of whose heap program is the part that does not belong to the engine.
func (m *memory) setBudget(opening *opening, program int64) error {
	m.ownerBudget, m.targetBudget = m.need.Budget, m.need.Budget
	if m.budget = opening.end(); m.budget == nil {
		m.budget = tiering.New(m.ownerBudget)
	}
	m.budget.SetLimit(m.ownerBudget)
	for _, p := range []tiering.Purpose{tiering.Code, tiering.Heap, tiering.Driver} {
		bytes := m.current.By[p]
		if p == tiering.Heap {
			bytes -= program
		}
		lease, err := m.budget.Reserve(p, bytes)
		if err != nil {
			m.release()
			return err
		}
		m.leases = append(m.leases, lease)
	}
	lease, err := m.budget.Reserve(tiering.Heap, program)
	if err != nil {
		m.release()
		return err
	}
	m.program, m.programLease = program, lease
	return nil
}

// limitHeap sets Go's memory limit to the planned heap. The plan contains the program's heap
// at the time when the engine was opened.
func (m *memory) limitHeap() {
	heapLimits.update(m, heapUse{m.current.By[tiering.Heap], m.engineHeap(), m.leaveGoLimit})
}

// wantedProgram returns the heap of the program that a budget counts: nothing if there is no limit, or if
// the limit is the memory that the program leaves available. How much of the live heap belongs to the engine is only
// known within limits, so what is counted already stays as long as it is within them.
func (m *memory) wantedProgram(ram int64) int64 {
	if ram <= 0 {
		return 0
	}
	least, most := programHeap(m, m.engineHeap())
	if least <= m.program && m.program <= most {
		return m.program
	}
	return least
}

// dropProgram makes the ledger count a smaller heap of the program.
func (m *memory) dropProgram(bytes int64) {
	if m.programLease == nil || bytes >= m.program { // nil: the engine is closed
		return
	}
	debug.FreeOSMemory() // what the program has dropped, before weights take its place
	_ = m.programLease.Resize(bytes)
}

// keepProgram undoes dropProgram, and reports whether that succeeded: a session may have taken the memory.
func (m *memory) keepProgram() bool {
	return m.programLease == nil || m.programLease.Resize(m.program) == nil
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
	if m.programLease != nil {
		m.programLease.Release()
		m.programLease = nil
	}
	heapLimits.update(m, heapUse{})
}

// FlashUse counts the weights that the engine has read from flash since it was opened, for all sessions together.
func (e *Engine) FlashUse() FlashUse { return e.flashUse() }

// flashUse returns what the engine has read of its weights so far.
func (e *Engine) flashUse() FlashUse {
	s, x, classes := e.model.StreamStats(), e.model.ExpertStats(), exec.TransferStats(e.model)
	return FlashUse{
		Bytes: s.Bytes + x.Bytes, Stalled: s.Stalled + x.Stalled, Stalls: s.Stalls + x.Stalls,
		Experts: ExpertUse{x.Slots, x.Used, x.Hits, x.Bytes}, EmbeddingStalled: exec.EmbeddingStalled(e.model),
		Classes: TransferClasses{ClassUse(classes[0]), ClassUse(classes[1]), ClassUse(classes[2]), ClassUse(classes[3])},
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
	Cold       int64         `json:"cold_bytes"` // bytes on flash, summed over the passes that could read them
	Written    int64         `json:"written_bytes"`
	Stalled    time.Duration `json:"stalled_ns"` // time that attention waited for reads
	Stalls     int           `json:"stalls"`
	// AheadPages are pages in memory that are on flash too: the engine writes pages before it
	// needs their memory. SpillStalled is the time that tokens waited for such writes.
	AheadPages   int           `json:"ahead_pages"`
	SpillStalled time.Duration `json:"spill_stalled_ns"`
	SpillStalls  int           `json:"spill_stalls"`
	// SaveStalled is the time that tokens waited for saved keys and values to be written, because
	// the save held memory that they needed.
	SaveStalled time.Duration `json:"save_stalled_ns"`
	SaveStalls  int           `json:"save_stalls"`
	// Failed is the error that prevented pages from moving to flash.
	Failed string `json:"failed,omitempty"`
}

// KVUse returns where the engine's keys and values are.
func (e *Engine) KVUse() KVUse {
	s := e.model.KVStats()
	u := KVUse{
		PageTokens: s.PageTokens, HotPages: s.HotPages, ColdPages: s.ColdPages, PageBytes: s.PageBytes,
		Read: s.Read, Cold: s.Cold, Written: s.Written, Stalled: s.Stalled, Stalls: s.Stalls,
		AheadPages: s.AheadPages, SpillStalled: s.SpillStalled, SpillStalls: s.SpillStalls, SaveStalled: s.SaveStalled, SaveStalls: s.SaveStalls,
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
	u.Read, u.Cold, u.Written = u.Read-before.Read, u.Cold-before.Cold, u.Written-before.Written
	u.Stalled, u.Stalls = u.Stalled-before.Stalled, u.Stalls-before.Stalls
	u.SpillStalled, u.SpillStalls = u.SpillStalled-before.SpillStalled, u.SpillStalls-before.SpillStalls
	u.SaveStalled, u.SaveStalls = u.SaveStalled-before.SaveStalled, u.SaveStalls-before.SaveStalls
	return u
}

func (u FlashUse) since(before FlashUse) FlashUse {
	return FlashUse{
		Bytes: u.Bytes - before.Bytes, Stalled: u.Stalled - before.Stalled, Stalls: u.Stalls - before.Stalls,
		Experts: u.Experts.since(before.Experts), EmbeddingStalled: u.EmbeddingStalled - before.EmbeddingStalled,
		Classes: u.Classes.since(before.Classes),
	}
}

func (c TransferClasses) since(before TransferClasses) TransferClasses {
	return TransferClasses{
		c.Awaited.since(before.Awaited), c.Streamed.since(before.Streamed), c.Guessed.since(before.Guessed), c.Written.since(before.Written),
	}
}

func (u ClassUse) since(before ClassUse) ClassUse {
	return ClassUse{u.Transfers - before.Transfers, u.Bytes - before.Bytes, u.Waits - before.Waits, u.Waited - before.Waited, u.MovedUp - before.MovedUp}
}

// MemoryReport is the memory of an engine by purpose.
type MemoryReport struct {
	Budget int64 `json:"budget_bytes"` // 0 = unlimited
	// Ledger is the maximum so far of the memory for all purposes together, without that of
	// measurements (see [LabOptions].Measure), and Process that of the whole process as the kernel
	// counts it, with them; 0 where the system does not tell.
	Ledger  int64            `json:"ledger_bytes"`
	Process int64            `json:"vm_hwm_bytes"`
	Held    map[string]int64 `json:"held_bytes"` // by purpose, now
	Peak    map[string]int64 `json:"peak_bytes"` // by purpose, the maximum so far
	Plan    Plan             `json:"plan"`       // the current plan
	// FlashReads is how flash is read: "direct" or "mmap"; see [MemoryOptions.Flash].
	FlashReads string `json:"flash_reads"`
	// Rates are the measurements on which the predictions of Plan rest; nil without
	// [LabOptions].Measure.
	Rates *Rates `json:"rates,omitempty"`
}

// Memory returns how much memory the engine holds for each purpose.
func (e *Engine) Memory() MemoryReport {
	e.mem.mu.Lock()
	defer e.mem.mu.Unlock()
	u := e.mem.budget.Usage()
	r := MemoryReport{Budget: e.mem.need.Budget, Ledger: u.TotalPeak, Process: tiering.ReadResident(tiering.SystemRoot()).Peak, Held: map[string]int64{}, Peak: map[string]int64{}, Plan: planOf(e.mem.current), FlashReads: e.mem.flashReads, Rates: e.mem.measured}
	for _, p := range tiering.Purposes() {
		if u.Peak[p] > 0 {
			r.Held[p.String()], r.Peak[p.String()] = u.By[p], u.Peak[p]
		}
	}
	return r
}
