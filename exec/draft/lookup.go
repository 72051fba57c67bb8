package draft

import (
	"context"

	"github.com/llmrun/llmrun/tiering"
)

// Lookup is a [Drafter] that guesses that a text goes on as it went on before, where its last tokens
// occurred already.
type Lookup struct {
	text     *Automaton
	lengths  lengths
	match    int // tokens that matched at the last Draft
	branches branches

	// What the last Draft would have guessed, if another drafter made the guesses, and how many of them were right so far.
	shadow [mostHidden]int32
	hidden int
	right  int
}

// mostHidden is the default number of guesses of a pass.
const mostHidden = 16

// LookupName is the name of the drafter [Lookup].
const LookupName = "lookup"

// NewLookup returns a Lookup that remembers up to capacity tokens. Its memory is charged to budget.
func NewLookup(budget *tiering.Budget, capacity int) (*Lookup, error) {
	text, err := NewAutomaton(budget, capacity)
	if err != nil {
		return nil, err
	}
	return &Lookup{text: text, lengths: lengths{right: firstRight}, branches: newBranches()}, nil
}

// LookupBytes is the memory of a Lookup with a capacity, in whole pages.
func LookupBytes(capacity int) int64 { return tiering.PageUp(automatonBytes(capacity)) }

// LookupMemory is what a Lookup takes at most for a capacity.
func LookupMemory() tiering.Line { return AutomatonMemory() }

// Name implements [Drafter].
func (l *Lookup) Name() string { return LookupName }

// Begin implements [Drafter]. It remembers what is new of the prompt.
func (l *Lookup) Begin(before, ids []int32) error {
	l.hidden, l.right = 0, 0
	same := 0
	if len(l.text.Text()) > 0 {
		same = CommonPrefix(before, ids)
	}
	l.text.Append(ids[same:]...)
	return nil
}

// Accepted implements [Drafter].
func (l *Lookup) Accepted(id int32) {
	l.text.Append(id)
	if l.right >= l.hidden {
		return
	}
	if l.shadow[l.right] == id {
		l.right++
		return
	}
	l.endShadow(l.hidden)
}

// endShadow learns from guesses that were not made. A number of them are known to be right or wrong.
func (l *Lookup) endShadow(known int) {
	if known > 0 {
		l.lengths.verified(l.match, known, l.right)
	}
	l.hidden, l.right = 0, 0
}

// Draft implements [Drafter].
func (l *Lookup) Draft(_ context.Context, dst []int32, r *Request) ([]int32, error) {
	l.endShadow(l.right)
	start := len(dst)
	dst, l.match = l.text.Draft(dst, r.Most)
	if !r.Always || r.Beat > 0 {
		n := min(len(dst)-start, l.lengths.best(r.Passes, l.match, r.Most))
		if r.Beat > 0 && (n == 0 || l.lengths.rate(r.Passes, l.match, n) <= r.Beat) {
			l.hidden = copy(l.shadow[:], dst[start:])
			n = 0
		}
		dst = dst[:start+n]
	}
	if r.Branches = r.Branches[:0]; len(dst) > start {
		l.branches.add(r, l.text, dst[start:], l.lengths.chance)
	}
	return dst, nil
}

// BranchKept implements [Brancher].
func (l *Lookup) BranchKept(branch, more int) { l.branches.kept(branch, more) }

// Verified implements [Drafter].
func (l *Lookup) Verified(guesses, right int) { l.lengths.verified(l.match, guesses, right) }

// Close implements [Drafter].
func (l *Lookup) Close() { l.text.Close() }
