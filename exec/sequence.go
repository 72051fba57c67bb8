package exec

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/recurrent"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/kv/segment"
)

// ErrClosed is returned by methods of a closed model.
var ErrClosed = errors.New("model is closed")

// Sequence is a token stream that a model has read: its tokens and their KV. One goroutine at a
// time may use it.
type Sequence struct {
	model *Model
	kv    *kv.Seq
	// summaries of its keys for page selection; nil without selection
	summaries *kv.Summaries
	ids       []int32
	limit     int
	number    int   // place among the model's sequences, see join; sharedPasses guards it
	piece     piece // of the running Extend, reused so that passes allocate nothing
	draft     draftPass
	tree      tree
	onAccelerator
	lora sequenceLora // adapters beside the weights

	state *recurrent.State // of layers that keep more than keys and values; nil if there are none

	chain         kv.Chain       // saved segments of the sequence's first tokens
	chainStore    *segment.Store // store that holds the chain
	saved         int            // leading tokens on flash; after a Truncate inside of a segment, chain covers fewer
	saveEarly     func(n int)    // saves the first n tokens during a prefill; nil: no early saves
	lastEarlySave int            // length at the last early save, which may have failed
	saving        saving         // the save that is written behind
	exactTokens   int            // leading tokens that were computed with exact attention
	prefixes      []prefixID     // of its whole pages that others may share, by length
	markedPages   int            // pages before the mark of its state, which others may copy; 0: they may not

	expectedLen int  // announced final length
	longRope    bool // the longrope frequencies of long sequences are in use
}

// onAccelerator is what an accelerator knows of a sequence: its KV, nil before its first pass, and the
// accelerator's view of the batch.
type onAccelerator struct {
	memory SequenceMemory
	chunk  Chunk
}

