package llmrun

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/draft"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/tiering"
)

// mayDraft reports whether sessions of a model guess tokens. A device's arithmetic may depend on the
// number of tokens of a pass, so there is nothing to guess for.
func (o *Options) mayDraft(experts bool) bool {
	return o.Drafts.Drafter != DraftOff && !o.usesDevice() && (!experts || o.Drafts.named())
}

// addDrafts adds the memory of guesses to a shape.
func (o *Options) addDrafts(shape *tiering.Shape, f *modelfile.Files) error {
	spec, err := f.Spec()
	if err != nil || !o.mayDraft(spec.Experts > 0) {
		return err
	}
	if o.Drafts.draftPath() != "" {
		shape.Drafts.Fixed += exec.DraftBytes(spec, o.Drafts.max(), draft.MaxBranches) + draft.LookupBytes(besideTokens)
		return o.addDraftModel(shape)
	}
	shape.Drafts, shape.DraftTokens = draft.LookupMemory(), lookupTokens
	shape.Drafts.Fixed += exec.DraftBytes(spec, o.Drafts.max(), draft.MaxBranches)
	return nil
}

// guesser makes the guesses of a session. A nil guesser makes none.
type guesser struct {
	drafters []draft.Drafter // each pass asks them in this order, until one has guesses
	passes   draft.Passes    // what the next one is expected to take
	always   bool            // verify as many guesses as allowed
	max      int
	bytes    int64 // that drafters hold of the engine's memory, all of it for guesses

	request draft.Request
	asked   []draft.Drafter // for the running pass, the last of which may have made the guesses
	counts  []draft.History // of the answer, of each drafter; nil: nothing is learned from it
	guesses []int32         // of the running pass
	by      draft.Drafter   // which made them

	branches [][]int32 // of the running pass, each behind the last token; nil: the session has none
}

// newGuesser returns the guesser of a session, nil if it guesses nothing. Auto guesses nothing either
// if there is no memory for it.
func (s *Session) newGuesser() (*guesser, error) {
	e := s.engine
	if !e.mayDraft || !e.drafts.named() && !e.draftsPlanned() && !exec.Drafts(e.model) {
		return nil, nil
	}
	d := &guesser{always: e.drafts.named(), max: e.drafts.max()}
	d.guesses, d.request.Seconds = make([]int32, 0, d.max), make([]draft.Second, 0, d.max)
	err := s.seq.AllowDrafts(d.max)
	if err == nil {
		err = s.openDrafters(d)
	}
	if err == nil {
		e.guessing.add(s)
		return d, nil
	}
	d.close()
	if e.drafts.named() {
		return nil, fmt.Errorf("preparing guesses: %w", err)
	}
	return nil, nil
}

// openDrafters makes the drafters that the options name. Look-up stands before a drafter that computes, if there is memory
// for both: it guesses where it is expected to give more.
func (s *Session) openDrafters(d *guesser) error {
	e := s.engine
	var computes draft.Drafter
	tokens := min(e.limit, lookupTokens)
	switch {
	case e.draftModel != nil:
		drafter, err := e.draftModel.newModelDrafter(e.model.Spec.Vocab)
		if err != nil {
			return err
		}
		computes, tokens = drafter, besideTokens
	case exec.Drafts(e.model) && e.drafts.Drafter != DraftLookup:
		computes = s.openNested()
	}
	lookup, err := draft.NewLookup(e.model.Budget(), tokens)
	if err == nil {
		d.drafters, d.bytes = append(d.drafters, lookup), draft.LookupBytes(tokens)
	} else if computes == nil {
		return err
	}
	if computes != nil {
		d.drafters = append(d.drafters, computes)
	}
	if err := s.openBranches(d); err != nil && computes == nil {
		return err
	}
	return nil
}

// draftsPlanned reports whether the plan has room for guesses.
func (e *Engine) draftsPlanned() bool {
	e.mem.mu.Lock()
	defer e.mem.mu.Unlock()
	return e.mem.current == nil || e.mem.current.By[tiering.Drafts] > 0
}

