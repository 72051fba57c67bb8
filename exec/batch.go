package exec

import (
	"context"
	"fmt"

	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/kv/fetch"
)

// Batch is the tokens of one pass: a run of consecutive tokens for each of one or more
// sequences. A single sequence is a batch with one run.
type Batch struct {
	runs []run
	ids  []int32 // tokens of all runs, concatenated
	want []int   // rows whose logits the caller wants, ascending
	each func(pos int, logits []float32) error
	// selects: the new tokens are few enough for page selection.
	selects bool
}

// run is consecutive tokens of one sequence in a batch.
type run struct {
	seq   *Sequence
	row   int // row of its first token in the batch
	pos   int // position of its first token in the sequence
	count int
}

// reset makes b the batch of one sequence's next tokens.
func (b *Batch) reset(s *Sequence, ids []int32) {
	b.runs = append(b.runs[:0], run{seq: s, pos: s.Len(), count: len(ids)})
	b.ids = ids
	b.want = b.want[:0]
}

// addWanted lists the rows of a single run whose logits the caller wants: those that r wants,
// from position first on, or the row at position last.
func (b *Batch) addWanted(r *ExtendOptions, first, last int) {
	if r.Each == nil {
		return
	}
	for i := range b.ids {
		pos := b.runs[0].pos + i
		if pos >= first && (r.Want == nil && pos == last || r.Want != nil && r.Want(pos)) {
			b.want = append(b.want, i)
		}
	}
}

// grow reserves KV slots in every sequence for its new tokens.
func (b *Batch) grow(ctx context.Context) error {
	for _, r := range b.runs {
		if err := r.seq.kv.Grow(ctx, r.pos+r.count); err != nil {
			return fmt.Errorf("reserving KV for tokens %d to %d: %w", r.pos, r.pos+r.count-1, err)
		}
		if r.seq.summaries == nil {
			continue
		}
		if err := r.seq.summaries.Grow(r.pos + r.count); err != nil {
			return fmt.Errorf("reserving KV for tokens %d to %d: %w", r.pos, r.pos+r.count-1, err)
		}
	}
	return nil
}

// commit appends the new tokens to their sequences.
func (b *Batch) commit() {
	for _, r := range b.runs {
		s := r.seq
		exact := s.exactTokens == len(s.ids) && !(b.selects && r.pos+r.count > alwaysAttended)
		s.ids = append(s.ids, b.ids[r.row:r.row+r.count]...)
		if exact {
			s.exactTokens = len(s.ids)
		}
		s.kv.Commit(len(s.ids))
		s.conv, s.convNext = s.convNext, s.conv
	}
}

// position returns the position of a row in its sequence.
func (b *Batch) position(row int) int {
	for _, r := range b.runs {
		if row < r.row+r.count {
			return r.pos + row - r.row
		}
	}
	return -1
}

// Sequences returns the number of sequences in the batch. It implements fetch.Batch.
func (b *Batch) Sequences() int { return len(b.runs) }

// Sequence returns the KV of one sequence and the position of its first new token. It implements
// fetch.Batch.
func (b *Batch) Sequence(i int) (*kv.Seq, int) { return b.runs[i].seq.kv, b.runs[i].pos }

// onFlash reports whether any sequence has KV pages on flash.
func (b *Batch) onFlash() bool { return fetch.OnFlash(b) }
