package tiering

import (
	"fmt"
	"strings"
)

// MinimumError reports a budget below the minimum of a model. It wraps [ErrBudget].
type MinimumError struct {
	Budget, Minimum int64
	By              Ledger // the minimum for each purpose
	Context         int    // tokens
	ContextFits     int    // the longest context that fits, 0 if none does
	// KVFits reports that the context fits with the most compact KV format.
	KVFits bool
	// KVWrites is the least Need.KVWrites with which the budget suffices for Need.KVPrompt tokens;
	// 0 if writes are not limited, or none would suffice.
	KVWrites int64
	// ExpertsTooLarge reports that a smaller quantization of the experts would help.
	ExpertsTooLarge bool
	// PromptTooLong reports that a shorter prompt would fit.
	PromptTooLong bool
}

// Error lists the minimum and the remedies.
func (e *MinimumError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v: a context of %d tokens needs at least %s, the budget is %s (", ErrBudget, e.Context, AtLeastText(e.Minimum), SizeText(e.Budget))
	separator := ""
	for _, p := range Purposes() {
		if n := e.By[p]; n != 0 {
			fmt.Fprintf(&b, "%s%s %s", separator, p, SizeText(n))
			separator = ", "
		}
	}
	fmt.Fprintf(&b, "); %s", strings.Join(e.remedies(), ", or "))
	return b.String()
}

// remedies lists the changes that would help.
func (e *MinimumError) remedies() []string {
	list := []string{"raise the budget"}
	if e.ContextFits > 0 {
		list = append(list, fmt.Sprintf("use a context of at most %d tokens", e.ContextFits))
	}
	if e.KVFits {
		list = append(list, "select a KV format of lower precision")
	}
	if e.ExpertsTooLarge {
		list = append(list, "use a smaller quantization")
	}
	if e.PromptTooLong {
		list = append(list, "use a shorter prompt")
	}
	if len(list) == 1 {
		list = append(list, "use a smaller model")
	}
	return list
}

// Unwrap makes errors.Is(err, ErrBudget) true.
func (e *MinimumError) Unwrap() error { return ErrBudget }

// refuse returns the error for a budget below the minimum. by holds the fixed memory.
func (m *planner) refuse(by Ledger) error {
	by[Scratch] = m.scratch(m.lowChunk())
	if least := m.slots(m.minSlots()); m.minimumWeights() == m.fixedPinned()+m.minimumRing()+least {
		by[Pinned], by[Ring], by[Cached] = by[Pinned]+m.fixedPinned(), m.minimumRing(), by[Cached]+least
	} else {
		by[Pinned], by[Cached] = by[Pinned]+m.dense(), by[Cached]+m.slots(m.experts())
		by[KVFrames] += m.residentRing()
	}
	if m.DriverPeak > 0 {
		by[Driver] += max(0, m.opening()-by.Total())
	}
	by[Heap] += max(0, m.opening()-by.Total())
	by[Pinned] += max(0, m.uploading()-by.Total())
	e := &MinimumError{Budget: m.Budget, Minimum: by.Total(), By: by, Context: m.Context}
	spare := m.Budget - (e.Minimum - by[KVHot] + PageUp(m.KVFixed))
	page := max(1, m.KVPageTokens)
	if m.KVBytesPerToken > 0 && spare > 0 && m.hot == m.kv(m.Context) {
		pages := spare / (m.KVBytesPerToken * int64(page))
		e.ContextFits = int(min(pages, int64(m.Context)/int64(page))) * page
	}
	e.KVFits = m.KVBytesLow > 0 && spare >= m.kvOf(m.Context, m.KVBytesLow)
	e.ExpertsTooLarge = m.slots(m.minSlots())/2 >= e.Minimum-m.Budget
	e.PromptTooLong = m.Prompt > 0 && max(e.Minimum-m.Prompt, m.opening(), m.uploading()) <= m.Budget
	return e
}

// opening returns the memory in use before weights and buffers are in memory.
func (m *planner) opening() int64 { return m.Code + m.Opening + m.DriverPeak }

// uploading returns the memory in use while weights are copied to a device, before other weights
// are read.
func (m *planner) uploading() int64 {
	if m.Upload == 0 {
		return 0
	}
	return PageUp(m.Code) + PageUp(m.Heap) + PageUp(m.Driver) + PageUp(m.OtherPinned) + PageUp(m.Upload)
}
