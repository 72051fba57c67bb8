package exec

import (
	"fmt"
	"strconv"
)

// Selection decides how much of a long context a new token attends to. The zero value selects
// the whole context.
type Selection struct {
	// Fraction is the fraction of the selectable blocks that a token attends to in a layer; 0
	// means all. The blocks that are always selected do not count.
	Fraction float64
	// Missing, if not 0, adapts the number of blocks to the text: the fewest blocks that are
	// estimated to lose at most this fraction of attention.
	Missing float64
}

// autoMissing is the Selection.Missing that the name "auto" stands for.
const autoMissing = 0.05

// ParseSelection returns the selection of a name: "exact" or "" attends to all blocks, "auto"
// adapts their number, and a number above 0 and up to 1 is the fraction.
func ParseSelection(name string) (Selection, error) {
	switch name {
	case "", "exact":
		return Selection{}, nil
	case "auto":
		return Selection{Missing: autoMissing}, nil
	}
	f, err := strconv.ParseFloat(name, 64)
	if err != nil || !(f > 0 && f <= 1) {
		return Selection{}, fmt.Errorf("invalid page selection %q: it must be exact, auto, or a fraction above 0 and up to 1 such as 0.1", name)
	}
	return Selection{Fraction: f}, nil
}

// Exact reports whether tokens attend to all blocks.
func (s Selection) Exact() bool { return s == Selection{} }

// SelectionStats counts the work of page selection over all tokens and layers. Candidates is the
// number of blocks that selection could leave out, and Selected the number of those that it
// selected. ReadBytes is the number of bytes read from flash for selected pages.
type SelectionStats struct{ Candidates, Selected, ReadBytes int64 }

// SelectionStats returns the statistics of page selection since the model was loaded.
func (m *Model) SelectionStats() SelectionStats {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.selectionStats
	s.ReadBytes = m.selectedPages.Stats().Bytes
	return s
}