// startDrafts prepares the session's guesses for an answer.
func (g *generation) startDrafts() (err error) {
	s := g.session
	if s.guesser == nil {
		if s.guesser, err = s.newGuesser(); err != nil {
			return err
		}
	}
	d := s.guesser
	if d == nil {
		return nil
	}
	for _, drafter := range d.drafters {
		if err := drafter.Begin(s.tokens(), g.ids); err != nil {
			return err
		}
		g.stats.Drafters = append(g.stats.Drafters, DrafterUse{Name: drafter.Name()})
	}
	d.request.Always, d.request.Passes, d.request.Choose = d.always, &d.passes, g.choose
	d.startCounting(s.engine)
	return nil
}

// accepted records a token of the answer.
func (d *guesser) accepted(id int32) {
	if d == nil {
		return
	}
	for _, drafter := range d.drafters {
		drafter.Accepted(id)
	}
}

// guess returns tokens that may follow the last one.
func (g *generation) guess(ctx context.Context, last int32) ([]int32, error) {
	d := g.session.guesser
	room := g.draftRoom()
	if room <= 0 {
		return nil, nil
	}
	if d.passes = exec.ExpectedPasses(g.session.seq); !d.always && d.passes.Full() {
		return nil, nil
	}
	r := &d.request
	r.Most, r.MostBranches, r.AllBranches = room, len(d.branches), allBranches
	for i := range d.drafters {
		d.by, d.asked, r.Beat = d.drafters[i], d.drafters[:i+1], 0
		r.Branches, r.Seconds = r.Branches[:0], r.Seconds[:0]
		if i+1 < len(d.drafters) {
			if next, ok := d.drafters[i+1].(draft.Expecter); ok {
				r.Beat = next.Expected(r)
			}
		}
		g.sampler.Branch()
		g.sampler.Accept(last)
		g.held.branch()
		var err error
		d.guesses, err = d.by.Draft(ctx, d.guesses[:0], r)
		g.held.leave()
		g.sampler.Return()
		switch {
		case ctx.Err() != nil:
			return nil, endOf(ctx)
		case err != nil && !errors.Is(err, ErrBudget):
			return nil, fmt.Errorf("drafter %s: %w", d.by.Name(), err)
		case err == nil && len(d.guesses) > 0:
			return d.guesses, nil
		}
	}
	return nil, nil
}

// choose draws the token of a drafter's logits behind the guesses that were chosen before.
func (g *generation) choose(logits []float32) (int32, error) {
	if err := g.chooseAmong(); err != nil {
		return 0, err
	}
	id, err := g.sampler.Sample(logits)
	if err != nil {
		return id, err
	}
	r := &g.session.guesser.request
	margin, second := g.sampler.Margin(logits, id)
	r.Margin, r.Seconds = margin, append(r.Seconds, draft.Second{ID: second, Lead: margin})
	g.sampler.Accept(id)
	g.held.guessed(id)
	return id, nil
}

// verified learns from a pass of one token and the guesses, of which the first right ones were right.
func (g *generation) verified(guesses, right int) {
	d := g.session.guesser
	if d == nil {
		return
	}
	d.note(guesses, right)
	if guesses > 0 {
		d.by.Verified(guesses, g.tree.verified(d.by, right))
		use := &g.stats.Drafters[slices.Index(d.drafters, d.by)]
		use.Proposed += guesses + g.tree.guesses()
		use.Accepted += right
	}
}

// close frees the memory.
func (d *guesser) close() {
	if d == nil {
		return
	}
	for _, drafter := range d.drafters {
		drafter.Close()
	}
}

// sampled is a token that a pass gave, and what it means for the text.
type sampled struct {
	Piece
	more    []Piece // further parts of the answer that the token completes
	ends    bool    // the model's end-of-text token
	stopped bool    // a stop string is complete
	whole   bool    // the answer is complete, because the language that holds it has ended
}

// sample chooses the token behind a position, unless the pass already gave a token that ends the
// answer or that was guessed wrong.
func (g *generation) sample(_ int, logits []float32) error {
	n := len(g.got)
	if n > g.right {
		return nil
	}
	switch {
	case n > 0:
		g.sampler.Accept(g.got[n-1].ID)
	case len(g.inputs) > 0:
		g.sampler.Accept(g.inputs[0])
	}
	return g.sampleNext(g.inputs, logits)
}

