package llmrun_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
)

// turns returns the turns of a life, with those of the sessions that it forks.
func (x *stranger) life() []*strangerTurn {
	var all []*strangerTurn
	if x.from != nil {
		all = x.from.life()[:len(x.from.life())-len(x.from.turns)+x.at]
	}
	for i := range x.turns {
		all = append(all, &x.turns[i])
	}
	return all
}

// tellAlone generates what a life gives alone, in a session of its own. Where pages are not selected, that session is now and then another one, which
// reads the whole text at once.
func (r *strangerRun) tellAlone(e *llmrun.Engine, x *stranger) {
	t := r.t
	s, err := e.NewSession()
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	life, tokens := x.life(), []int32(nil)
	for i, n := range life {
		if r.options.Memory.KVSelect == "" && r.rng.IntN(2) == 0 {
			again, err := e.NewSession()
			require.NoError(t, err)
			require.NoError(t, again.UseAdapters(s.Adapters()...))
			require.NoError(t, s.Close())
			s = again
		}
		whole := *n
		whole.ids = slices.Concat(tokens[s.Len():], n.ids)
		said := r.take(s, &whole, true)
		if full := (*llmrun.ContextFullError)(nil); errors.As(said.err, &full) {
			said.tokens = tokens // as before
		} else {
			require.NoError(t, said.err, "session %d, turn %d: %v", x.index, i, n)
		}
		tokens = said.tokens
		if own := i - (len(life) - len(x.turns)); own >= 0 {
			x.want = append(x.want, said)
		}
	}
}

// take takes a turn with a session. Alone, nobody ends it, and candidates are answers one after the other.
func (r *strangerRun) take(s *llmrun.Session, n *strangerTurn, alone bool) (said strangerSaid) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if n.switches {
		if said.err = s.UseAdapters(n.use...); said.err != nil {
			return said
		}
	}
	if !alone && n.ends != goesOn && n.after == 0 {
		var ended sync.WaitGroup
		defer ended.Wait()
		ended.Go(func() {
			for range 1000 * n.options.MaxTokens { // others get some way
				runtime.Gosched()
			}
			n.end(s, cancel)
		})
	}
	switch {
	case n.candidates > 0 && alone && r.options.Memory.KVSelect == "":
		r.oneByOne(ctx, s, n, &said)
		return said
	case n.candidates > 0 || n.width > 0:
		r.several(ctx, s, n, &said)
	default:
		for p, err := range s.GenerateIDs(ctx, n.ids, n.options) {
			if err != nil {
				said.err = err
				break
			}
			said.pieces = append(said.pieces, p)
			if len(said.pieces) == n.leave {
				break
			}
			if !alone && n.ends != goesOn && len(said.pieces) == n.after {
				n.end(s, cancel)
			}
		}
		said.stats = told(s.Stats())
		said.stop = said.stats.StopReason
		if !alone {
			r.count(s, n)
		}
	}
	said.tokens = s.Tokens()
	return said
}

// end ends a life.
func (n *strangerTurn) end(s *llmrun.Session, cancel func()) {
	switch n.ends {
	case contextEnds:
		cancel()
	case sessionCloses:
		_ = s.Close() // another one checks that it is closed
	}
}

// told returns what of statistics does not depend on how something was computed.
func told(s llmrun.Stats) llmrun.Stats {
	return llmrun.Stats{
		PromptTokens: s.PromptTokens, GeneratedTokens: s.GeneratedTokens, Slides: s.Slides, ForgottenTokens: s.ForgottenTokens,
		StopReason: s.StopReason, StopText: s.StopText, ShortestTokens: s.ShortestTokens, Seed: s.Seed,
	}
}

// count counts what a turn covered.
func (r *strangerRun) count(s *llmrun.Session, n *strangerTurn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, use := range s.Stats().Drafters {
		r.tally.Guessed += use.Accepted
	}
	if isHeld(&n.options) {
		r.tally.Held++
	}
	if len(s.Adapters()) > 0 {
		r.tally.Adapted++
	}
}

// several generates candidates or beams, and chooses one.
func (r *strangerRun) several(ctx context.Context, s *llmrun.Session, n *strangerTurn, said *strangerSaid) {
	prompt := llmrun.Prompt{IDs: n.ids}
	all := s.Candidates(ctx, prompt, llmrun.CandidateOptions{GenerateOptions: n.options, N: n.candidates})
	if n.width > 0 {
		all = s.Beams(ctx, prompt, llmrun.BeamOptions{GenerateOptions: n.options, Width: n.width, Expand: n.expand, Step: "e"})
	}
	for c, err := range all {
		if err != nil {
			said.err = err
			break
		}
		said.several = append(said.several, *c)
	}
	if n.choose >= 0 && said.err == nil {
		c := said.several[min(n.choose, len(said.several)-1)]
		said.err = s.Choose(ctx, &c)
	}
	for i := range said.several {
		said.several[i].Stats = told(said.several[i].Stats)
	}
}

// oneByOne generates what candidates give, each in a session of its own.
func (r *strangerRun) oneByOne(ctx context.Context, s *llmrun.Session, n *strangerTurn, said *strangerSaid) {
	for i := range n.candidates {
		f, err := s.Fork()
		require.NoError(r.t, err)
		defer func() { require.NoError(r.t, f.Close()) }()
		o, seed := n.options, llmrun.CandidateSeed(*n.options.Sampling.Seed, i)
		o.LogProbs, o.Overflow, o.Sampling.Seed = true, llmrun.OverflowStop, &seed
		c := llmrun.Candidate{Index: i}
		for p, err := range f.GenerateIDs(ctx, n.ids, o) {
			if said.err = err; err != nil {
				said.several, said.tokens = nil, s.Tokens()
				return
			}
			if c.Text += p.Text; p.ID >= 0 {
				c.IDs, c.LogProbs = append(c.IDs, p.ID), append(c.LogProbs, p.LogProb)
				if p.Top != nil {
					c.Top = append(c.Top, p.Top)
				}
			}
		}
		c.Stats, c.Score = told(f.Stats()), c.MeanLogProb()
		said.several = append(said.several, c)
	}
	said.tokens = slices.Concat(s.Tokens(), n.ids)
	if said.err == nil && n.choose >= 0 {
		said.tokens = append(said.tokens, said.several[n.choose].IDs...)
	}
}

