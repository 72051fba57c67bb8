package exec

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/draft"
	"github.com/llmrun/llmrun/exec/recurrent"
	"github.com/llmrun/llmrun/exec/weights"
)

// AllowDrafts prepares the sequence for passes that may drop up to n of their tokens again. Layers
// with recurrent state then record what each token does to it. It returns an error if the budget
// refuses that memory.
func (s *Sequence) AllowDrafts(n int) error {
	if s.state == nil {
		return nil
	}
	return s.state.AllowSteps(n+1, s.model.budget)
}

// DraftBytes returns the memory that AllowDrafts and AllowBranches take in each sequence of a model.
func DraftBytes(spec *arch.Spec, n, branches int) int64 {
	return recurrent.StepBytes(spec, n+1)*int64(1+branches) + recurrent.BranchBytes(spec)*int64(branches)
}

// DraftRoom returns how many guesses may follow one token in a pass, at most n, so that tokens and
// logits are those of passes without guesses. A device computes no guesses: its arithmetic may
// depend on the number of tokens of a pass. Sequences that share passes share their room too, because a pass takes all
// guesses of a sequence or leaves it out.
func (s *Sequence) DraftRoom(n int) int {
	m := s.model
	if m.offloadedLayers != nil || m.offload != nil {
		return 0
	}
	next := len(s.ids) + 1
	chunk := m.chunk()
	room := max(chunk/max(1, s.piece.together), chunk-int(math.Ceil(s.piece.others.Tokens)))
	n = min(n, room-1, s.limit-next)
	if s.summaries != nil {
		n = min(n, selectRows-1)
	}
	if s.state != nil {
		page := m.cache.PageTokens() // a pass ends with a page, so that the mark can be taken there
		n = min(n, s.state.Steps()-1, page-1-len(s.ids)%page)
	}
	for i := range m.Spec.Ropes {
		// A guess must not be what makes the sequence long.
		if t := &m.Spec.Ropes[i]; t.LongFreq != nil && next <= t.Switch {
			n = min(n, t.Switch-next)
		}
	}
	return max(0, n)
}

// dropRejected removes what a pass stored for tokens that its caller did not keep. The sequence
// has the kept ones already; keep of them are of this pass, which computed them in the sequence or in its branch chosen.
func (s *Sequence) dropRejected(chosen *Sequence, keep int) {
	s.dropUncommitted()
	if s.state != nil {
		s.state.Rewind(chosen.state, keep, s.model.workers)
	}
}

// tree is the branches of a sequence, or the sequence whose branch it is.
type tree struct {
	branches []*Sequence // for other guesses in its passes; see AllowBranches
	trunk    *Sequence   // nil if the sequence is no branch
}

