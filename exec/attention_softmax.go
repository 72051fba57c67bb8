package exec

import (
	"math"

	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/quant/tiled"
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
func (s *passState) weightScores(scores, state []float32, t *tile, pos, start int) {
	seen := min(len(scores), s.lastAttended(t, pos)-start+1)
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
	d, width, heads := s.layer.ValueDim, s.stateWidth(), s.m.Spec.Heads
	group := heads / s.layer.KVHeads
	for i := range t.count * group {
		row, head := t.row+i/group, kvHead*group+i%group
		out := s.att[(row*heads+head)*d:][:d]
		copy(out, acc[i*width:i*width+d])
		quant.Scale(out, s.weightOfSum(acc[i*width+d], acc[i*width+d+1], head))
	}
}

// weightOfSum returns the factor of a query's weighted values, given the maximum and the sum of its
// weights. The sink of the head adds a weight without a value.
func (s *passState) weightOfSum(top, sum float32, head int) float32 {
	if s.w == nil || s.w.Sinks == nil { // s.w is nil while attention is measured
		return 1 / sum
	}
	sink := s.w.Sinks[head]
	newTop := max(top, sink)
	f := decay(top, newTop)
	return f / (float32(sum*f) + decay(sink, newTop))
}

// quantizedBlockState is blockState for keys and values stored as codes. Kernels read the codes in
// place.
func (a *attention) quantizedBlockState(w *workspace, state []float32, t tile, kvHead, block, next int) {
	d, width := a.layer.ValueDim, a.stateWidth()
	group := a.m.Spec.Heads / a.layer.KVHeads
	start := block * kv.BlockTokens
	coming := a.kvBlock(t, kvHead, next)
	b, after := codeBlock(a.passState, w, a.kvBlock(t, kvHead, block)), codeBlock(a.passState, nil, coming)
	if after.Values == nil {
		after.Values = b.Values
	}
	if b.KeyScales == nil {
		tiled.Scores4(w.scores, b.Keys, after.Keys, &w.queries, w.tiles)
	} else {
		tiled.Scores(w.scores, tiled.Keys{Codes: b.Keys, Scales: b.KeyScales}, after.Keys, &w.queries, w.tiles)
	}
	weights := w.weights[:t.count*group]
	for i := range weights {
		weights[i].Attended = a.attendMask(&t, t.pos+i/group, start)
	}
	if limit := a.m.Spec.AttnSoftcap; limit != 0 {
		quant.SoftCap(w.scores[:len(weights)*kv.BlockTokens], limit)
	}
	// The kernels of scores and values prefetch the first and the last quarter of the next
	// block; the softmax prefetches the rest.
	quant.SoftmaxBlocks(weights, w.scores, b.Scales, state[d:], width, coming[len(coming)/4:len(coming)/4*3])
	tokens := min(kv.BlockTokens, t.end-start)
	if b.Values == nil {
		quant.WeightedSumBlockF8(state, width, d, weights, b.Floats, after.Floats, tokens)
	} else {
		quant.WeightedSumBlock(state, width, d, weights, b.Values, after.Values, tokens)
	}
}

// scoresF16 computes the scores of a tile's queries against float16 keys, and returns the
// block's values as float32.
func (s *passState) scoresF16(w *workspace, scores, q []float32 /* [queries, HeadDim] */, headBlock []byte, tokens int) []float32 {
	d := s.layer.HeadDim
	keys, values := halfBlock(s.m.cache.Shape().Latent > 0, headBlock, d)
	quant.MulRows(scores, kv.BlockTokens, quant.F16, keys, d, 0, tokens, q, len(q)/d, w.scratch)
	quant.DequantRow(quant.F16, w.values[:tokens*d], values[:2*tokens*d])
	return w.values
}
