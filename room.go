package llmrun

import (
	"errors"
	"fmt"
	"sync"

	"github.com/llmrun/llmrun/tiering"
)

// A Room is memory of the Go heap that a program uses for its own data, such as an index, and that a memory budget
// counts. Its methods are safe for concurrent use.
type Room struct {
	use    string
	engine *promptRoom // nil: the room has a budget of its own

	mu     sync.Mutex
	budget *tiering.Budget
	leases []*tiering.Lease // of the program, then of the data
	data   *tiering.Lease
	added  int64 // by Add, or what Resize has said
}

// NewRoom returns a room in the engine's budget, from which weights are released where it is full. use says what the
// memory is for, in errors. Close the room before the engine.
func (e *Engine) NewRoom(use string) *Room {
	return &Room{use: use, engine: &promptRoom{engine: e}}
}

// NewRoom returns a room with a budget of its own, for a program that has no engine open. ram limits the whole program,
// as [MemoryOptions].RAM does: 0 is the available memory, and NoLimit no limit. The room's limit is also that of Go's
// heap until Close.
func NewRoom(use string, ram int64) (*Room, error) {
	o := Options{Memory: MemoryOptions{RAM: ram}}
	r := &Room{use: use, budget: tiering.New(o.limit())}
	for _, part := range []struct {
		purpose tiering.Purpose
		bytes   int64
	}{{tiering.Code, codeBytes()}, {tiering.Heap, heapBytes}, {tiering.Heap, 0}} { // the data is the last one
		lease, err := r.budget.Reserve(part.purpose, part.bytes)
		if err != nil {
			r.Close()
			return nil, r.refused(err, 0)
		}
		r.leases = append(r.leases, lease)
		r.data = lease
	}
	if ram > 0 {
		heapLimits.update(r, heapUse{total: ram - codeBytes()})
	}
	return r, nil
}

// refused returns the error of a budget that has no space for the program with bytes of data.
func (r *Room) refused(err error, bytes int64) error {
	var full *tiering.BudgetError
	if !errors.As(err, &full) {
		return fmt.Errorf("%s: %w", r.use, err)
	}
	return fmt.Errorf("%w: the program with %s takes at least %s, the budget is %s; raise the budget", ErrBudget, r.use, tiering.AtLeastText(codeBytes()+heapBytes+bytes), tiering.SizeText(full.Limit))
}

// Resize changes how much memory the program may use. The error of growing wraps ErrBudget if the budget refuses;
// then nothing has changed.
func (r *Room) Resize(bytes int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.resize(bytes)
	if err == nil {
		r.added = bytes
	}
	return err
}

// Add counts more bytes of data that grows piece by piece. The room grows by steps, and not for the first 128 KiB, which the heap of every
// plan has room for. The bytes count also after an error, which is that of Resize: a program that keeps them calls Add(0) before it goes on.
func (r *Room) Add(bytes int64) error {
	const free, step = 128 << 10, 512 << 10
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.added += bytes; r.added <= free+r.size() {
		return nil
	}
	return r.resize((r.added + step - 1) / step * step)
}

// resize is Resize. The caller holds r.mu.
func (r *Room) resize(bytes int64) error {
	if r.engine == nil {
		if err := r.data.Resize(bytes); err != nil {
			return r.refused(err, bytes)
		}
		return nil
	}
	more := bytes - r.engine.reserved
	switch {
	case more > 0:
		return r.engine.reserveFor(r.use+" takes", more)
	case more < 0:
		r.engine.release()
		if bytes > 0 {
			return r.engine.reserveFor(r.use+" takes", bytes)
		}
	}
	return nil
}

// Bytes returns the size of the room.
func (r *Room) Bytes() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.size()
}

// size is Bytes. The caller holds r.mu.
func (r *Room) size() int64 {
	if r.engine != nil {
		return r.engine.reserved
	}
	return r.data.Bytes()
}

// Close returns the memory to the budget. The program must not use it any more.
func (r *Room) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.added = 0
	if r.engine != nil {
		r.engine.release()
		return
	}
	for _, lease := range r.leases {
		lease.Release()
	}
	r.leases = nil
	heapLimits.update(r, heapUse{})
}