// sampleNext chooses the token behind tokens, of which the first are those that the pass gave before.
func (g *generation) sampleNext(tokens []int32, logits []float32) error {
	n := len(g.got)
	id, done, must, err := g.chooseNext(logits)
	if err != nil {
		return err
	}
	next := sampled{Piece: Piece{ID: id}}
	if next.ends = done || len(must) == 0 && g.isEnd(id) && !g.options.IgnoreEOS; !next.ends {
		held := g.holdsNext()
		g.decodeToken(&next)
		g.options.addLogProbs(&next.Piece, logits)
		g.calling.follow(must)
		if next.whole, err = g.passed(id, held); err != nil {
			return err
		}
	}
	g.got = append(g.got, next)
	if n+1 < len(tokens) && tokens[n+1] == id && !next.ends && !next.stopped && !next.whole {
		g.right++
	}
	return nil
}

// chooseNext chooses the token that the model continues with, or the first of those that must follow. done tells that the answer is complete.
func (g *generation) chooseNext(logits []float32) (id int32, done bool, must []int32, err error) {
	if must = g.mustFollow(); len(must) > 0 {
		return must[0], false, must, nil
	}
	if id, done, err = g.allow(); err == nil && id < 0 && !done {
		id, err = g.draw(logits)
	}
	if err == nil && !done && (g.calling.waits() || g.waitsForAnswer()) && g.isEnd(id) { // the answer does not end before it has begun
		must = g.endThoughts()
		id = must[0]
	}
	return id, done, must, err
}

// isEnd reports whether a token is one with which the model ends its answers.
func (g *generation) isEnd(id int32) bool { return slices.Contains(g.session.engine.ends, id) }

// pass processes the last token, and guesses behind it, and samples what follows them.
func (g *generation) pass(ctx context.Context, extend func(ids []int32) error) error {
	g.got, g.right = g.got[:0], 0
	ids := g.tokensToPrefill()
	g.inputs = append(g.inputs[:0], ids[len(ids)-1])
	certain := false
	g.tree.offer(nil, 0, 0)
	if len(ids) == 1 {
		guesses, err := g.certain()
		if certain = len(guesses) > 0; err == nil && !certain {
			guesses, err = g.guess(ctx, ids[0])
			g.tree.offer(g.session.guesser, ids[0], len(guesses))
		}
		if err != nil {
			return err
		}
		g.inputs = append(g.inputs, guesses...)
		ids = g.inputs
	}
	g.lookAhead()
	had := g.session.seq.Len()
	err := g.attempt(extend, ids)
	if len(g.inputs) > 1 && errors.Is(err, ErrBudget) && g.session.seq.Len() == had { // no room for the guesses: the token alone may fit
		g.inputs, ids = g.inputs[:1], g.inputs[:1]
		g.tree.offer(nil, 0, 0)
		err = g.attempt(extend, ids)
	}
	if err != nil {
		return err
	}
	if len(ids) == len(g.inputs) && !certain {
		g.verified(len(g.inputs)-1, g.right)
	}
	return nil
}

// attempt processes the tokens of a pass.
func (g *generation) attempt(extend func(ids []int32) error, ids []int32) error {
	g.got, g.right, g.tree.kept = g.got[:0], 0, -1
	return extend(ids)
}

// draftRoom returns how many guesses the next pass can hold and the answer can use.
func (g *generation) draftRoom() int {
	d := g.session.guesser
	if d == nil {
		return 0
	}
	room := g.session.seq.DraftRoom(d.max)
	if most := g.options.MaxTokens; most > 0 {
		room = min(room, most-g.stats.GeneratedTokens-1)
	}
	return room
}

// dropUnread removes the last n tokens that a pass processed: the caller left, or the answer ended,
// before what follows them was received.
func (g *generation) dropUnread(n int) {
	if seq := g.session.seq; n > 0 {
		seq.Truncate(seq.Len() - n)
	}
}
