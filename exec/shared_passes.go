package exec

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/llmrun/llmrun/exec/draft"
	"github.com/llmrun/llmrun/tiering"
)

// Extends that run at the same time share passes, so that one read of the weights serves the tokens of
// several sequences. Each of them queues a piece of its tokens. One holds the turn: it forms a batch of
// the pieces that wait, runs the pass, and hands each piece its result. A pass begins at once with what
// is there; only the callers of the pass before are awaited for a moment, because otherwise the fastest
// of them would always begin a pass without the others.
//
// A batch takes whole short pieces first (the next token of an answer, or guesses), in the order of
// their arrival, and then tokens of long prompts. Beside short pieces, prompts get so many that the pass
// takes promptTimes as long as without them, or promptPass, so that answers go on while a long prompt is
// read, also if the callers of all answers are a little late. Where more prompts wait than answers run, the pass may take as many times longer: requests that come together would
// otherwise begin one behind the other, and their last passes be as many with few sequences. The piece that has waited longest
// always takes part.
//
// Logits do not depend on what else is in a pass. An error of one sequence ends only its own Extend; if
// a shared pass fails, its pieces are computed again one by one, and the error finds its owner. A
// sequence whose context ends in the middle of a pass, or whose callback returns an error, keeps the
// tokens that the pass has computed, and the others do not notice.

// How long a pass of answers takes at most with tokens of prompts: in passes without them, or a time in which
// answers go on faster than anyone reads. promptDivisor is the part of a chunk that prompts get before a pass was measured.
const (
	promptTimes   = 3
	promptPass    = 50 * time.Millisecond
	promptDivisor = 4
)

// Callers of a pass are awaited for one part in graceDivisor of the time of the pass, within these
// limits.
const (
	graceDivisor = 8
	leastGrace   = 100 * time.Microsecond
	mostGrace    = 5 * time.Millisecond
)

// errInterrupted is the error of the other pieces of a pass that panicked.
var errInterrupted = errors.New("exec: the pass was interrupted")

// sharedPasses joins the pieces of concurrent Extends.
type sharedPasses struct {
	turn chan struct{} // full while an Extend holds the turn

	// The holder of the turn owns these.
	batch  Batch
	chosen []*piece // pieces of the batch, in the order of their sequences
	timer  *time.Timer
	ended  time.Time // end of the last pass

	leastGrace time.Duration                         // a test makes it longer
	pretend    func(tokens int) (took time.Duration) // what passes take, in a test; nil: what they took

	count, tokens atomic.Int64 // passes and their tokens
	answers       atomic.Int64 // passes with tokens of answers
	chunkTokens   atomic.Int64 // maximum tokens of a pass

	prefixes prefixes // of all sequences

	mu       sync.Mutex    // guards the fields below
	order    []*Sequence   // all sequences, those with common pages side by side
	waiting  []*piece      // in the order of arrival
	grace    time.Duration // how long callers are awaited
	passes   uint64        // number of the last pass
	times    draft.Passes  // what passes take
	expected int           // callers of the last pass that may come back soon
	back     chan struct{} // receives a value when all of them are back
}

func (q *sharedPasses) open(plan *tiering.Plan) {
	q.turn, q.back = make(chan struct{}, 1), make(chan struct{}, 1)
	q.timer = time.NewTimer(time.Hour)
	q.timer.Stop()
	q.leastGrace, q.grace = leastGrace, leastGrace
	q.expect(plan)
}

// compute passes tokens of a piece through the model: p.taken of them, at least one.
func (q *sharedPasses) compute(ctx context.Context, m *Model, p *piece) error {
	q.submit(ctx, p)
	return q.await(ctx, m, p)
}

// submit queues a piece.
func (q *sharedPasses) submit(ctx context.Context, p *piece) {
	select {
	case <-p.done: // left by a pass that panicked, from which the caller recovered
	default:
	}
	p.ctx, p.err, p.taken, p.committed = ctx, nil, 0, false
	q.add(p)
}

// await returns when a pass has taken the piece.
func (q *sharedPasses) await(ctx context.Context, m *Model, p *piece) error {
	cancelled := ctx.Done()
	for {
		select {
		case <-p.done:
			return p.err
		case <-cancelled:
			if q.remove(p) {
				return ctx.Err()
			}
			cancelled = nil // a pass with its tokens runs
		case q.turn <- struct{}{}:
			q.lead(m, p)
		}
	}
}

// lead runs passes until one has taken the piece, and gives the turn back.
func (q *sharedPasses) lead(m *Model, p *piece) {
	defer func() { <-q.turn }()
	for q.queued(p) {
		q.awaitOthers()
		q.run(m)
	}
}

func (q *sharedPasses) queued(p *piece) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return p.queued
}

// add queues a piece.
func (q *sharedPasses) add(p *piece) {
	now := time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	p.queued, p.answering = true, 0
	q.waiting = append(q.waiting, p)
	p.prompt = p.finished.IsZero() || now.Sub(p.finished) <= q.grace
	q.noLongerExpected(p)
}

// noLongerExpected notes that the caller of a piece is back, or does not come back. The caller holds
// q.mu.
func (q *sharedPasses) noLongerExpected(p *piece) {
	if p.lastPass == 0 || p.lastPass != q.passes {
		return
	}
	p.lastPass = 0
	if q.expected--; q.expected == 0 {
		select {
		case q.back <- struct{}{}:
		default:
		}
	}
}

