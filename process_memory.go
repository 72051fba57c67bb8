package llmrun

import (
	"fmt"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/llmrun/llmrun/tiering"
)

const (
	// processInterval is the interval at which the process is compared with the budget.
	processInterval = time.Second
	// processStep rounds what is released for the process beyond the ledger.
	processStep = 1 << 20
)

// watchProcess starts a goroutine that compares the memory of the process, as the kernel
// counts it, with the budget. It starts none where the system does not tell.
func (e *Engine) watchProcess(notify func(string)) {
	meter, err := tiering.NewResidentMeter()
	if err != nil {
		return
	}
	w := &watcher{stop: make(chan struct{}), ended: make(chan struct{})}
	e.processWatcher = w
	go func() {
		defer close(w.ended)
		defer func() { _ = meter.Close() }() // it was only read
		ticker := time.NewTicker(processInterval)
		defer ticker.Stop()
		for {
			select {
			case <-w.stop:
				return
			case <-ticker.C:
				e.respondToProcess(meter.Read, notify)
			}
		}
	}()
}

// respondToProcess compares the memory of the process with the budget. If the process holds
// more, the ledger has counted too little. The excess then joins the ledger as code, weights
// make room for it, and notify, which may be nil, receives the figures.
func (e *Engine) respondToProcess(resident func() int64, notify func(string)) {
	m := &e.mem
	m.mu.Lock()
	defer m.mu.Unlock()
	limit := m.ownerBudget
	if limit == 0 || resident() <= limit {
		return
	}
	debug.FreeOSMemory() // garbage is the cheapest to release
	held := resident()
	if held <= limit {
		return
	}
	excess := (held - limit + processStep - 1) / processStep * processStep
	err := e.countAsCode(excess)
	if notify != nil && (err == nil || !m.excessReported) {
		text := fmt.Sprintf("the process holds %s, %s more than its memory budget (%s)", tiering.SizeText(held), tiering.SizeText(held-limit), describeProcess())
		if err != nil {
			m.excessReported = true // the same will be true in a second
			text += fmt.Sprintf(", and cannot release them: %v", err)
		}
		notify(text)
	}
}

// describeProcess returns the parts of the process that no purpose of the ledger names.
func describeProcess() string {
	root := tiering.SystemRoot()
	return fmt.Sprintf("code %s, stacks %s, page tables %s", tiering.SizeText(tiering.ReadCode(root).Resident()), tiering.SizeText(int64(stackBytes())), tiering.SizeText(tiering.ReadResident(root).PageTables))
}

// stackBytes returns the memory of goroutine stacks, which Go's memory limit and the purpose
// heap contain, and of the threads' stacks.
func stackBytes() (bytes uint64) {
	stacks := []metrics.Sample{{Name: "/memory/classes/heap/stacks:bytes"}, {Name: "/memory/classes/os-stacks:bytes"}}
	metrics.Read(stacks)
	for _, s := range stacks {
		bytes += s.Value.Uint64()
	}
	return bytes
}

// countAsCode adds bytes of the process to the ledger and releases weights for them. It
// changes nothing if that fails. The caller holds e.mem.mu.
func (e *Engine) countAsCode(bytes int64) error {
	m := &e.mem
	lease, err := m.budget.Reserve(tiering.Code, bytes)
	if err != nil {
		m.need.Code += bytes
		if err = e.applyBudget(m.need.Budget); err == nil {
			lease, err = m.budget.Reserve(tiering.Code, bytes)
		}
		if err != nil {
			m.need.Code -= bytes
		}
	}
	if err == nil {
		m.leases = append(m.leases, lease)
	}
	return err
}
