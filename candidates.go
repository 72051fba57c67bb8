package llmrun

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/llmrun/llmrun/exec/draft"
	"github.com/llmrun/llmrun/tiering"
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
	LogProbs []float32        // of the tokens; see Piece.LogProb
	Top      [][]TokenLogProb // the most likely tokens in the place of each, with GenerateOptions.TopLogProbs
	Score    float64
	Stats    Stats
}

// add appends a piece, and its text to that of the answer if it belongs there.
func (c *Candidate) add(p *Piece, text *strings.Builder) {
	if p.ID >= 0 {
		c.IDs, c.LogProbs = append(c.IDs, p.ID), append(c.LogProbs, p.LogProb)
		if p.Top != nil {
			c.Top = append(c.Top, p.Top)
		}
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
		c := &candidates{session: s, options: o, yield: yield, messages: cloneMessages(prompt.Messages)}
		if err := c.run(ctx, prompt); err != nil && !c.abandoned {
			yield(nil, err)
		}
	}
}

// Choose makes a candidate the answer of the session, and prefills it, so that a next turn continues behind it. After an error another
// call may choose again.
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
	err = g.prefillShared(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.offered = of
		return err
	}
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
func (p *Prompt) tokens(s *Session) promptFunc {
	switch {
	case p.Messages != nil:
		return func(o *GenerateOptions) (ids []int32, err error) {
			ids, o.reading, err = s.engine.encodeChat(p.Messages, o.Chat)
			return ids, err
		}
	case p.IDs != nil:
		return func(*GenerateOptions) ([]int32, error) { return slices.Concat(s.tokens(), p.IDs), nil }
	}
	return func(o *GenerateOptions) ([]int32, error) { return s.encodeText(p.Text, o) }
}

// Best returns the candidate with the greatest score, the first one of equals; nil without candidates. A score that is not
// a number is less than any other.
func Best(candidates []*Candidate) (best *Candidate) {
	for _, c := range candidates {
		if best == nil || cmp.Compare(c.Score, best.Score) > 0 {
			best = c
		}
	}
	return best
}

// Vote takes the most frequent answer of the candidates and returns the best candidate that gives it, and how many
// give it. answer finds the answer in a text; a candidate without one has no vote. Of answers with as many
// votes, that of the candidate with the greatest score wins. If no candidate has a vote, Vote returns nil.
func Vote(candidates []*Candidate, answer func(text string) (string, bool)) (winner *Candidate, votes int) {
	given := map[string][]*Candidate{}
	for _, c := range candidates {
		if a, ok := answer(c.Text); ok {
			given[a] = append(given[a], c)
		}
	}
	for _, same := range given {
		best := Best(same)
		if len(same) > votes || len(same) == votes && better(best, winner) {
			winner, votes = best, len(same)
		}
	}
	return winner, votes
}

// better reports whether a candidate wins against another one with as many votes.
func better(a, b *Candidate) bool {
	return cmp.Or(cmp.Compare(a.Score, b.Score), cmp.Compare(b.Index, a.Index)) > 0
}

// roomTokens is for how many tokens of an answer a candidate gets room.
const roomTokens = 256

// makeRoom gives memory of weights to the candidates, if that makes all of them together faster: where weights are streamed, a
// pass takes as long as it reads, and n candidates that share it need 1/n of the passes.
func (c *candidates) makeRoom() *promptRoom {
	e := c.session.engine
	m, r := &e.mem, &promptRoom{engine: e}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.current == nil || m.current.StreamedPerToken == 0 || m.budget.Limit() == 0 {
		return r
	}
	use, need := m.budget.Usage(), c.bytes()
	stats := e.model.KVStats()
	need.unused = max(0, use.By[tiering.KVHot]-int64(stats.HotPages)*int64(stats.PageBytes))
	fit := int64(1)
	for n := int64(c.options.N); fit < n && need.of(fit+1) <= m.budget.Limit()-use.Total; {
		fit++
	}
	// With n candidates instead of those that fit, passes read (n-fit)*each more bytes.
	if m.current.StreamedPerToken < fit*(need.each+need.pages) {
		return r
	}
	for more := int64(c.options.N) - fit; more > 0; more /= 2 {
		if r.replan(need.of(fit+more)-need.of(fit)) == nil {
			return r
		}
	}
	return r
}

// answersNeed is about what answers take that run beside others.
type answersNeed struct {
	each   int64 // of one, without its keys and values
	pages  int64 // keys and values of one, from the last page of the prompt on
	unused int64 // memory for keys and values that is there and holds none
	slack  int64 // the unused end of that memory, of all together
}

// of returns what n answers take.
func (a *answersNeed) of(n int64) int64 {
	bytes := n * a.each
	if more := n*a.pages - a.unused; more > 0 {
		bytes += more + a.slack
	}
	return bytes
}

// bytes returns about what the candidates take: heap, keys and values, recurrent state, and look-up.
func (c *candidates) bytes() answersNeed {
	e := c.session.engine
	tokens, s := roomTokens, &e.mem.shape
	if most := c.options.MaxTokens; most > 0 {
		tokens = min(tokens, most)
	}
	need := answersNeed{each: candidateHeap(e.info.Vocab, len(c.ids)+tokens) + s.KVState, pages: branchPages(s, tokens), slack: s.KVFixed - s.KVState}
	if e.mayDraft {
		need.each += draft.LookupBytes(min(e.limit, lookupTokens))
	}
	return need
}