// Rest tells the model that the sequence is not extended again soon, so that passes of other sequences
// do not wait for it.
func (s *Sequence) Rest() {
	q := &s.model.passes
	q.mu.Lock()
	defer q.mu.Unlock()
	s.piece.answering = 0
	q.noLongerExpected(&s.piece)
}

// remove takes a piece out of the queue. It reports false if a pass has taken it.
func (q *sharedPasses) remove(p *piece) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !p.queued {
		return false
	}
	p.queued = false
	q.waiting = slices.DeleteFunc(q.waiting, func(other *piece) bool { return other == p })
	return true
}

// awaitOthers waits a moment for callers of the last pass that have not come back.
func (q *sharedPasses) awaitOthers() {
	left, some := q.awaits()
	if !some || left <= 0 {
		return
	}
	q.timer.Reset(left)
	defer q.timer.Stop()
	for some {
		select {
		case <-q.back:
			_, some = q.awaits()
		case <-q.timer.C:
			return
		}
	}
}

// awaits reports whether callers are expected, and for how much longer.
func (q *sharedPasses) awaits() (left time.Duration, some bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.expected == 0 {
		return 0, false
	}
	return q.grace - time.Since(q.ended), true
}

// run forms a batch, passes it through the model and hands out the results.
func (q *sharedPasses) run(m *Model) {
	m.mu.Lock()
	defer m.mu.Unlock()
	begun, err := time.Now(), errInterrupted
	q.choose(m)
	defer func() { q.handOut(begun, err) }()
	stalled := m.stalled()
	if err = q.forward(m); err == nil {
		q.learn(time.Since(begun), m.stalled()-stalled)
	}
}

// forward passes the chosen pieces through the model, except those for which there is no memory.
func (q *sharedPasses) forward(m *Model) error {
	if m.closed {
		return ErrClosed
	}
	b := &q.batch
	b.clear()
	room := m.chunk() // for branches
	for _, p := range q.chosen {
		room -= p.taken
	}
	defer b.endBranches()
	for _, p := range q.chosen {
		p.tokens, p.gave = 0, 0
		r := run{seq: p.seq, pos: p.seq.Len(), count: p.taken}
		if p.err = r.grow(p.ctx); p.err == nil {
			b.add(p.seq, p.ids[:p.taken], p.selects)
			b.addWanted()
			branches := b.addBranches(p, room)
			room -= branches
			p.tokens = p.taken + branches
		}
	}
	if len(b.runs) > 1 {
		b.findShared(m, m.pass.stateRows())
	}
	switch len(b.runs) {
	case 0:
		return nil
	case 1:
		return q.pass(b.runs[0].caller().ctx, m)
	}
	return q.pass((*callers)(b), m)
}

func (q *sharedPasses) pass(ctx context.Context, m *Model) error {
	q.count.Add(1)
	q.tokens.Add(int64(len(q.batch.ids)))
	if slices.ContainsFunc(q.chosen, func(p *piece) bool { return p.err == nil && p.options.Answer }) {
		q.answers.Add(1)
	}
	return m.forward(ctx, &q.batch)
}

// handOut hands out the results of a pass. After an error of a shared pass, the pieces that it leaves
// open wait again, each for a pass of its own.
func (q *sharedPasses) handOut(begun time.Time, err error) {
	q.ended = time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.passes++
	q.expected = 0
	q.grace = max(min(q.ended.Sub(begun)/graceDivisor, mostGrace), q.leastGrace)
	again := 0
	for _, p := range q.chosen {
		if err != nil && p.err == nil && len(q.chosen) > 1 && p.ctx.Err() == nil {
			p.queued, p.alone = true, true
			q.waiting = slices.Insert(q.waiting, again, p)
			again++
			continue
		}
		p.err = cmp.Or(p.err, err)
		q.release(p)
	}
	clear(q.chosen)
}

// release hands a piece back to its caller.
func (q *sharedPasses) release(p *piece) {
	p.alone, p.finished = false, q.ended
	if p.err == nil && p.gave > 0 {
		p.answering = q.passes
	}
	if p.err == nil && p.prompt {
		p.lastPass = q.passes
		q.expected++
	}
	p.done <- struct{}{}
}

// callers is the context of a pass that several callers share: it ends when all of theirs have ended.
type callers Batch

// Deadline implements context.Context.
func (c *callers) Deadline() (deadline time.Time, ok bool) { return time.Time{}, false }

// Done implements context.Context.
func (c *callers) Done() <-chan struct{} { return nil }

// Err implements context.Context.
func (c *callers) Err() (err error) {
	for i := range c.runs {
		if err = c.runs[i].caller().ctx.Err(); err == nil {
			return nil
		}
	}
	return err
}

// Value implements context.Context.
func (c *callers) Value(any) any { return nil }

// PassStats counts the passes of a model and the tokens that went through them. Answers are the passes with tokens for which
// ExtendOptions.Answer is set.
type PassStats struct{ Passes, Tokens, Answers int64 }

// Passes returns the counts since the model was loaded.
func Passes(m *Model) PassStats {
	return PassStats{Passes: m.passes.count.Load(), Tokens: m.passes.tokens.Load(), Answers: m.passes.answers.Load()}
}
