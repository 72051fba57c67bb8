package tiering

import (
	"fmt"
	"strings"
)

// MinimumError refuses a budget that is smaller than the memory that must be held at all
// times. It wraps [ErrBudget].
type MinimumError struct {
	Budget, Minimum int64
	By              Ledger // the minimum for each purpose
	Context         int    // tokens
	ContextFits     int    // the longest context that fits, 0 if none does
	// KVFits reports that the context fits with the smallest format of keys and values.
	KVFits bool
	// ExpertsTooLarge reports that a smaller quantization of the experts would fit.
	ExpertsTooLarge bool
}

// Error lists the minimum and says what would fit.
func (e *MinimumError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v: the least for a context of %d tokens is %s, and the budget is %s (", ErrBudget, e.Context, sizeText(e.Minimum), sizeText(e.Budget))
	separator := ""
	for _, p := range Purposes() {
		if n := e.By[p]; n != 0 {
			fmt.Fprintf(&b, "%s%s %s", separator, p, sizeText(n))
			separator = ", "
		}
	}
	fmt.Fprintf(&b, "); %s", strings.Join(e.remedies(), ", or "))
	return b.String()
}

// remedies says what would help.
func (e *MinimumError) remedies() []string {
	list := []string{"raise the budget"}
	if e.ContextFits > 0 {
		list = append(list, fmt.Sprintf("use a context of at most %d tokens", e.ContextFits))
	}
	if e.KVFits {
		list = append(list, "keep keys and values in a lower precision")
	}
	if e.ExpertsTooLarge {
		list = append(list, "use a smaller quantization")
	}
	if len(list) == 1 {
		list = append(list, "use a smaller model")
	}
	return list
}

// Unwrap makes errors.Is(err, ErrBudget) true.
func (e *MinimumError) Unwrap() error { return ErrBudget }

// refuse explains why nothing fits. by holds what is fixed.
func (m *planner) refuse(by Ledger) error {
	by[Scratch] = m.scratch(m.lowChunk())
	if least := m.slots(m.minSlots()); m.minimumWeights() == m.fixedPinned()+m.minimumRing()+least {
		by[Pinned], by[Ring], by[Cached] = by[Pinned]+m.fixedPinned(), m.minimumRing(), by[Cached]+least
	} else {
		by[Pinned], by[Cached] = by[Pinned]+m.dense(), by[Cached]+m.slots(m.experts())
	}
	e := &MinimumError{Budget: m.Budget, Minimum: by.Total(), By: by, Context: m.Context}
	spare := m.Budget - (e.Minimum - by[KVHot] + pageUp(m.KVFixed))
	page := max(1, m.KVPageTokens)
	if m.KVBytesPerToken > 0 && spare > 0 && m.hot == m.kv(m.Context) {
		pages := spare / (m.KVBytesPerToken * int64(page))
		e.ContextFits = int(min(pages, int64(m.Context)/int64(page))) * page
	}
	e.KVFits = m.KVBytesLow > 0 && spare >= m.kvOf(m.Context, m.KVBytesLow)
	e.ExpertsTooLarge = m.slots(m.minSlots())/2 >= e.Minimum-m.Budget
	return e
}
