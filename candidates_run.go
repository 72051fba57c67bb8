package llmrun

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/draft"
	"github.com/llmrun/llmrun/tiering"
)

// candidates is the state of one call of Session.Candidates.
type candidates struct {
	session   *Session
	options   CandidateOptions
	yield     func(*Candidate, error) bool
	abandoned bool      // the caller left the loop
	messages  []Message // of the prompt
	ids       []int32   // of the sequence with the prompt; goroutines of candidates share it

	done    chan finished
	running int
	most    int   // how many may run at the same time
	waiting []int // indexes of those that have not begun, ascending
	stats   Stats
	ended   []*finished // by index; nil while it runs
	results *Room       // of candidates that have ended; nil before

	// Of a beam search:
	beams     *BeamOptions // nil without one
	parents   []*branch    // what the running step continues, each of them expand times
	expand    int
	steps     []*branch // continuations of the running step that are scored
	firstSeed int       // index of the first one's seed
}

// finished is a candidate whose generation has ended.
type finished struct {
	*Candidate
	err         error
	heldSession      // of a step; none for a complete answer
	step        bool // the answer goes on behind it
}

// run prefills the prompt and generates all candidates.
func (c *candidates) run(ctx context.Context, prompt Prompt) error {
	if err := c.validate(&prompt); err != nil {
		return err
	}
	s := c.session
	ctx, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer s.end()
	g := &generation{session: s, options: c.options.GenerateOptions, start: time.Now()}
	if c.messages != nil {
		g.turn = &turn{messages: c.messages}
	}
	if err := g.prepare(prompt.tokens(s)); err != nil {
		g.endConstraint()
		return err
	}
	g.reader.close()
	g.endConstraint()
	c.options.reading = g.options.reading // candidates begin behind the same prompt
	s.takeOffered()
	c.ids = slices.Clip(g.ids)
	err = g.prefillShared(ctx)
	c.stats = g.stats
	before := exec.Passes(s.engine.model).Answers // without those of the prompt's last token, with which candidates begin
	if err == nil {
		err = c.produce(ctx)
		g.endDecode(&c.stats)
	}
	c.stats.Passes = int(exec.Passes(s.engine.model).Answers - before)
	g.turn.end(s, Message{}, 0, err == nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats = c.stats
	if err == nil {
		s.ids, s.offered = c.ids, &offered{ids: c.ids, messages: c.messages}
	}
	return err
}

// validate checks the options.
func (c *candidates) validate(prompt *Prompt) error {
	if c.beams != nil {
		if err := c.beams.validate(); err != nil {
			return err
		}
	}
	return c.options.validate(prompt)
}

// produce generates what the options ask for.
func (c *candidates) produce(ctx context.Context) error {
	defer c.dropResults()
	room := c.makeRoom()
	defer room.release()
	if c.beams != nil {
		return c.search(ctx)
	}
	return c.generate(ctx)
}

// prefillShared prefills the prompt except its last token, behind which each candidate begins.
func (g *generation) prefillShared(ctx context.Context) error {
	fresh := g.reuse(ctx)
	whole := g.ids
	prompt := len(whole) - draft.CommonPrefix(g.session.tokens(), whole)
	g.ids = whole[:len(whole)-1]
	defer g.savePrefix(ctx)
	o := exec.ExtendOptions{Progress: g.options.OnPrefill, Prompt: prompt}
	return g.extendPrompt(ctx, fresh[:len(fresh)-1], &o, func() error {
		g.keepPrompt(whole, len(fresh))
		return nil
	})
}

// generate runs the candidates and yields them in order.
func (c *candidates) generate(parent context.Context) error {
	ctx, cancel := context.WithCancelCause(parent)
	n := c.options.N
	c.done, c.ended, c.most, c.waiting = make(chan finished), make([]*finished, n), n, nil
	for i := range n {
		c.waiting = append(c.waiting, i)
	}
	defer func() {
		cancel(nil)
		for ; c.running > 0; c.running-- {
			f := <-c.done
			_ = f.close() // after an error, which is reported
		}
		for _, f := range c.ended {
			if f != nil {
				_ = f.close()
			}
		}
	}()
	for next := 0; next < n; {
		if err := c.start(ctx); err != nil {
			return err
		}
		if err := c.await(); err != nil {
			return c.offerComplete(ctx, next, err)
		}
		for ; next < n && c.ended[next] != nil; next++ {
			if err := c.offer(ctx, c.ended[next]); err != nil || c.abandoned {
				return err
			}
		}
	}
	return nil
}

// offerComplete yields the complete candidates from an index on when the context has ended, unless a function must
// score them, and returns err.
func (c *candidates) offerComplete(ctx context.Context, next int, err error) error {
	if ctx.Err() == nil || c.options.Score != nil || c.beams != nil {
		return err
	}
	for _, k := range c.ended[next:] {
		if k != nil && !c.abandoned {
			err = cmp.Or(c.offer(ctx, k), err)
		}
	}
	return err
}

// start starts candidates that wait, if there is memory for them.
func (c *candidates) start(ctx context.Context) error {
	for len(c.waiting) > 0 && c.running < c.most {
		index := c.waiting[0]
		f, heap, err := c.fork(index)
		if errors.Is(err, ErrBudget) && c.running == 0 {
			if freed, failed := c.freeBeams(); freed && failed == nil {
				f, heap, err = c.fork(index)
			}
		}
		switch {
		case errors.Is(err, ErrBudget) && c.running > 0:
			c.most = c.running
			return nil
		case err != nil:
			return err
		}
		f.branch = true
		c.waiting = c.waiting[1:]
		c.running++
		go func() {
			got := c.answer(ctx, f, index)
			heap.Release()
			c.done <- got
		}()
	}
	return nil
}

// fork returns a session for a candidate, and a reservation for its heap. Every plan has the heap of one.
func (c *candidates) fork(index int) (*Session, *tiering.Lease, error) {
	e := c.session.engine
	bytes := candidateHeap(e.info.Vocab, len(c.ids))
	if c.running == 0 {
		bytes = 0
	}
	heap, err := e.mem.budget.Reserve(tiering.Heap, bytes)
	if err != nil {
		return nil, nil, err
	}
	f, err := c.source(index).fork()
	if err != nil {
		heap.Release()
	}
	return f, heap, err
}

// candidateHeap returns what a running candidate takes of the heap: arrays of its sampler, its tokens, and the
// stack of its goroutine.
func candidateHeap(vocab, tokens int) int64 {
	const perToken, rest = 16, 256 << 10
	return int64(vocab)*perToken + int64(tokens)*heapPerID + rest
}

// topBytes returns what the likeliest tokens in one place take, in an array that has grown.
func topBytes(top []TokenLogProb) int64 {
	const perList, perToken = 32, 8
	if len(top) == 0 {
		return 0
	}
	return perList + int64(cap(top))*perToken
}

// heapPerID is what a token of a candidate and its prompt takes of the heap.
const heapPerID = 16

// keep reserves the heap of a candidate that has ended, until the call ends. The heap of every plan has room for
// a few short ones.
func (c *candidates) keep(k *Candidate) error {
	const perToken = 32 // the id and the logarithm, in arrays that have grown
	bytes := int64(len(k.IDs))*perToken + 2*int64(len(k.Text))
	for _, top := range k.Top {
		bytes += topBytes(top)
	}
	if c.results == nil {
		c.results = c.session.engine.NewRoom(fmt.Sprintf("keeping %d answers", c.options.N))
	}
	return c.results.Add(bytes)
}

// dropResults releases the heap of what is kept.
func (c *candidates) dropResults() {
	if c.results != nil {
		c.results.Close()
	}
	c.results = nil
}

// await waits for a candidate to end. One for which there was no memory beside the others begins again
// when there are fewer.
func (c *candidates) await() error {
	f := <-c.done
	beside := c.running
	c.running--
	switch {
	case errors.Is(f.err, ErrBudget) && (beside > 1 || c.freesBeams()):
		c.most = max(1, min(c.most, beside-1))
		at, _ := slices.BinarySearch(c.waiting, f.Index)
		c.waiting = slices.Insert(c.waiting, at, f.Index)
		return nil
	case f.err != nil:
		return f.err
	}
	c.ended[f.Index] = &f
	return c.keep(f.Candidate)
}

// answer generates a candidate in a session of its own, which it closes.
func (c *candidates) answer(ctx context.Context, f *Session, index int) finished {
	o := c.options.GenerateOptions
	o.LogProbs, o.OnPrefill, o.OnSlide, o.Overflow, o.KeepPrompt = true, nil, nil, OverflowStop, false
	seed := CandidateSeed(c.stats.Seed, c.firstSeed+index)
	o.Sampling.Seed = &seed
	got := finished{Candidate: &Candidate{Index: index}}
	ids := c.ids
	if p := c.parent(index); p != nil {
		got.Candidate, ids = p.continued(index), slices.Concat(c.ids, p.IDs)
		o.MaxTokens -= min(o.MaxTokens, len(p.IDs)) // at least one is left: the branch has not ended
		o.answered = p.IDs
	}
	var text strings.Builder
	text.WriteString(got.Text)
	tops := c.session.engine.NewRoom("a list of the likeliest tokens")
	defer tops.Close()
	for piece, err := range f.run(ctx, o, func(*GenerateOptions) ([]int32, error) { return ids, nil }, nil) {
		if err != nil {
			got.err = err
			break
		}
		got.add(&piece, &text)
		if got.err = tops.Add(topBytes(piece.Top)); got.err != nil {
			break
		}
		if got.step = c.beams.endsStep(text.String(), len(got.Text)); got.step {
			break
		}
	}
	got.Text, got.Stats = text.String(), f.Stats()
	if most := c.options.MaxTokens; got.step && most > 0 && len(got.IDs) >= most {
		got.step, got.Stats.StopReason = false, StopLength
	}
	if got.step && got.err == nil {
		got.session = f
		return got
	}
	got.err = errors.Join(got.err, f.Close())
	return got
}

// offer scores a candidate and yields it.
func (c *candidates) offer(ctx context.Context, f *finished) (err error) {
	k := f.Candidate
	k.Score = k.MeanLogProb()
	if c.options.Score != nil {
		if k.Score, err = c.options.Score(ctx, k); err != nil {
			return err
		}
	}
	c.stats.add(&k.Stats)
	if c.beams != nil {
		k.Stats.GeneratedTokens += c.parent(k.Index).Stats.GeneratedTokens // the others are those of the step
		c.steps = append(c.steps, &branch{Candidate: k, heldSession: f.heldSession, ended: !f.step})
		f.session = nil // the branch has it
		return nil
	}
	c.abandoned = !c.yield(k, nil)
	return nil
}

// add counts the tokens and the guesses of another generation.
func (s *Stats) add(other *Stats) {
	if s.FirstToken == 0 {
		s.FirstToken = s.Prefill + other.FirstToken
	}
	s.GeneratedTokens += other.GeneratedTokens
	s.Slides += other.Slides
	s.ForgottenTokens += other.ForgottenTokens
	for i, d := range other.Drafters {
		if i == len(s.Drafters) {
			s.Drafters = append(s.Drafters, DrafterUse{Name: d.Name})
		}
		s.Drafters[i].Proposed += d.Proposed
		s.Drafters[i].Accepted += d.Accepted
	}
}
