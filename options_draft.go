package llmrun

import (
	"fmt"

	"github.com/llmrun/llmrun/exec/draft"
)

// Values of DraftOptions.Drafter.
const (
	DraftAuto   = "auto"           // guess where it is expected to be faster; the default
	DraftOff    = "off"            // one token for each pass
	DraftLookup = draft.LookupName // always verify what followed the last tokens where they occurred before
	DraftNested = draft.NestedName // always verify what the high planes of the weights give; see [ImportOptions].Nested
)

// DraftOptions select how tokens of an answer are guessed, so that one pass over the weights can
// verify several of them. Guesses do not change the answer, only its speed.
type DraftOptions struct {
	// Drafter is DraftAuto, also "", DraftOff, DraftLookup, DraftNested, or the path of a draft model: a small model with
	// the same vocabulary, whose weights stay in memory within the same budget. Auto does not guess for models with experts,
	// where each guess may need other experts, and stops where guesses do not pay.
	Drafter string
	// Max is the most guesses in a pass; 0 means 16.
	Max int
}

// DrafterUse counts the guesses of a drafter.
type DrafterUse struct {
	Name     string
	Proposed int // guesses that passes verified
	Accepted int // those of them that were right
}

const (
	draftMax = 16
	// lookupTokens is the most tokens that a session remembers for guesses.
	lookupTokens = 8192
	// besideTokens is the most tokens that look-up beside a draft model remembers.
	besideTokens = 4096
	// maxDraft is the greatest DraftOptions.Max.
	maxDraft = 256
)

func (o *DraftOptions) max() int {
	if o.Max == 0 {
		return draftMax
	}
	return o.Max
}

// named reports whether the options name a drafter, which always guesses as much as it may.
func (o *DraftOptions) named() bool {
	return o.Drafter != "" && o.Drafter != DraftAuto && o.Drafter != DraftOff
}

func (o *DraftOptions) validate() error {
	if o.Max < 0 || o.Max > maxDraft {
		return fmt.Errorf("%w: Drafts.Max is %d; it must be from 1 to %d, or 0 for %d", ErrOptions, o.Max, maxDraft, draftMax)
	}
	return nil
}
