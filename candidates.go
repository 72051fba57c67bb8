package llmrun

import (
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
)

// Prompt is what several candidates answer. Exactly one of its fields is set.
type Prompt struct {
	Text     string    // continued as by [Session.Generate]
	IDs      []int32   // continued as by [Session.GenerateIDs]
	Messages []Message // answered as by [Session.ChatMessages]
}

// CandidateOptions configure several answers to one prompt.
type CandidateOptions struct {
	// GenerateOptions apply to each answer. Candidate i has the seed CandidateSeed(Sampling.Seed, i).
	// OnSlide is not called: Overflow is for the prompt, and an answer ends where the context does.
	GenerateOptions
	// N is the number of candidates, from 1 to 256.
	N int
	// Score returns the score of a finished candidate; a greater one is better. nil is [Candidate.MeanLogProb].
	Score func(ctx context.Context, c *Candidate) (float64, error)
}

// maxCandidates is the greatest CandidateOptions.N.
const maxCandidates = 256

// Candidate is one of several answers to one prompt.
type Candidate struct {
	Index    int
	Text     string // the answer alone; see Piece.Answers
	IDs      []int32
	LogProbs []float32 // of the tokens; see Piece.LogProb
	Score    float64
	Stats    Stats
}

// add appends a piece, and its text to that of the answer if it belongs there.
func (c *Candidate) add(p *Piece, text *strings.Builder) {
	if p.ID >= 0 {
		c.IDs, c.LogProbs = append(c.IDs, p.ID), append(c.LogProbs, p.LogProb)
	}
	if p.Answers() {
		text.WriteString(p.Text)
	}
}

// MeanLogProb returns the mean logarithm of the probabilities of the candidate's tokens, by which long and
// short answers are comparable; -math.MaxFloat32 for an empty answer, which is less than any other.
func (c *Candidate) MeanLogProb() float64 {
	if len(c.LogProbs) == 0 {
		return -math.MaxFloat32
	}
	sum := 0.0
	for _, p := range c.LogProbs {
		sum += float64(p)
	}
	return sum / float64(len(c.LogProbs))
}

// CandidateSeed returns the seed of a candidate. The first one has the given seed, and gives the text of a
// generation without other candidates.
func CandidateSeed(seed uint64, index int) uint64 {
	if index == 0 {
		return seed
	}
	// The output function of SplitMix64. The upper 32 bits remain exact in every JSON parser.
	x := seed + uint64(index)*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return (x ^ x>>31) >> 32
}

// Candidates generates several answers to a prompt behind the session's tokens, and yields them in the order
// of their indexes, each as soon as it and those before it are complete. The prompt is prefilled once. The
// candidates share the memory of its keys and values, and their passes over the weights. If the budget has
// no room for all of them at the same time, some wait; the texts do not depend on it. If the context ends, those that
// are complete come before the error, unless Score is set.
//
// The session stays busy until the loop ends. Breaking out of it ends the other candidates. The session then
// holds the prompt; [Session.Choose] makes one of the candidates its answer. [Session.Stats] counts the
// tokens of all candidates, and the passes of the engine.
func (s *Session) Candidates(ctx context.Context, prompt Prompt, o CandidateOptions) iter.Seq2[*Candidate, error] {
	return func(yield func(*Candidate, error) bool) {
		c := &candidates{session: s, options: o, yield: yield, messages: slices.Clone(prompt.Messages)}
		if err := c.run(ctx, prompt); err != nil && !c.abandoned {
			yield(nil, err)
		}
	}
}

// Choose makes a candidate the answer of the session, and prefills it, so that a next turn continues behind it.
func (s *Session) Choose(ctx context.Context, c *Candidate) error {
	ctx, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer s.end()
	of := s.takeOffered()
	if of == nil {
		return fmt.Errorf("%w: the session has no candidates", ErrOptions)
	}
	g := &generation{session: s, ids: slices.Concat(of.ids, c.IDs)}
	ids := g.ids
	if err := g.prefillShared(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ids = ids
	if of.messages != nil {
		s.messages = append(of.messages, Message{Role: "assistant", Content: c.Text})
	}
	return nil
}

// offered is the prompt of a session whose candidates are complete, until one is chosen.
type offered struct {
	ids      []int32
	messages []Message // nil if the prompt is not a conversation
}

// takeOffered ends the choice between candidates, and returns their prompt.
func (s *Session) takeOffered() *offered {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.offered
	s.offered = nil
	return of
}

// validate checks what the generations do not check.
func (o *CandidateOptions) validate(p *Prompt) error {
	if o.N < 1 || o.N > maxCandidates {
		return fmt.Errorf("%w: N is %d; it must be from 1 to %d", ErrOptions, o.N, maxCandidates)
	}
	given := 0
	for _, set := range []bool{p.Text != "", p.IDs != nil, p.Messages != nil} {
		if set {
			given++
		}
	}
	if given != 1 {
		return fmt.Errorf("%w: the prompt must be a text, ids or messages", ErrOptions)
	}
	return nil
}

// tokens returns the ids of the sequence with the prompt.
func (p *Prompt) tokens(s *Session, o *GenerateOptions) func() ([]int32, error) {
	switch {
	case p.Messages != nil:
		return func() ([]int32, error) { return s.engine.EncodeChat(p.Messages, o.Chat) }
	case p.IDs != nil:
		return func() ([]int32, error) { return slices.Concat(s.tokens(), p.IDs), nil }
	}
	return func() ([]int32, error) { return s.encodeText(p.Text, o) }
}
