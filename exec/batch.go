package exec

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/llmrun/llmrun/exec/draft"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/kv/fetch"
)

// Batch is the tokens of one pass: a run of consecutive tokens for each of one or more
// sequences. A single sequence is a batch with one run.
type Batch struct {
	runs []run
	ids  []int32 // tokens of all runs, concatenated
	want []int   // rows whose logits the callers want, ascending
	// draft receives the logits of a draft pass, which no piece has asked for; see Draft
	draft func(logits []float32)
	// ranges of pages in memory that several sequences share, those of more sequences first
	ranges []sharedRange
}

// run is consecutive tokens of one sequence in a batch.
type run struct {
	seq   *Sequence
	row   int // row of its first token in the batch
	pos   int // position of its first token in the sequence
	count int
	// selects: the tokens are few enough for page selection. Each run of a batch decides for itself.
	selects bool
	branch  int // 1 + its index among the branches of a sequence; 0: the sequence itself

	sharing
}

// caller returns the piece of which the run is a part.
func (r *run) caller() *piece {
	if r.seq.tree.trunk != nil {
		return &r.seq.tree.trunk.piece
	}
	return &r.seq.piece
}

// add appends a run of the next tokens of a sequence, which select pages or not.
func (b *Batch) add(s *Sequence, ids []int32, selects bool) {
	row := len(b.ids)
	b.runs = append(b.runs, run{seq: s, row: row, pos: s.Len(), count: len(ids), selects: selects, sharing: sharing{saved: row}})
	b.ids = append(b.ids, ids...)
}

// clear removes all runs.
func (b *Batch) clear() {
	b.runs, b.ids, b.want, b.ranges = b.runs[:0], b.ids[:0], b.want[:0], b.ranges[:0]
}

// addWanted lists the rows of the last run whose logits the caller wants and has not received.
func (b *Batch) addWanted() {
	r := &b.runs[len(b.runs)-1]
	for i := range r.count {
		if r.seq.piece.wants(r.pos + i) {
			b.want = append(b.want, r.row+i)
		}
	}
}

// grow reserves KV slots in a sequence for its new tokens, unless an accelerator holds the KV of all
// layers.
func (r *run) grow(ctx context.Context) error {
	if r.seq.model.offloadedLayers.all() {
		return nil
	}
	err := r.seq.kv.Grow(ctx, r.pos+r.count)
	if err == nil && r.seq.summaries != nil {
		err = r.seq.summaries.Grow(r.pos + r.count)
	}
	if err != nil {
		return fmt.Errorf("reserving KV for tokens %d to %d: %w", r.pos, r.pos+r.count-1, err)
	}
	return nil
}

// commit appends the new tokens to their sequences, except those that a caller does not keep: they
// leave nothing behind. An error of a callback changes nothing about this, because it comes after the
// tokens were computed.
func (b *Batch) commit() {
	for i := range b.runs {
		r := &b.runs[i]
		s := r.seq
		if s.tree.trunk != nil {
			continue
		}
		chosen := b.chosenRun(i)
		if chosen == nil {
			s.piece.err = cmp.Or(s.piece.err, errNoBranch)
			continue
		}
		s.piece.committed = true
		keep := s.piece.accepts(chosen)
		s.piece.gives(keep)
		exact := s.exactTokens == len(s.ids) && !(r.selects && r.pos+keep > alwaysAttended)
		s.ids = append(s.ids, b.ids[chosen.row:chosen.row+keep]...)
		if exact {
			s.exactTokens = len(s.ids)
		}
		if chosen != r {
			s.kv.Take(chosen.seq.kv, len(s.ids))
		}
		s.kv.Commit(len(s.ids))
		if chosen != r || keep < r.count {
			s.dropRejected(chosen.seq, keep)
		}
		commitState(s)
		s.model.passes.prefixes.register(s)
	}
}

// deliver passes the logits of a row to its caller. If the caller has left or returns an error, it
// receives no others, and the pass ends like any other.
func (b *Batch) deliver(row int, logits []float32) {
	if b.draft != nil {
		b.draft(logits)
		return
	}
	r := b.runOf(row)
	p := r.caller()
	if len(b.runs) > 1 && p.err == nil {
		p.err = p.ctx.Err()
	}
	if pos := r.pos + row - r.row; r.branch == 0 {
		p.deliver(pos, logits)
	} else if p.err == nil {
		p.err = p.options.EachBranch(r.branch-1, pos, logits)
	}
}

