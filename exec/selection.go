package exec

import (
	"fmt"
	"strconv"

	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/tiering"
)

// Selection decides how much of a long context a new token attends to. The zero value selects
// the whole context.
type Selection struct {
	// Fraction is the fraction of the selectable blocks that a token attends to in a layer; 0
	// means all. The blocks that are always selected do not count. At least 16 blocks are selected.
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

// autoFraction is the fraction of the selectable blocks that "auto" is assumed to pick in a plan.
const autoFraction = 0.15

// shape describes the selection to a plan.
func (s Selection) shape() tiering.Selection {
	fraction := s.Fraction
	if fraction == 0 {
		fraction = autoFraction
	}
	return tiering.Selection{Fraction: fraction, Always: alwaysAttended, Least: leastSelected * kv.BlockTokens}
}

// SelectionStats counts the work of page selection over all tokens and layers. Candidates is the
// number of blocks that selection could leave out, and Selected the number of those that it
// selected. ReadBytes is the number of bytes read from flash for selected pages.
type SelectionStats struct{ Candidates, Selected, ReadBytes int64 }

// SelectionStats returns the statistics of page selection since the model was loaded.
func (m *Model) SelectionStats() SelectionStats {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.selectionStats
	s.ReadBytes = m.pickedPages.Stats().Bytes
	return s
}

// selectionRule says which tokens of an Extend attend to selected blocks. It depends on the tokens
// alone. Tokens that are computed again, because their page was not saved, do not count as new ones.
// They attend exactly if all tokens before them did: then they end a long input.
type selectionRule struct {
	exactTo, newFrom, end    int // ranges of positions: computed again exactly, computed again, new
	againSelects, newSelects bool
}

// selectionRule returns the rule for the tokens from first to end, the last prompt of which are new
// and may include some before first; 0: those from first on.
func (s *Sequence) selectionRule(first, end, prompt int) (r selectionRule) {
	if s.summaries == nil {
		return selectionRule{end: end}
	}
	r.newFrom, r.end = first, end
	if prompt > 0 {
		r.newFrom = max(first, end-prompt)
	}
	if r.exactTo = first; s.exactTokens == len(s.ids) {
		r.exactTo = r.newFrom
	}
	r.againSelects = r.newFrom-r.exactTo <= selectRows
	r.newSelects = max(end-r.newFrom, prompt) <= selectRows
	return r
}

// spanAt returns the end of the tokens that attend like the token at a position, and whether they
// select. The end may be nearer than needed, but no more than selectRows tokens select together.
func (r *selectionRule) spanAt(at int) (end int, selects bool) {
	switch {
	case at < r.exactTo && r.newSelects:
		return r.exactTo, false
	case at < r.exactTo:
		return r.end, false
	case at < r.newFrom && (r.againSelects != r.newSelects || r.newSelects && r.end-at > selectRows):
		return r.newFrom, r.againSelects
	}
	return r.end, r.newSelects
}
