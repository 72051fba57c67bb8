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

// ErrClosed is returned by a model that was closed.
var ErrClosed = errors.New("model is closed")

// Sequence is a text that a model has read: its tokens and what the layers
// remember of them. One goroutine at a time may use it.
type Sequence struct {
	model *Model
	kv    *kv.Seq
	// summaries of its keys, for selection; nil without.
	summaries *kv.Summaries
	ids       []int32
	limit     int
	batch     Batch // of the pass that is under way, kept to allocate nothing
	// memory is what a processor remembers, nil until it has read something; chunk is
	// its part of the batch.
	memory SequenceMemory
	chunk  Chunk

	// A layer of short convolutions remembers its last inputs. A pass writes
	// the second copy and swaps when it has succeeded, so that a cancelled
	// pass leaves no trace.
	conv, convNext [][]float32 // [layer] -> [ConvTaps-1, Dim]; nil for other layers
	convFrame      *tiering.Frame

	chain   kv.Chain       // kept on flash, of what the sequence begins with
	chainIn *segment.Store // where the chain is
	saved   int            // tokens that are kept there, some perhaps in a part of a chunk
	early   func(n int)    // keeps the first n tokens while more are read; nil if that is not wanted
	tried   int            // tokens that there were when it did so last, perhaps in vain
	exact   int            // tokens, from the first on, for which nothing was left out

	expect int  // announced final length
	long   bool // longrope: the frequencies of long sequences are in use
}

// NewSequence returns an empty sequence of at most limit tokens; 0 means as
// many as the model was made for, or has room for on its processor.
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

// carveConv takes both copies of what convolutions remember from an arena.
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

// Limit returns the greatest number of tokens the sequence may hold.
func (s *Sequence) Limit() int { return s.limit }

// IDs returns the tokens read. The caller must not change them.
func (s *Sequence) IDs() []int32 { return s.ids }

// Expect announces how long the sequence will become. A model that rotates
// long sequences by other frequencies then uses those from the start, instead
// of reading the text again when it crosses the border.
func (s *Sequence) Expect(n int) { s.expect = max(s.expect, n) }

// Truncate forgets tokens from position n on and returns how many are left:
// n, or 0 for a model whose layers cannot go back by part.
func (s *Sequence) Truncate(n int) int {
	if n >= len(s.ids) {
		return len(s.ids)
	}
	if s.convFrame != nil {
		n = 0
		s.clearConv()
	}
	if n == 0 {
		s.expect, s.long = 0, false
	}
	s.kv.Truncate(n)
	if s.summaries != nil {
		s.summaries.Truncate(n)
	}
	s.ids = s.ids[:n]
	s.saved, s.tried, s.exact = min(s.saved, n), min(s.tried, n), min(s.exact, n)
	s.chain = s.chain.Cut(n / s.model.cache.PageTokens())
	return n
}

// Fork returns a sequence that has read the same tokens, without reading them
// again. What the layers remember is shared until one of the two goes on.
func (s *Sequence) Fork() (*Sequence, error) {
	f := &Sequence{model: s.model, limit: s.limit, expect: s.expect, long: s.long}
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
	f.kv, f.chain, f.chainIn, f.saved, f.exact = s.kv.Fork(), slices.Clip(s.chain), s.chainIn, s.saved, s.exact
	f.ids = append(f.ids, s.ids...)
	return f, nil
}

// Close gives the sequence's memory back.
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

// Reader is told about a sequence's progress.
type Reader struct {
	// Want reports whether the logits after the token at position pos are
	// asked for; nil asks for those of the last token.
	Want func(pos int) bool
	// Each gets the logits that were asked for, in order of position. The
	// slice is valid, and may be changed, until Each returns.
	Each func(pos int, logits []float32) error
	// Progress, which may be nil, is called after each chunk.
	Progress func(done, total int)
	// Prompt is how many tokens the input has, if some of it was found and need not be
	// read: whether its end is read exactly does not depend on that. 0: all is read.
	Prompt int
}

// Extend reads tokens behind those that the sequence holds. On an error the
// sequence keeps whole chunks read before it.
func (m *Model) Extend(ctx context.Context, s *Sequence, ids []int32, r *Reader) error {
	if len(s.ids)+len(ids) > s.limit {
		return fmt.Errorf("%w: %d tokens and %d more exceed %d", ErrContextFull, len(s.ids), len(ids), s.limit)
	}
	for i, id := range ids {
		if id < 0 || int(id) >= m.Spec.Vocab {
			return fmt.Errorf("%w: %d (token %d of the input; the vocabulary has %d)", ErrToken, id, i, m.Spec.Vocab)
		}
	}
	first := len(s.ids) // of the positions that the caller asked about
	if m.mustRePrefill(s, first+len(ids)) {
		ids = append(s.ids[:first:first], ids...)
		expect := s.expect
		s.Truncate(0)
		s.expect, s.long = expect, true
	}
	last := len(s.ids) + len(ids) - 1
	b := &s.batch
	b.each = r.Each
	b.selects = max(len(ids), r.Prompt) <= selectRows && s.summaries != nil && s.summaries.Known(len(s.ids))
	for len(ids) > 0 {
		n := min(len(ids), m.chunk())
		s.saveBefore(n)
		b.reset(s, ids[:n])
		for i := range n {
			pos := len(s.ids) + i
			if r.Each != nil && pos >= first && (r.Want == nil && pos == last || r.Want != nil && r.Want(pos)) {
				b.want = append(b.want, i)
			}
		}
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

// chunk returns how many tokens are computed together at most.
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

// mustRePrefill decides which rotary frequencies a sequence of n tokens needs,
// and reports whether what was read with the others has to be read again.
func (m *Model) mustRePrefill(s *Sequence, n int) bool {
	for i := range m.Spec.Ropes {
		t := &m.Spec.Ropes[i]
		if t.LongFreq == nil || s.long || max(n, s.expect) <= t.Switch {
			continue
		}
		s.long = true
		return len(s.ids) > 0
	}
	return false
}

// clearConv makes convolutions remember no inputs.
func (s *Sequence) clearConv() {
	for _, c := range s.conv {
		clear(c)
	}
}
