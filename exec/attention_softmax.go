package exec

import (
	"math"

	"github.com/llmrun/llmrun/quant"
)

// The softmax state of a query is what online softmax carries from block to block: the sum of
// weighted values, the maximum score, to which the weights are relative, and the sum of the
// weights.

var negInf = float32(math.Inf(-1))

// clearState resets the state of every query to that of having read no token.
func (s *passState) clearState(state []float32) {
	clear(state)
	width := s.stateWidth()
	for i := width - 2; i < len(state); i += width {
		state[i] = negInf
	}
}

// weightScores turns one query's scores of a block into weights relative to its running maximum,
// and rescales its state if the maximum rises. Tokens outside the causal range or the window get
// weight 0.
func (s *passState) weightScores(scores, state []float32, pos, start int) {
	seen := min(len(scores), pos-start+1)
	if seen <= 0 {
		clear(scores)
		return
	}
	if limit := s.m.Spec.AttnSoftcap; limit != 0 {
		quant.SoftCap(scores[:seen], limit)
	}
	if win := s.layer.Window; win > 0 {
		for j := range min(seen, max(0, pos-win+1-start)) {
			scores[j] = negInf
		}
	}
	top, sum := quant.SoftmaxBlock(scores, seen)
	clear(scores[seen:])
	d := len(state) - 2
	if top == negInf {
		return // no token of this block is inside the window
	}
	newTop := max(state[d], top)
	if f := decay(state[d], newTop); f != 1 {
		quant.Scale(state[:d], f)
		state[d+1] *= f
	}
	if f := decay(top, newTop); f != 1 {
		quant.Scale(scores[:seen], f)
		sum *= f
	}
	state[d], state[d+1] = newTop, state[d+1]+sum
}

// decay returns e^(from-to), the factor that converts weights relative to one maximum into
// weights relative to a greater one. Usually the maximum does not change, and the exponential of
// 0 is exactly 1.
func decay(from, to float32) float32 {
	if from == to {
		return 1
	}
	return quant.Exp32(from - to)
}

// mergeState merges the state of a span into the state of all spans before it.
func (s *passState) mergeState(acc, state []float32) {
	width := s.stateWidth()
	d := width - 2
	for i := 0; i < len(acc); i += width {
		into, from := acc[i:i+width], state[i:i+width]
		if from[d] == negInf {
			continue
		}
		top := max(into[d], from[d])
		fa, fs := decay(into[d], top), decay(from[d], top)
		quant.Scale(into[:d], fa)
		quant.AddScaled(into[:d], from[:d], fs)
		into[d], into[d+1] = top, float32(into[d+1]*fa)+float32(from[d+1]*fs)
	}
}

// finishTile divides by the sum of weights and writes a tile's output in the order that the
// output projection reads.
func (s *passState) finishTile(t tile, kvHead int, acc []float32) {
	d, width, heads := s.m.Spec.HeadDim, s.stateWidth(), s.m.Spec.Heads
	group := heads / s.layer.KVHeads
	for i := range t.count * group {
		row, head := t.row+i/group, kvHead*group+i%group
		out := s.att[(row*heads+head)*d:][:d]
		copy(out, acc[i*width:i*width+d])
		quant.Scale(out, 1/acc[i*width+d+1])
	}
}
