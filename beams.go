package llmrun

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
)

// BeamOptions configure a step-level beam search.
type BeamOptions struct {
	// GenerateOptions apply to each answer; MaxTokens limits all of its steps together. Text at the end of a step that may
	// begin a stop string is part of the next step's.
	GenerateOptions
	// Width is the number of beams, and Expand the number of continuations of each beam by a step. Their product
	// is at most 256.
	Width, Expand int
	// Step separates the steps of an answer; "" means two line breaks.
	Step string
	// Score returns the score of an answer so far; a greater one is better. nil is [Candidate.MeanLogProb].
	Score func(ctx context.Context, c *Candidate) (float64, error)
	// OnStep, if set, is called after each step with its continuations, and those that are kept, best first: the
	// beams of the next step, and answers that have ended.
	OnStep func(all, kept []*Candidate)
}

// Beams searches an answer to a prompt step by step. The beams begin with Width times Expand first steps. After each
// step the Width best of all different continuations are kept, and each of them is continued Expand times; answers that
// have ended compete with them. Beams yields the Width best answers, best first. Their Stats are those of the last step,
// but GeneratedTokens are those of the answer.
//
// Continuations are forks: they share the memory of what is before them, and their passes over the weights. The answers
// depend on the seed, and not on the memory: beams for which there is none are prefilled again. See
// [Session.Candidates] for what the session holds meanwhile and afterwards.
func (s *Session) Beams(ctx context.Context, prompt Prompt, o BeamOptions) iter.Seq2[*Candidate, error] {
	return func(yield func(*Candidate, error) bool) {
		o.Step = cmp.Or(o.Step, defaultStep)
		options := CandidateOptions{GenerateOptions: o.GenerateOptions, N: o.Width * o.Expand, Score: o.Score}
		c := &candidates{session: s, options: options, yield: yield, messages: cloneMessages(prompt.Messages), beams: &o}
		if err := c.run(ctx, prompt); err != nil && !c.abandoned {
			yield(nil, err)
		}
	}
}

// validate checks what the candidates do not check.
func (o *BeamOptions) validate() error {
	if o.Width < 1 || o.Expand < 1 || o.Width > maxCandidates || o.Expand > maxCandidates/o.Width {
		return fmt.Errorf("%w: Width is %d and Expand is %d; both must be at least 1, and their product at most %d", ErrOptions, o.Width, o.Expand, maxCandidates)
	}
	return nil
}

// branch is an answer in a beam search: its candidate, and a session that holds its tokens.
type branch struct {
	*Candidate
	heldSession // none: the tokens are prefilled again
	ended       bool
}

// heldSession is a session that holds the tokens of a candidate, or none.
type heldSession struct{ session *Session }

// close frees the memory of the session.
func (h *heldSession) close() (err error) {
	if h.session != nil {
		err = h.session.Close()
		h.session = nil
	}
	return err
}

// search continues beams until all have ended, and yields them.
func (c *candidates) search(ctx context.Context) (err error) {
	defer func() { closeAll(c.parents, &err) }()
	each := c.options.N
	c.parents = []*branch{{Candidate: &Candidate{}}}
	kept := c.parents
	for len(c.parents) > 0 {
		c.expand, c.steps = each, nil
		c.options.N = len(c.parents) * each
		if err := c.generate(ctx); err != nil {
			closeAll(c.steps, &err)
			return err
		}
		closeAll(c.parents, &err)
		kept = slices.DeleteFunc(kept, func(b *branch) bool { return !b.ended })
		kept = c.best(append(kept, c.steps...), &err)
		if c.beams.OnStep != nil {
			c.beams.OnStep(candidatesIn(c.steps), candidatesIn(kept))
		}
		c.parents = slices.DeleteFunc(slices.Clone(kept), func(b *branch) bool { return b.ended })
		c.firstSeed += c.options.N
		c.dropResults()
		for _, b := range kept {
			err = cmp.Or(err, c.keep(b.Candidate))
		}
		each = c.beams.Expand
		if err != nil {
			return err
		}
	}
	for _, b := range kept {
		if c.abandoned = !c.yield(b.Candidate, nil); c.abandoned {
			break
		}
	}
	return err
}

// best returns the best of different answers, best first, and closes the others.
func (c *candidates) best(all []*branch, err *error) (kept []*branch) {
	slices.SortStableFunc(all, func(a, b *branch) int { return cmp.Compare(b.Score, a.Score) })
	var rest []*branch
	for _, b := range all {
		same := func(k *branch) bool { return slices.Equal(k.IDs, b.IDs) }
		if len(kept) == c.beams.Width || slices.ContainsFunc(kept, same) {
			rest = append(rest, b)
			continue
		}
		kept = append(kept, b)
	}
	closeAll(rest, err)
	return kept
}

// closeAll closes branches, and adds an error to err.
func closeAll(all []*branch, err *error) {
	for _, b := range all {
		*err = cmp.Or(*err, b.close())
	}
}

func candidatesIn(all []*branch) (in []*Candidate) {
	for _, b := range all {
		in = append(in, b.Candidate)
	}
	return in
}

// parent returns the branch that a candidate continues; nil without a beam search.
func (c *candidates) parent(index int) *branch {
	if c.beams == nil {
		return nil
	}
	return c.parents[index/c.expand]
}

// source returns the session that holds the most of what a candidate continues.
func (c *candidates) source(index int) *Session {
	if p := c.parent(index); p != nil && p.session != nil {
		return p.session
	}
	return c.session
}

// freeBeams closes the sessions of beams, whose tokens are then prefilled again, and reports whether there were any.
func (c *candidates) freeBeams() (freed bool, err error) {
	for _, b := range slices.Concat(c.parents, c.steps) {
		freed = freed || b.session != nil
		err = cmp.Or(err, b.close())
	}
	for _, f := range c.ended {
		if f != nil {
			freed = freed || f.session != nil
			err = cmp.Or(err, f.close())
		}
	}
	return freed, err
}

// freesBeams is freeBeams without the error, which the candidate that begins again meets too.
func (c *candidates) freesBeams() bool {
	freed, _ := c.freeBeams()
	return freed
}

// continued is a candidate that begins with a branch.
func (b *branch) continued(index int) *Candidate {
	return &Candidate{Index: index, Text: b.Text, IDs: slices.Clone(b.IDs), LogProbs: slices.Clone(b.LogProbs), Top: slices.Clone(b.Top)}
}

// endsStep reports whether the text behind the first n bytes has a separator, which begins there or later.
func (o *BeamOptions) endsStep(text string, n int) bool {
	return o != nil && strings.Contains(text[n:], o.Step)
}
