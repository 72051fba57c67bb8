package llmrun

import (
	"sync/atomic"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/draft"
)

// A pass may verify other guesses beside the first ones: branches of a tree, each from the last token on. The pass computes
// each branch as if it stood in the session alone. The sampler goes along the first guesses until one is wrong, and then
// along a branch that begins with the tokens that it drew.

// branches are the branches of a pass.
type branches struct {
	options *exec.ExtendOptions // of the passes of an answer; its Branches are those of the running pass
	kept    int                 // branch with which the text goes on; -1: the first guesses
	chain   int                 // number of right guesses before the first branch was kept

	keptPasses *atomic.Int64 // passes of the engine that kept a branch
}

// openBranches prepares a session for branches.
func (s *Session) openBranches(d *guesser) error {
	if err := exec.AllowBranches(s.seq, d.max, draft.MaxBranches); err != nil {
		return err // the session closes those that it has
	}
	d.request.Branches = make([][]int32, draft.MaxBranches)
	d.branches = make([][]int32, draft.MaxBranches)
	for i := range d.branches {
		d.request.Branches[i] = make([]int32, 0, d.max)
		d.branches[i] = make([]int32, 0, 1+d.max)
	}
	d.request.Branches = d.request.Branches[:0]
	return nil
}

// allBranches makes all passes with guesses have branches: a test sets it.
var allBranches bool

// offer makes the branches of a drafter's request those of the next pass, which also has a number of guesses. A nil
// guesser offers none.
func (b *branches) offer(d *guesser, last int32, guesses int) {
	b.options.Branches = nil
	if d == nil || guesses == 0 {
		return
	}
	for i, ids := range d.request.Branches {
		d.branches[i] = append(append(d.branches[i][:0], last), ids...)
	}
	b.options.Branches = d.branches[:len(d.request.Branches)]
}

// guesses returns the number of guesses in the branches of the pass. Those that it has left out are empty.
func (b *branches) guesses() (n int) {
	for _, ids := range b.options.Branches {
		n += max(0, len(ids)-1)
	}
	return n
}

// verified tells a drafter which branch was kept, and returns how many of its first guesses were right. right is the
// number of right guesses of what was kept.
func (b *branches) verified(by draft.Drafter, right int) int {
	if by, ok := by.(draft.Brancher); ok && len(b.options.Branches) > 0 {
		more := 0
		if b.kept >= 0 {
			more = right - b.chain
		}
		by.BranchKept(b.kept, more)
	}
	if b.kept >= 0 {
		b.keptPasses.Add(1)
		return b.chain
	}
	return right
}

// sampleBranch chooses the token behind a position of a branch, if the branch begins with the tokens that the pass gave.
func (g *generation) sampleBranch(branch, pos int, logits []float32) error {
	tokens, n := g.tree.options.Branches[branch], len(g.got)
	if pos-(len(g.ids)-1) != n || n == 0 || !g.goesOn(tokens) {
		return nil
	}
	if g.tree.kept < 0 {
		g.tree.chain = g.right
	}
	g.tree.kept, g.right = branch, n
	g.sampler.Accept(g.got[n-1].ID)
	return g.sampleNext(tokens, logits)
}

// goesOn reports whether tokens behind the first are those that the pass gave, and the text goes on behind them.
func (g *generation) goesOn(tokens []int32) bool {
	last := &g.got[len(g.got)-1]
	if len(tokens) <= len(g.got) || last.ends || last.stopped || last.whole {
		return false
	}
	for i := range g.got {
		if tokens[i+1] != g.got[i].ID {
			return false
		}
	}
	return true
}