// NewSequence returns an empty sequence of at most limit tokens. 0 means the model's context, or
// less if its accelerator has room for less.
func (m *Model) NewSequence(limit int) (*Sequence, error) {
	if limit <= 0 || limit > m.Context() {
		limit = m.Context()
	}
	s := &Sequence{model: m, kv: m.cache.NewSeq(), limit: limit, lora: newLora(m.weights)}
	m.passes.join(s, nil)
	if !m.selection.Exact() {
		s.summaries = kv.NewSummaries(m.cache.Shape(), m.budget)
	}
	var err error
	if s.state, err = recurrent.New(m.Spec, m.budget); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Len returns the number of tokens read.
func (s *Sequence) Len() int { return len(s.ids) }

// Limit returns the maximum number of tokens of the sequence.
func (s *Sequence) Limit() int { return s.limit }

// IDs returns the tokens read. The caller must not change them.
func (s *Sequence) IDs() []int32 { return s.ids }

// Expect announces the final length of the sequence. A model with longrope frequencies then uses
// those of long sequences from the start, which avoids a re-prefill at the switch.
func (s *Sequence) Expect(n int) { s.expectedLen = max(s.expectedLen, n) }

// Truncate removes the tokens from position n on and returns how many remain: n, or fewer if layers
// have a recurrent state, which only goes back to its mark or to the beginning. It also drops what a pass
// that did not end left behind, even if no token is removed.
func (s *Sequence) Truncate(n int) int {
	if n = min(n, len(s.ids)); s.state != nil && n < len(s.ids) {
		n = s.state.Truncate(n)
	}
	if n == 0 {
		s.expectedLen, s.longRope = 0, false
	}
	s.model.passes.prefixes.unregister(s, n/s.model.cache.PageTokens())
	s.ids = s.ids[:n]
	s.dropUncommitted()
	s.saving.tokens = min(s.saving.tokens, n)
	s.saved, s.lastEarlySave, s.exactTokens = min(s.saved, n), min(s.lastEarlySave, n), min(s.exactTokens, n)
	s.chain = s.chain.Cut(n / s.model.cache.PageTokens())
	return n
}

// dropUncommitted removes what a pass has stored or reserved for tokens that are not part of the sequence.
// What stays is wrong for the next tokens at these positions, or takes memory from other sequences.
func (s *Sequence) dropUncommitted() {
	s.kv.Truncate(len(s.ids))
	if s.summaries != nil {
		s.summaries.Truncate(len(s.ids))
	}
}

// truncateTokens is Truncate, but keeps the announced length and the rotary frequencies even if no
// token remains.
func (s *Sequence) truncateTokens(n int) {
	expect, long := s.expectedLen, s.longRope
	s.Truncate(n)
	s.expectedLen, s.longRope = expect, long
}

// Fork returns a copy of the sequence without computing it again. Both share KV pages until one
// of them changes a page.
func (s *Sequence) Fork() (*Sequence, error) {
	f := &Sequence{model: s.model, limit: s.limit, lora: s.lora, expectedLen: s.expectedLen, longRope: s.longRope}
	if s.summaries != nil {
		var err error
		if f.summaries, err = s.summaries.Clone(); err != nil {
			return nil, err
		}
	}
	if err := forkState(f, s); err != nil {
		if f.summaries != nil {
			f.summaries.Close()
		}
		return nil, err
	}
	if s.memory != nil {
		var err error
		if f.memory, err = cloneMemory(s.model, s.memory); err != nil {
			f.kv = s.model.cache.NewSeq()
			f.Close()
			return nil, err
		}
	}
	f.kv, f.chain, f.chainStore, f.saved, f.exactTokens = s.kv.Fork(), slices.Clip(s.chain), s.chainStore, s.saved, s.exactTokens
	f.ids = append(f.ids, s.ids...)
	s.model.passes.prefixes.copyTo(f, s)
	s.model.passes.join(f, s)
	return f, nil
}

// forkState gives a fork the recurrent state of its sequence.
func forkState(s, of *Sequence) (err error) {
	if s.state, err = recurrent.New(s.model.Spec, s.model.budget); s.state != nil {
		s.state.Copy(of.state)
	}
	return err
}

// Close frees the sequence's memory. It waits until a save behind has ended; FinishSave returns its
// error.
func (s *Sequence) Close() {
	s.Rest()
	s.model.passes.withdraw(s)
	s.model.passes.prefixes.unregister(s, 0)
	_ = s.FinishSave()
	s.tree.close()
	s.kv.Close()
	if s.memory != nil {
		closeMemory(s.model, s.memory)
		s.memory = nil
	}
	if s.summaries != nil {
		s.summaries.Close()
	}
	s.state.Close()
	s.ids = nil
}

// ExtendOptions are the callbacks of an Extend.
type ExtendOptions struct {
	// Want reports whether the caller wants the logits after the token at position pos; nil
	// wants those after the last token.
	Want func(pos int) bool
	// Each receives the wanted logits in order of position. The slice is valid, and may be
	// changed, until Each returns. Those of Extends that share a pass may run at the same time.
	Each func(pos int, logits []float32) error
	// Hidden: Each receives hidden states behind the final norm instead of logits.
	Hidden bool
	// Types, if set, returns the type of the token at a position, in a network with token types; nil is 0 for all.
	Types func(pos int) int
	// Accepted, if set, is called after Each has received the wanted logits of a pass and returns the
	// most tokens that the sequence may have then; those behind them are guesses that were wrong. Extend
	// ends with the first pass that does not keep all its tokens. [Sequence.DraftRoom] says how many guesses
	// one pass can hold.
	Accepted func() int
	// Branches are other guesses, each of which begins with the first of the tokens. The pass of the tokens verifies them
	// too, each as if it stood in the sequence alone; it leaves out those for which there is no room, and empties them. See
	// AllowBranches.
	Branches [][]int32
	// EachBranch receives the logits of a branch as Each does, after it. It does not receive those of tokens that the
	// branch has in common with the beginning of the tokens.
	EachBranch func(branch, pos int, logits []float32) error
	// Chosen is called before Accepted and returns the branch whose tokens the sequence goes on with, -1 for none.
	Chosen func() int
	// Progress, which may be nil, is called after each chunk.
	Progress func(done, total int)
	// Answer: the tokens are those of an answer, not of a prompt. See PassStats.
	Answer bool
	// Prompt is the number of new tokens, of which the prefix cache may have provided the first
	// ones; tokens of ids before them were computed before and are computed again. 0: all of ids
	// is new. It makes the choice between exact attention and page selection independent of what
	// the cache or a saved session holds.
	Prompt int
}

// Extend appends tokens to the sequence, chunk by chunk. On an error the sequence keeps the
// chunks that were complete. These include the chunk of whose logits a callback returned the error,
// less what Accepted does not allow: the pass has ended, and its tokens need not be computed again.
func (m *Model) Extend(ctx context.Context, s *Sequence, ids []int32, r *ExtendOptions) error {
	if err := m.checkExtension(s, ids); err != nil {
		return err
	}
	first := len(s.ids) // first position of the caller's tokens
	if m.mustRePrefill(s, first+len(ids)) {
		ids = append(s.ids[:first:first], ids...)
		s.truncateTokens(0)
	}
	last := len(s.ids) + len(ids) - 1
	p := &s.piece
	p.begin(r, first, last)
	repaired := 0
	rule := s.selectionRule(first, last+1, r.Prompt)
	for len(ids) > 0 {
		end, selects := rule.spanAt(len(s.ids))
		if s.state != nil && r.Accepted == nil {
			end = markEnd(len(s.ids), end, m.cache.PageTokens())
		}
		p.ids = ids[:end-len(s.ids)]
		p.selects = selects && s.summaries.Complete(len(s.ids))
		s.saveBefore(min(len(p.ids), m.chunk()))
		before := len(s.ids)
		if err := m.passes.compute(ctx, m, p); err != nil {
			s.dropUncommitted()
			if !p.committed && repairs(ctx, m, err, &repaired) {
				continue
			}
			return err
		}
		ids = ids[p.taken:]
		if r.Progress != nil {
			r.Progress(last+1-len(ids), last+1)
		}
		if len(s.ids) < before+p.taken {
			return nil // the caller did not keep all of them
		}
	}
	return nil
}

// checkExtension refuses tokens that the sequence has no room for or the model does not have.
func (m *Model) checkExtension(s *Sequence, ids []int32) error {
	if len(s.ids)+len(ids) > s.limit {
		return fmt.Errorf("%w: %d tokens plus %d exceed the limit of %d", ErrContextFull, len(s.ids), len(ids), s.limit)
	}
	for i, id := range ids {
		if id < 0 || int(id) >= m.Spec.Vocab {
			return fmt.Errorf("%w: id %d at index %d of the input; the vocabulary has %d tokens", ErrToken, id, i, m.Spec.Vocab)
		}
	}
	return m.checkWhole(s, len(ids))
}

// chunk returns the maximum number of tokens of a pass.
func (m *Model) chunk() int { return int(m.passes.chunkTokens.Load()) }

// mustRePrefill chooses the rotary frequencies for a sequence of n tokens, and reports whether
// tokens that were computed with the other frequencies need a re-prefill. The choice depends on nothing
// else, so that a text has the same logits whatever the sequence held before.
func (m *Model) mustRePrefill(s *Sequence, n int) bool {
	n = max(n, s.expectedLen)
	long := slices.ContainsFunc(m.Spec.Ropes, func(t arch.RopeTable) bool { return t.LongFreq != nil && n > t.Switch })
	if long == s.longRope {
		return false
	}
	s.longRope = long
	return len(s.ids) > 0
}

// Errors of a forward pass.
var (
	// ErrContextFull means that a sequence has reached its token limit.
	ErrContextFull = errors.New("context is full")
	// ErrToken means that a token id is not in the vocabulary.
	ErrToken = errors.New("token id outside the vocabulary")
)