// together lives all lives at the same time, while the budget changes.
func (r *strangerRun) together(e *llmrun.Engine) {
	var running, meddling sync.WaitGroup
	done := make(chan struct{})
	meddling.Go(func() { r.meddle(e, done) })
	limit := make(chan struct{}, 1+r.rng.IntN(12)) // sessions that begin alone
	for _, x := range r.all {
		if x.from != nil {
			continue
		}
		running.Go(func() {
			limit <- struct{}{}
			defer func() { <-limit }()
			s, err := e.NewSession()
			r.live(e, x, s, err, &running)
		})
	}
	running.Wait()
	close(done)
	meddling.Wait()
}

// live lives a life, and begins those of the forks.
func (r *strangerRun) live(e *llmrun.Engine, x *stranger, s *llmrun.Session, err error, running *sync.WaitGroup) {
	if err != nil {
		x.got = append(x.got, strangerSaid{err: err})
		return
	}
	defer func() { _ = s.Close() }()
	for i := range x.turns {
		n := &x.turns[i]
		said := r.take(s, n, false)
		r.mu.Lock()
		r.tally.Cold = max(r.tally.Cold, e.KVUse().ColdPages)
		r.mu.Unlock()
		x.got = append(x.got, said)
		if said.err != nil || n.ends != goesOn {
			return
		}
		for _, child := range x.children {
			if child.at == i+1 {
				f, err := s.Fork()
				running.Go(func() { r.live(e, child, f, err, running) })
			}
		}
		if n.saves {
			if s, err = r.save(e, s, fmt.Sprintf("s%d", x.index), n.reopens); err != nil {
				x.got[i].err = err
				return
			}
		}
	}
}

// save saves a session, and perhaps closes it and opens it again.
func (r *strangerRun) save(e *llmrun.Engine, s *llmrun.Session, name string, reopens bool) (*llmrun.Session, error) {
	if err := s.Save(name); err != nil || !reopens {
		return s, err
	}
	if err := s.Close(); err != nil {
		return s, err
	}
	opened, err := e.OpenSession(name, llmrun.SessionOptions{})
	if err != nil {
		return s, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tally.Reopened++
	return opened, nil
}

// meddle changes the budget until done is closed.
func (r *strangerRun) meddle(e *llmrun.Engine, done <-chan struct{}) {
	rng := rand.New(rand.NewPCG(uint64(len(r.all)), 3))
	for range 1 + rng.IntN(6) {
		var err error
		switch rng.IntN(4) {
		case 0:
			_, err = e.Trim(context.Background(), llmrun.TrimLevel(rng.IntN(4)))
		case 1:
			if r.options.Memory.RAM > 0 {
				err = e.SetBudget(r.options.Memory.RAM - 1<<20 + rng.Int64N(3<<20))
			}
		case 2:
			err = e.SetBudget(llmrun.NoLimit)
		}
		if err != nil && !errors.Is(err, llmrun.ErrBudget) {
			r.t.Errorf("changing the budget: %v", err)
		}
		select {
		case <-done:
			return
		case <-time.After(time.Duration(rng.IntN(5)) * time.Millisecond):
			runtime.Gosched()
		}
	}
}

// compare compares a life with the one that the session has alone. One that ended early is its beginning.
func (r *strangerRun) compare(x *stranger) {
	t := r.t
	for i := range x.got {
		want, got, n := &x.want[i], &x.got[i], &x.turns[i]
		where := fmt.Sprintf("session %d, turn %d", x.index, i)
		switch full := (*llmrun.ContextFullError)(nil); {
		case errors.Is(got.err, llmrun.ErrBudget):
			r.tally.Refused++
		case got.err == nil && got.stop != llmrun.StopCancelled || errors.As(got.err, &full):
			require.Equal(t, want, got, where)
			r.tally.Turns++
			r.tally.Several += len(got.several)
			if x.from != nil {
				r.tally.Forked++
			}
			continue
		case got.err == nil: // the caller left
			require.Equal(t, want, got, where)
			require.Positive(t, n.leave+int(n.ends), where)
		default:
			require.NotEqual(t, goesOn, n.ends, "%s: %v", where, got.err)
			require.True(t, errors.Is(got.err, context.Canceled) || errors.Is(got.err, llmrun.ErrClosed), "%s: %v", where, got.err)
		}
		r.tally.Left++
		k := len(got.pieces)
		for k > 0 && got.pieces[k-1].ID < 0 { // what was held back when it ended
			k--
		}
		require.LessOrEqual(t, k, len(want.pieces), where)
		requireSame(t, want.pieces[:k], got.pieces[:k], where)
		k = len(got.several)
		require.LessOrEqual(t, k, len(want.several), where)
		requireSame(t, want.several[:k], got.several[:k], where)
	}
}

// requireSame compares the elements of two slices.
func requireSame[T any](t *testing.T, want, got []T, where string) {
	t.Helper()
	for i := range got {
		require.Equal(t, want[i], got[i], "%s, %d", where, i)
	}
}
