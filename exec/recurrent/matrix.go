package recurrent

import (
	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/quant"
)

// Inputs are what the tokens of a pass do to the matrices of a layer.
type Inputs struct {
	Channels Rows      // [tokens][channels] keys, queries and values, as arch.Recurrence orders them
	Decay    Rows      // [tokens][heads]
	Weight   Rows      // [tokens][heads] of the values
	Skip     []float32 // [heads] how much of its value a head's output has besides; may be nil
	Out      Rows      // [tokens][heads*value] receives the outputs; no Data: nowhere
}

// blockValues is the number of columns of a head's matrix that a part takes through all tokens, so that they stay in the
// core's first cache.
const blockValues = 64

// Parts returns the number of parts of a layer's matrices.
func Parts(r *arch.Recurrence) int { return r.Heads * blocks(r) }

// blocks returns the number of parts of a head.
func blocks(r *arch.Recurrence) int { return (r.Value + blockValues - 1) / blockValues }

// block is some columns of the matrix of one head.
type block struct {
	*arch.Recurrence
	head, lo, hi int
}

// Advance takes one part of the matrices from now to next, over the first tokens of a pass, token by token as
// quant.AdvanceMatrix defines. The columns of a part are stored side by side.
func Advance(r *arch.Recurrence, next, now []float32 /* [heads, blocks, key, columns] */, part int, in *Inputs, tokens int) {
	lo := part % blocks(r) * blockValues
	b := block{r, part / blocks(r), lo, min(lo+blockValues, r.Value)}
	at, size := b.head*r.Key*r.Value+r.Key*b.lo, r.Key*(b.hi-b.lo)
	from, to := now[at:at+size], next[at:at+size]
	if tokens == 0 {
		copy(to, from)
	}
	for t := range tokens {
		quant.AdvanceMatrix(to, from, b.hi-b.lo, b.step(in, t))
		from = to
	}
}

// step returns what a token does to the columns.
func (b *block) step(in *Inputs, t int) quant.MatrixStep {
	row := in.Channels.Row(t)
	s := quant.MatrixStep{
		Key: b.KeyOf(row, b.head), Query: b.QueryOf(row, b.head), Value: b.ValueOf(row, b.head)[b.lo:b.hi],
		Decay: in.Decay.Row(t)[b.head], Weight: in.Weight.Row(t)[b.head],
		Delta: b.Delta, HasSkip: in.Skip != nil,
	}
	if in.Out.Data != nil {
		s.Out = in.Out.Row(t)[b.head*b.Value+b.lo:][:b.hi-b.lo]
	}
	if in.Skip != nil {
		s.Skip = in.Skip[b.head]
	}
	return s
}