// wantsHidden reports whether the caller of a row wants its hidden state instead of logits.
func (b *Batch) wantsHidden(row int) bool {
	return b.draft == nil && b.runOf(row).caller().options.Hidden
}

// wantsLogits reports whether any of these rows is wanted for its logits.
func (b *Batch) wantsLogits(rows []int) bool {
	return slices.ContainsFunc(rows, func(row int) bool { return !b.wantsHidden(row) })
}

// awaits reports whether the caller of any of these rows still receives logits.
func (b *Batch) awaits(rows []int) bool {
	return b.draft != nil || slices.ContainsFunc(rows, func(row int) bool { return b.runOf(row).caller().err == nil })
}

// runOf returns the run of a row.
func (b *Batch) runOf(row int) *run {
	i := 0
	for row >= b.runs[i].row+b.runs[i].count {
		i++
	}
	return &b.runs[i]
}

// Sequences returns the number of sequences in the batch. It implements fetch.Batch.
func (b *Batch) Sequences() int { return len(b.runs) }

// Sequence returns the KV of one sequence and the position of its first new token. It implements
// fetch.Batch.
func (b *Batch) Sequence(i int) (*kv.Seq, int) { return b.runs[i].seq.kv, b.runs[i].pos }

// Shared returns how many pages of a sequence are those of the sequence before it. It implements
// fetch.Batch.
func (b *Batch) Shared(i int) int { return b.runs[i].shared }

// Selects reports whether layers without a window read only selected pages of a sequence. It
// implements fetch.Batch.
func (b *Batch) Selects(i int) bool { return b.runs[i].selects }

// onFlash reports whether any sequence has KV pages on flash.
func (b *Batch) onFlash() bool { return fetch.OnFlash(b) }

// piece is the tokens that an Extend wants to compute next. A pass takes the first of them, or all.
type piece struct {
	seq     *Sequence
	ctx     context.Context
	options *ExtendOptions
	ids     []int32
	selects bool // they select pages
	last    int  // position of the Extend's last token
	// delivered: the caller has received the logits of the wanted positions before this one. A pass
	// that is repeated does not pass them on again.
	delivered int

	taken int   // number of ids that the pass took
	err   error // of the pass, or of a callback
	// committed: the tokens are part of the sequence, as far as the caller keeps them, also after an
	// error of a callback.
	committed bool
	// What the last pass had: tokens of the piece, guesses and branches too, tokens that it gave the piece's answer, the
	// others, and the number of pieces.
	tokens, gave int
	others       draft.Others
	together     int
	// done receives a value when a pass has taken tokens of the piece, or failed.
	done chan struct{}

	// For sharedPasses, which guards them.
	queued   bool // it waits for a pass
	alone    bool // it shares no pass: one that it shared failed
	prompt   bool // the caller came back soon after its last pass
	lastPass uint64
	// answering is the number of the pass that gave its answer a token, until the caller comes back or rests.
	answering uint64
	finished  time.Time // end of its last pass
}

// shortPiece is the most tokens that go through a pass together with all other short pieces, before
// any tokens of long prompts.
const shortPiece = 32

// begin prepares the piece for an Extend of the tokens at positions first to last.
func (p *piece) begin(o *ExtendOptions, first, last int) {
	p.options, p.last, p.delivered = o, last, first
}

// short reports whether the whole piece goes through one pass, which holds so many tokens: few tokens,
// or guesses.
func (p *piece) short(chunk int) bool {
	n := len(p.ids)
	return n <= chunk && (n <= shortPiece || p.options.Accepted != nil) && !(p.selects && n > selectRows)
}

// wants reports whether the caller wants the logits of a position and has not received them.
func (p *piece) wants(pos int) bool {
	o := p.options
	if o.Each == nil || pos < p.delivered {
		return false
	}
	return o.Want == nil && pos == p.last || o.Want != nil && o.Want(pos)
}

// deliver passes logits to the caller, unless it has returned an error before.
func (p *piece) deliver(pos int, logits []float32) {
	if p.err != nil {
		return
	}
	if p.err = p.options.Each(pos, logits); p.err == nil {
		p.delivered = pos + 1
	}
}

