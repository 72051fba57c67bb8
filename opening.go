package llmrun

import (
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/tiering"
)

// openingRoom is the memory beside the program's own that an opening may take for headers
// whatever the budget is, so that a budget that is too small is refused with its minimum.
const openingRoom = 12 << 20

// importShare is the part of the budget, as its reciprocal, that Go's heap leaves to an import
// before the plan: its buffers are not on the heap.
const importShare = 5

// opening is the ledger of an engine from before the first header is read until the plan. It
// implements vfs.Meter: the readers of the model's files reserve what headers, tables and
// configuration make them allocate. The plan takes over the budget, and counts what is kept.
// A nil opening counts nothing.
type opening struct {
	budget *tiering.Budget
	// limited: the user has set the limit, so memory that is free must not stay in the process.
	limited bool
	// leaveGoLimit is MemoryOptions.LeaveGoLimit.
	leaveGoLimit bool
	ram          int64 // limit of the user or the system; the budget has room for openingRoom besides

	mu       sync.Mutex
	leases   []*tiering.Lease
	held     int64 // bytes that readers have reserved and not released
	reserved int64 // bytes of leases for them
}

// headerHeap returns the Go heap that the model's files take beyond heapBytes: their headers,
// which the meter of the opening has counted, the tokenizer and the chat template. A
// vocabulary takes at least heapPerVocable for each of its tokens. opening is the heap that they
// take together with building the tokenizer.
func (o *Options) headerHeap(f *modelfile.Files, spec *arch.Spec) (heap, opening int64, err error) {
	template, err := f.ChatTemplate()
	if err != nil {
		return 0, 0, err
	}
	tokenizer, building, err := f.TokenizerMemory()
	if err != nil {
		return 0, 0, err
	}
	reward, buildingReward, err := o.rewardHeap()
	if err != nil {
		return 0, 0, err
	}
	held := f.HeaderMemory(spec)
	if o.opening != nil {
		held = max(held, o.opening.Held())
	}
	heap = max(heapPerVocable*int64(spec.Vocab), held+tokenizer+templateHeap(template))
	opening = held + building
	if reward > 0 { // its tokenizer is built when the model's own is complete
		opening = max(opening, heap+buildingReward)
	}
	return heap + reward, opening, nil
}

// programHeapBytes returns the heap of the program and of what does not depend on the model.
func (o *Options) programHeapBytes() int64 {
	return heapBytes + heapPerThread*int64(o.threads()) + o.program
}

// planOpening returns an opening that only counts.
func planOpening() *opening { return &opening{budget: tiering.New(0)} }

// newOpening returns the ledger for opening a model. It reserves the program's own memory.
func newOpening(o *Options) *opening {
	limit, heap := o.limit(), o.programHeapBytes()
	if limit > 0 {
		limit = max(limit, codeBytes()+heap+openingRoom)
	}
	p := &opening{budget: tiering.New(limit), limited: o.Memory.RAM > 0, leaveGoLimit: o.Memory.LeaveGoLimit, ram: o.limit()}
	for purpose, bytes := range map[tiering.Purpose]int64{tiering.Code: codeBytes(), tiering.Heap: heap} {
		if lease, err := p.budget.Reserve(purpose, bytes); err == nil { // limit has room for both
			p.leases = append(p.leases, lease)
		}
	}
	if p.limited {
		// An import uses frames and stacks beside the heap.
		heapLimits.update(p, heapUse{total: limit - codeBytes() - limit/importShare, unlimited: p.leaveGoLimit})
	}
	return p
}

// Reserve implements vfs.Meter.
func (p *opening) Reserve(bytes int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.budget == nil {
		return nil // the plan counts from now on
	}
	if more := p.held + bytes - p.reserved; more > 0 {
		lease, err := p.budget.Reserve(tiering.Heap, more)
		if err != nil {
			return fmt.Errorf("%w (the budget is %s; a model may take %s beside the program until its minimum is known)", err, tiering.SizeText(p.ram), tiering.SizeText(openingRoom))
		}
		p.leases, p.reserved = append(p.leases, lease), p.reserved+more
	}
	p.held += bytes
	return nil
}

// Release implements vfs.Meter.
func (p *opening) Release(bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held -= bytes
}

// ledger returns the budget until the plan takes it over, then nil.
func (p *opening) ledger() *tiering.Budget {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.budget
}

// leaveForPlan reserves all heap of a plan before measurements take what the budget has left, and
// returns what an import has left of Go's heap to the system.
func (p *opening) leaveForPlan(n *tiering.Need) error {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.budget == nil {
		return nil
	}
	if more := n.Code + n.Heap - p.budget.Usage().Total; more > 0 {
		lease, err := p.budget.Reserve(tiering.Heap, more)
		if err != nil {
			return err
		}
		p.leases = append(p.leases, lease)
	}
	if p.limited {
		heapLimits.update(p, heapUse{total: n.Heap, unlimited: p.leaveGoLimit})
		debug.FreeOSMemory()
	}
	return nil
}

// Held implements vfs.Meter.
func (p *opening) Held() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held
}

// end returns the budget with nothing reserved, for the plan. A second call returns nil.
func (p *opening) end() *tiering.Budget {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	budget := p.budget
	if budget == nil {
		return nil
	}
	if p.budget = nil; p.limited {
		debug.FreeOSMemory() // of the texts, before weights take their place
	}
	for _, lease := range p.leases {
		lease.Release()
	}
	p.leases = nil
	heapLimits.update(p, heapUse{})
	return budget
}
