package exec

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/kv/segment"
	"github.com/llmrun/llmrun/tiering"
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
	batch     Batch // of the running pass, reused so that passes allocate nothing
	// memory is the sequence's KV on an accelerator, nil before its first pass; chunk is the
	// accelerator's view of the batch.
	memory SequenceMemory
	chunk  Chunk

	// A short convolution's state is its last inputs. A pass writes the second copy, and commit
	// swaps the copies, so that a failed or cancelled pass changes nothing.
	conv, convNext [][]float32 // [layer] -> [ConvTaps-1, Dim]; nil for other layers
	convFrame      *tiering.Frame

	chain         kv.Chain       // saved segments of the sequence's first tokens
	chainStore    *segment.Store // store that holds the chain
	saved         int            // leading tokens on flash; after a Truncate inside of a segment, chain covers fewer
	saveEarly     func(n int)    // saves the first n tokens during a prefill; nil: no early saves
	lastEarlySave int            // length at the last early save, which may have failed
	exactTokens   int            // leading tokens that were computed with exact attention

	expectedLen int  // announced final length
	longRope    bool // the longrope frequencies of long sequences are in use
}

// NewSequence returns an empty sequence of at most limit tokens. 0 means the model's context, or
// less if its accelerator has room for less.
func (m *Model) NewSequence(limit int) (*Sequence, error) {
	if limit <= 0 || limit > m.Context() {
		limit = m.Context()
	}
	s := &Sequence{model: m, kv: m.cache.NewSeq(), limit: limit}
	if !m.selection.Exact() {
		s.summaries = kv.NewSummaries(m.cache.Shape(), m.budget)
	}
	return s, s.allocConv()
}

// allocConv allocates the state of short convolutions, if the model has any.
func (s *Sequence) allocConv() error {
	var probe tiering.Arena
	s.carveConv(&probe)
	if probe.Need() == 0 {
		return nil
	}
	frame, err := tiering.Alloc(s.model.budget, tiering.KVHot, probe.Need())
	if err != nil {
		return err
	}
	s.convFrame = frame
	arena := tiering.NewArena(frame)
	s.carveConv(arena)
	return arena.Err()
}

// carveConv takes both copies of the convolutions' state from an arena.
func (s *Sequence) carveConv(a *tiering.Arena) {
	spec := s.model.Spec
	s.conv, s.convNext = make([][]float32, len(spec.Layers)), make([][]float32, len(spec.Layers))
	for l, layer := range spec.Layers {
		if layer.Mixer == arch.ShortConv {
			s.conv[l] = a.Floats((spec.ConvTaps - 1) * spec.Dim)
			s.convNext[l] = a.Floats((spec.ConvTaps - 1) * spec.Dim)
		}
	}
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

// Truncate removes the tokens from position n on and returns how many remain: n, or 0 if layers
// have state that cannot be truncated (short convolutions).
func (s *Sequence) Truncate(n int) int {
	if n >= len(s.ids) {
		return len(s.ids)
	}
	if s.convFrame != nil {
		n = 0
		s.clearConv()
	}
	if n == 0 {
		s.expectedLen, s.longRope = 0, false
	}
	s.kv.Truncate(n)
	if s.summaries != nil {
		s.summaries.Truncate(n)
	}
	s.ids = s.ids[:n]
	s.saved, s.lastEarlySave, s.exactTokens = min(s.saved, n), min(s.lastEarlySave, n), min(s.exactTokens, n)
	s.chain = s.chain.Cut(n / s.model.cache.PageTokens())
	return n
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
	f := &Sequence{model: s.model, limit: s.limit, expectedLen: s.expectedLen, longRope: s.longRope}
	if s.summaries != nil {
		var err error
		if f.summaries, err = s.summaries.Clone(); err != nil {
			return nil, err
		}
	}
	if err := f.allocConv(); err != nil {
		if f.summaries != nil {
			f.summaries.Close()
		}
		return nil, err
	}
	for l := range s.conv {
		copy(f.conv[l], s.conv[l])
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
	return f, nil
}

// Close frees the sequence's memory.
func (s *Sequence) Close() {
	s.kv.Close()
	if s.memory != nil {
		closeMemory(s.model, s.memory)
		s.memory = nil
	}
	if s.summaries != nil {
		s.summaries.Close()
	}
	if s.convFrame != nil {
		s.convFrame.Free()
		s.convFrame = nil
	}
	s.ids = nil
}

// ExtendOptions are the callbacks of an Extend.
type ExtendOptions struct {
	// Want reports whether the caller wants the logits after the token at position pos; nil
	// wants those after the last token.
	Want func(pos int) bool
	// Each receives the wanted logits in order of position. The slice is valid, and may be
	// changed, until Each returns.
	Each func(pos int, logits []float32) error
	// Progress, which may be nil, is called after each chunk.
	Progress func(done, total int)
	// Prompt is the length of the whole input if the prefix cache provided its beginning; 0: all
	// of it is in ids. It makes the choice between exact attention and page selection
	// independent of prefix-cache hits.
	Prompt int
}

// Extend appends tokens to the sequence, chunk by chunk. On an error the sequence keeps the
// chunks that were complete.
func (m *Model) Extend(ctx context.Context, s *Sequence, ids []int32, r *ExtendOptions) error {
	if len(s.ids)+len(ids) > s.limit {
		return fmt.Errorf("%w: %d tokens plus %d exceed the limit of %d", ErrContextFull, len(s.ids), len(ids), s.limit)
	}
	for i, id := range ids {
		if id < 0 || int(id) >= m.Spec.Vocab {
			return fmt.Errorf("%w: id %d at index %d of the input; the vocabulary has %d tokens", ErrToken, id, i, m.Spec.Vocab)
		}
	}
	first := len(s.ids) // first position of the caller's tokens
	if m.mustRePrefill(s, first+len(ids)) {
		ids = append(s.ids[:first:first], ids...)
		s.truncateTokens(0)
	}
	last := len(s.ids) + len(ids) - 1
	b := &s.batch
	b.each = r.Each
	b.selects = max(len(ids), r.Prompt) <= selectRows && s.summaries != nil && s.summaries.Complete(len(s.ids))
	for len(ids) > 0 {
		n := min(len(ids), m.chunk())
		s.saveBefore(n)
		b.reset(s, ids[:n])
		b.addWanted(r, first, last)
		if err := m.forward(ctx, b); errors.Is(err, errChunk) {
			continue
		} else if err != nil {
			return err
		}
		ids = ids[n:]
		if r.Progress != nil {
			r.Progress(last+1-len(ids), last+1)
		}
	}
	return nil
}

// chunk returns the maximum number of tokens of a prefill chunk.
func (m *Model) chunk() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return 1
	case m.offloadedLayers != nil:
		return m.offloadedLayers.chunk
	}
	return m.pass.chunk
}

// mustRePrefill chooses the rotary frequencies for a sequence of n tokens, and reports whether
// tokens that were computed with the other frequencies need a re-prefill.
func (m *Model) mustRePrefill(s *Sequence, n int) bool {
	for i := range m.Spec.Ropes {
		t := &m.Spec.Ropes[i]
		if t.LongFreq == nil || s.longRope || max(n, s.expectedLen) <= t.Switch {
			continue
		}
		s.longRope = true
		return len(s.ids) > 0
	}
	return false
}

// clearConv clears the convolutions' state.
func (s *Sequence) clearConv() {
	for _, c := range s.conv {
		clear(c)
	}
}
