package llmrun

import (
	"fmt"
	"runtime/debug"

	"github.com/llmrun/llmrun/text/token"
	"github.com/llmrun/llmrun/tiering"
)

const (
	// promptCost bounds the heap that a byte of a prompt takes until its ids are known: 8 bytes for
	// an id of each byte, which the encoder collects in blocks and joins, or the ids and their copy
	// in a session; what normalizers make of the text; and copies of the text in messages and in
	// the rendered conversation.
	promptCost = 16
	// promptFree is the length of a prompt whose cost is part of heapBytes. That of a longer one
	// counts from promptFrom on, so that the part of one step has room for the encoder's fixed
	// buffers, too, whatever the tokenizer.
	promptFree = 128 << 10
	promptFrom = 96 << 10
)

// promptRoom is the heap that is reserved for one prompt until its ids are known. A nil
// promptRoom reserves nothing.
type promptRoom struct {
	engine    *Engine
	bytes     int // of text, for errors
	leases    []*tiering.Lease
	reserved  int64
	replanned int64 // part of reserved for which weights were released
}

// PromptMemory returns the Go heap that a prompt of so many bytes takes until its tokens are known,
// besides the text itself; see [MemoryOptions].Prompt. It is enough for every tokenizer whose
// normalizer does not make the text more than three times as long, whether it splits the text
// into words or not.
func PromptMemory(bytes int64) int64 { return max(0, bytes-promptFrom) * promptCost }

// reservePrompt reserves the heap for the conversion of texts into ids, and releases weights if
// the budget has no room. It returns ErrBudget before anything is allocated if the texts do not
// fit. The caller calls release when the ids are known.
func (e *Engine) reservePrompt(texts ...string) (*promptRoom, error) {
	r := &promptRoom{engine: e}
	for _, text := range texts {
		r.bytes += len(text)
	}
	heap := PromptMemory(int64(r.bytes))
	if heap == 0 {
		return r, nil
	}
	return r, r.reserve(heap)
}

// reserve reserves more bytes. A tokenizer or a template that makes the text longer asks for
// them before it allocates.
func (r *promptRoom) reserve(more int64) error {
	return r.reserveFor(fmt.Sprintf("a prompt of %s takes, until its tokens are known,", tiering.SizeText(int64(r.bytes))), more)
}

// reserveFor reserves more bytes. use says in an error what takes them.
func (r *promptRoom) reserveFor(use string, more int64) error {
	m := &r.engine.mem
	if m.budget == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	lease, err := m.budget.Reserve(tiering.Heap, more)
	if err != nil {
		if err = r.replan(r.reserved + more - r.replanned); err == nil { // what no plan contains yet
			lease, err = m.budget.Reserve(tiering.Heap, more)
		}
	}
	return r.take(lease, err, use, more)
}

// reserveLasting is reserveFor for memory that the engine needs as long as it is open, so that the
// plan counts it, and beside bytes of other memory.
func (r *promptRoom) reserveLasting(use string, more, beside int64) error {
	m := &r.engine.mem
	m.mu.Lock()
	defer m.mu.Unlock()
	var lease *tiering.Lease
	var err error
	if m.budget.Limit() > 0 {
		err = r.replan(more + beside)
	}
	if err == nil {
		lease, err = m.budget.Reserve(tiering.Heap, more)
	}
	return r.take(lease, err, use, more)
}

// replan makes the plan leave more bytes. The caller holds the engine's mem.mu.
func (r *promptRoom) replan(more int64) error {
	err := r.engine.replanHeap(more)
	if err == nil {
		r.replanned += more
	}
	return err
}

// take adds a lease of more bytes, or returns the error of reserving it.
func (r *promptRoom) take(lease *tiering.Lease, err error, use string, more int64) error {
	if err != nil {
		return fmt.Errorf("%s up to %s of memory: %w", use, tiering.AtLeastText(r.reserved+more), err)
	}
	r.leases, r.reserved = append(r.leases, lease), r.reserved+more
	heapLimits.add(&r.engine.mem, more)
	return nil
}

// granted returns the reserved memory for one step of the conversion, and the function that
// reserves more. A quarter is left out, for copies of the text.
func (r *promptRoom) granted() (bytes int64, reserve func(int64) error) {
	if r == nil {
		return 0, nil
	}
	return grantedOf(r.reserved), r.reserve
}

// grantedOf returns the part of reserved bytes that one step of the conversion gets.
func grantedOf(reserved int64) int64 { return (reserved + promptFree*promptCost) / 4 * 3 }

// encodeOptions adds the reserved memory to the options of an encoding.
func (r *promptRoom) encodeOptions(o token.EncodeOptions) token.EncodeOptions {
	o.Granted, o.Reserve = r.granted()
	return o
}

// release returns the memory to the budget.
func (r *promptRoom) release() {
	if r == nil || r.reserved+r.replanned == 0 {
		return
	}
	m := &r.engine.mem
	heapLimits.add(m, -r.reserved)
	debug.FreeOSMemory()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, lease := range r.leases {
		lease.Release()
	}
	if r.replanned > 0 {
		// The engine works with fewer weights too, and a closed engine needs none.
		_ = r.engine.replanHeap(-r.replanned)
	}
	r.leases, r.reserved, r.replanned = nil, 0, 0 // an engine may be closed twice
}

// replanHeap makes a plan with more bytes of heap, or fewer. It changes nothing if it fails.
// The caller holds e.mem.mu.
func (e *Engine) replanHeap(more int64) error {
	m := &e.mem
	m.need.Heap += more
	err := e.applyBudget(m.need.Budget)
	if err != nil && more > 0 {
		m.need.Heap -= more
	}
	return err
}