// AllowBranches prepares a sequence for passes with up to count branches of up to n guesses each. It returns an
// error if the budget refuses the memory.
func AllowBranches(s *Sequence, n, count int) error {
	m := s.model
	if s.summaries != nil || m.offloadedLayers != nil || m.offload != nil {
		return nil
	}
	for len(s.tree.branches) < count {
		b := &Sequence{model: m, kv: m.cache.NewSeq(), tree: tree{trunk: s}, limit: s.limit}
		s.tree.branches = append(s.tree.branches, b)
		var err error
		if b.state, err = recurrent.NewBranch(m.Spec, m.budget); err == nil {
			err = b.AllowDrafts(n)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// close frees the memory of the branches.
func (t *tree) close() {
	for _, b := range t.branches {
		b.kv.Close()
		b.state.Close()
	}
	t.branches = nil
}

// follow makes a branch of a sequence begin behind its tokens, with room for n more in both.
func follow(ctx context.Context, branch, s *Sequence, n int) error {
	branch.ids, branch.longRope, branch.lora = s.ids, s.longRope, s.lora
	if s.state != nil {
		branch.state.Follow(s.state)
	}
	branch.kv.Follow(s.kv)
	err := branch.kv.Grow(ctx, len(s.ids)+n)
	if err == nil {
		err = s.kv.Grow(ctx, len(s.ids)+n)
	}
	if err != nil {
		branch.kv.Truncate(0)
	}
	return err
}

// addBranches adds those branches of a piece for which there is memory, and room in the pass, and returns the number
// of their tokens. It empties the others. A sequence with pages on flash gets none: the memory is worth more for its
// pages.
func (b *Batch) addBranches(p *piece, room int) (added int) {
	s := p.seq
	none := p.taken < len(p.ids) || p.selects || s.kv.ColdPages() > 0 || !sharesPasses(s.model)
	for i, ids := range p.options.Branches {
		n, common := len(ids), draft.CommonPrefix(ids, p.ids[:p.taken])
		if none || i >= len(s.tree.branches) || n < 2 || common == 0 || n > room-added || len(s.ids)+n > s.limit || follow(p.ctx, s.tree.branches[i], s, n) != nil {
			p.options.Branches[i] = ids[:0]
			continue
		}
		b.add(s.tree.branches[i], ids, false)
		r := &b.runs[len(b.runs)-1]
		r.branch = i + 1
		for row := common; row < n; row++ {
			b.want = append(b.want, r.row+row)
		}
		added += n
	}
	return added
}

// errNoBranch ends a pass that was repeated for one sequence, without memory for the branch that was chosen before.
var errNoBranch = errors.New("the pass was repeated, and there is no memory for the branch of guesses that was chosen")

// chosenRun returns the run whose tokens the sequence of a run goes on with: its own, or that of a branch. It returns nil
// if the branch is not in the pass.
func (b *Batch) chosenRun(run int) *run {
	r := &b.runs[run]
	o := r.seq.piece.options
	if len(o.Branches) == 0 {
		return r
	}
	branch := 1 + o.Chosen()
	for i := run; i < len(b.runs) && b.runs[i].caller() == &r.seq.piece; i++ {
		if b.runs[i].branch == branch {
			return &b.runs[i]
		}
	}
	return nil
}

// endBranches drops what a pass stored for branches.
func (b *Batch) endBranches() {
	for i := range b.runs {
		if s := b.runs[i].seq; s.tree.trunk != nil {
			s.kv.Truncate(0)
			s.ids = nil
			s.tree.trunk.dropUncommitted() // it had room for as many tokens as its longest branch
		}
	}
}

// markEnd returns where the passes from pos to end end, so that the mark of the recurrent state can be taken there: behind
// the last whole page, and every saveStep tokens before it.
func markEnd(pos, end, page int) int {
	if last := end / page * page; pos < last {
		end = last
	}
	if step := (pos + saveStep) / page * page; pos < step {
		end = min(end, step)
	}
	return end
}

// commitState makes the recurrent state that behind the pass, and keeps it as the mark behind a whole page, unless a
// save is writing the mark.
func commitState(s *Sequence) {
	if s.state == nil {
		return
	}
	s.state.Commit()
	if len(s.ids)%s.model.cache.PageTokens() == 0 && s.saving.save == nil {
		s.model.passes.prefixes.mark(s)
	}
}

// Weights may be stored in two planes (see package tiled): the high one is in memory, the low one may be
// streamed. A pass joins both, tile by tile, and computes with the whole codes. A draft pass computes one
// token with the high planes alone, which reads nothing from flash; it is a cheaper model whose tokens
// the next pass verifies.

// draftPass is the state of a sequence's draft passes.
type draftPass struct {
	batch  Batch
	id     [1]int32 // token that the pass processes
	choose func(logits []float32) (id int32, more bool, err error)
	more   bool
	err    error // of choose
}

// Drafts reports whether the model can [Draft] tokens of its sequences.
func Drafts(m *Model) bool {
	return m.nested && WhyNoDrafts(m.Spec, m.selection) == ""
}

// WhyNoDrafts returns what of a model and its selection the draft passes cannot compute, or "".
func WhyNoDrafts(spec *arch.Spec, selection Selection) string {
	switch {
	case spec.Experts > 0:
		return "experts"
	case !selection.Exact():
		return "page selection"
	}
	if spec.HasState() {
		return "layers with recurrent state"
	}
	return ""
}

// Draft computes one token after the other with the high planes alone: first id, which follows the
// sequence's tokens, then those that choose returns for the logits. It appends up to n of them to dst, until choose wants no
// more. The sequence stays as it is: keys and values of the drafted tokens are dropped and never reach flash.
func Draft(ctx context.Context, m *Model, s *Sequence, dst []int32, id int32, n int, choose func(logits []float32) (id int32, more bool, err error)) ([]int32, error) {
	if !Drafts(m) {
		return dst, fmt.Errorf("exec: the model cannot draft: no planes, or %s", WhyNoDrafts(m.Spec, m.selection))
	}
	d := &s.draft
	d.choose, d.err = choose, nil
	if d.batch.draft == nil { // made once, because making it allocates
		d.batch.draft = func(logits []float32) { d.id[0], d.more, d.err = d.choose(logits) }
	}
	defer s.kv.Truncate(len(s.ids))
	d.id[0] = id
	for i := range n {
		d.batch.clear()
		d.batch.add(s, d.id[:], false)
		d.batch.runs[0].pos += i
		d.batch.want = append(d.batch.want, 0)
		if err := cmp.Or(forwardHigh(ctx, m, &d.batch), d.err); err != nil {
			return dst, err
		}
		if dst = append(dst, d.id[0]); !d.more {
			break
		}
	}
	return dst, nil
}

// errNotResident means that a plan does not keep all that draft passes use.
var errNotResident = errors.New("exec: high planes are not in memory")

// forwardHigh is forward for a token of a draft: its keys and values are not committed.
func forwardHigh(ctx context.Context, m *Model, b *Batch) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	if err := b.runs[0].grow(ctx); err != nil {
		return err
	}
	if highStreamed(m.weights) {
		return errNotResident
	}
	return m.forward(ctx, b)
}

// highStreamed reports whether a draft pass would need weights that are not in memory.
func highStreamed(w *weights.Weights) bool {
	streamed := w.Head.Streamed.Count > 0
	for i := range w.Layers {
		l := &w.Layers[i]
		for _, m := range [...]*weights.Linear{&l.Q, &l.K, &l.V, &l.O, &l.MLP.Gate, &l.MLP.Up, &l.MLP.Down} {
			streamed = streamed || m.Streamed.Count > 0
		}
	}
	return streamed
}