// gives records how many tokens an answer has from a pass that keeps some of the piece's.
func (p *piece) gives(kept int) {
	switch {
	case p.options.Accepted != nil:
		p.gave = kept
	case p.taken == len(p.ids) && p.options.Each != nil:
		p.gave = 1
	}
}

// accepts returns how many tokens of a run of the piece stay in the sequence.
func (p *piece) accepts(r *run) int {
	if p.options.Accepted == nil {
		return r.count
	}
	return min(r.count, max(0, p.options.Accepted()-r.pos))
}

// choose takes the pieces of the next pass out of the queue, with the number of tokens of each.
func (q *sharedPasses) choose(m *Model) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.chosen = q.chosen[:0]
	room := batchRoom{tokens: m.chunk(), selecting: selectRows}
	if m.Spec.Encoder.Bidirectional {
		q.takeWhole(&room)
	} else if head := q.waiting[0]; head.alone || !sharesPasses(m) {
		q.choosePiece(head, &room, room.tokens)
	} else {
		q.takeShort(&room)
		q.takePrompts(&room)
	}
	q.waiting = slices.DeleteFunc(q.waiting, func(p *piece) bool { return !p.queued })
	// The same sequences in the same order need the same pages from flash as in the pass before.
	slices.SortFunc(q.chosen, func(a, b *piece) int { return cmp.Compare(a.seq.number, b.seq.number) })
}

// sharesPasses reports whether a pass may have several sequences. A device computes one sequence at a
// time, because its arithmetic may depend on the number of tokens; an observer expects one text.
func sharesPasses(m *Model) bool {
	return m.offload == nil && m.offloadedLayers == nil && m.observe == nil
}

// batchRoom is how many more tokens a pass holds, and how many of them may select pages.
type batchRoom struct{ tokens, selecting int }

// of returns how many tokens of a piece fit.
func (r *batchRoom) of(p *piece) int {
	n := min(len(p.ids), r.tokens)
	if p.selects {
		n = min(n, r.selecting)
	}
	return n
}

// choosePiece adds up to most tokens of a piece to the pass.
func (q *sharedPasses) choosePiece(p *piece, room *batchRoom, most int) int {
	n := min(room.of(p), most)
	if n == 0 {
		return 0
	}
	room.tokens -= n
	if p.selects {
		room.selecting -= n
	}
	p.queued, p.taken = false, n
	q.chosen = append(q.chosen, p)
	return n
}

// takeShort adds the short pieces that fit. A prompt that has waited longest keeps room for a token.
func (q *sharedPasses) takeShort(room *batchRoom) {
	chunk, kept := room.tokens, 0
	if !q.waiting[0].short(chunk) {
		kept = 1
	}
	room.tokens -= kept
	for _, p := range q.waiting {
		if !p.alone && p.short(chunk) && room.of(p) == len(p.ids) {
			q.choosePiece(p, room, len(p.ids))
		}
	}
	room.tokens += kept
}

// prompts returns the number of long pieces that wait.
func (q *sharedPasses) prompts(chunk int) (n int) {
	for _, p := range q.waiting {
		if p.queued && !p.alone && !p.short(chunk) {
			n++
		}
	}
	return n
}

// latePasses is how many passes of prompts are short for an answer that does not come back. A whole chunk can take seconds.
const latePasses = 4

// lateAnswers returns the number of answers whose callers have not come back from one of the last passes.
func (q *sharedPasses) lateAnswers() (n int) {
	for _, s := range q.order {
		if in := s.piece.answering; in > 0 && q.passes-in < latePasses {
			n++
		}
	}
	return n
}

// takePrompts adds tokens of long pieces.
func (q *sharedPasses) takePrompts(room *batchRoom) {
	most, beside := room.tokens, 0
	for _, p := range q.chosen {
		beside += p.taken
	}
	chunk, answers := room.tokens+beside, len(q.chosen)
	if answers == 0 {
		answers = q.lateAnswers()
		beside = answers
	}
	switch {
	case answers == 0:
	case q.times.Measured():
		times := promptTimes * max(1, float64(q.prompts(chunk))/float64(answers))
		most = max(1, q.times.Room(beside, room.tokens, times, promptPass))
	default:
		most = max(1, chunk/promptDivisor)
	}
	for _, p := range q.waiting {
		if p.queued && !p.alone && !p.short(chunk) {
			most -= q.choosePiece(p, room, most)
		}
	}
}
