package exec

import (
	"fmt"
	"strconv"
)

// Selection says how much of a long context a new token looks at. The zero value
// is all of it.
type Selection struct {
	// Fraction is the share of blocks, apart from those that are always looked at,
	// that a token may look at in a layer; 0 means all.
	Fraction float64
	// Missing, if not 0, makes the number of blocks follow the text: as few as are
	// estimated to leave out no more than this share of attention.
	Missing float64
}

// autoMissing is what "auto" may leave out.
const autoMissing = 0.05

// ParseSelection returns the selection of a name: "exact" or "" looks at
// everything, "auto" chooses how much, and a number from 0 to 1 is the fraction.
func ParseSelection(name string) (Selection, error) {
	switch name {
	case "", "exact":
		return Selection{}, nil
	case "auto":
		return Selection{Missing: autoMissing}, nil
	}
	f, err := strconv.ParseFloat(name, 64)
	if err != nil || !(f > 0 && f <= 1) {
		return Selection{}, fmt.Errorf("there is no selection %q; it must be exact, auto, or a fraction above 0 and up to 1 such as 0.1", name)
	}
	return Selection{Fraction: f}, nil
}

// Exact reports whether everything is looked at.
func (s Selection) Exact() bool { return s == Selection{} }

// SelectionStats counts blocks of tokens that selection was asked about, for
// each token and layer, and how many of them it took. Read is how many bytes were
// read from flash because of that.
type SelectionStats struct{ Asked, Taken, Read int64 }

// SelectionStats returns what selection has done since the model was loaded.
func (m *Model) SelectionStats() SelectionStats {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.selected
	s.Read = m.selectedPages.Stats().Bytes
	return s
}
