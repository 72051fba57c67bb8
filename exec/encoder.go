package exec

import (
	"context"
	"fmt"
	"sync"

	"github.com/llmrun/llmrun/quant"
)

// An encoder reads a whole sequence in one pass, because each token attends to those behind it. A pass takes as many whole
// sequences as it holds. Each layer writes its keys and values over those of the layer before, so that a sequence has
// memory for one layer.

// encode adds what an encoder adds to the embedding, and normalizes it.
func (p *pass) encode() {
	e := &p.m.Spec.Encoder
	if p.err == nil && (e.EmbedNorm || e.Positions > 0 || e.TokenTypes > 0) {
		p.forRows(p.n, p.encodePart)
	}
}

// encodeRow is encode for one row.
func (p *pass) encodeRow(row, _ int) {
	s, w := p.m.Spec, &p.m.weights.Encoder
	r := p.batch.runOf(row)
	pos := r.pos + row - r.row
	x := p.x[row*s.Dim : (row+1)*s.Dim]
	if w.Types != nil {
		kind := 0
		if of := r.caller().options.Types; of != nil {
			kind = min(max(0, of(pos)), s.Encoder.TokenTypes-1)
		}
		quant.Add(x, w.Types[kind*s.Dim:(kind+1)*s.Dim])
	}
	if w.Positions != nil {
		at := pos + s.Encoder.PositionFrom
		quant.Add(x, w.Positions[at*s.Dim:(at+1)*s.Dim])
	}
	if s.Encoder.EmbedNorm {
		applyNorm(&s.Norm, x, x, &w.Norm)
	}
}

// checkWhole refuses tokens that an encoder does not read in one pass.
func (m *Model) checkWhole(s *Sequence, n int) error {
	if !m.Spec.Encoder.Bidirectional {
		return nil
	}
	if len(s.ids) > 0 {
		return fmt.Errorf("exec: an encoder reads a whole text at once, and the sequence has %d tokens", len(s.ids))
	}
	if chunk := m.chunk(); n > chunk {
		return fmt.Errorf("%w: %d tokens exceed the %d of a pass, which an encoder needs for the whole text", ErrContextFull, n, chunk)
	}
	return nil
}

// takeWhole takes whole pieces, in the order of their arrival.
func (q *sharedPasses) takeWhole(room *batchRoom) {
	for i, p := range q.waiting {
		if p.alone && i > 0 || len(p.ids) > room.tokens {
			return
		}
		q.choosePiece(p, room, len(p.ids))
		if p.alone {
			return
		}
	}
}

// Text is a sequence of its own for [ReadTexts].
type Text struct {
	IDs []int32
	// Options are those of an Extend. Callbacks of different texts do not run at the same time.
	Options ExtendOptions
	// Err is the error of this text.
	Err error
}

// ReadTexts reads texts, each from its first token on, in as few passes as hold them without padding. It returns the error
// of the first text that failed; the others have been read.
func ReadTexts(ctx context.Context, m *Model, texts []Text) error {
	seqs := make([]*Sequence, 0, len(texts))
	defer func() {
		for _, s := range seqs {
			s.Close()
		}
	}()
	for range texts {
		s, err := m.NewSequence(0)
		if err != nil {
			return err
		}
		seqs = append(seqs, s)
	}
	if m.Spec.Encoder.Bidirectional {
		m.passes.readWhole(ctx, m, seqs, texts)
	} else {
		extendTogether(ctx, m, seqs, texts)
	}
	for i := range texts {
		if texts[i].Err != nil {
			return texts[i].Err
		}
	}
	return nil
}

// readWhole queues all texts before the first pass, so that no pass begins with fewer than it holds.
func (q *sharedPasses) readWhole(ctx context.Context, m *Model, seqs []*Sequence, texts []Text) {
	for i, s := range seqs {
		t := &texts[i]
		if t.Err = m.checkExtension(s, t.IDs); t.Err != nil || len(t.IDs) == 0 {
			continue
		}
		p := &s.piece
		p.begin(&t.Options, 0, len(t.IDs)-1)
		p.ids, p.selects = t.IDs, false
		q.submit(ctx, p)
	}
	for i, s := range seqs {
		t := &texts[i]
		if t.Err != nil || len(t.IDs) == 0 {
			continue
		}
		if t.Err = q.await(ctx, m, &s.piece); t.Err != nil && !s.piece.committed && ctx.Err() == nil {
			s.dropUncommitted()
			t.Err = m.Extend(ctx, s, t.IDs, &t.Options) // which repairs damaged weights
		}
		s.Rest()
	}
}

// extendTogether extends empty sequences at the same time.
func extendTogether(ctx context.Context, m *Model, seqs []*Sequence, texts []Text) {
	var running sync.WaitGroup
	for i, s := range seqs {
		running.Go(func() {
			texts[i].Err = m.Extend(ctx, s, texts[i].IDs, &texts[i].Options)
			s.Rest()
		})
	}
	running.Wait()
}
