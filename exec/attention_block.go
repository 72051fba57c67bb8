package exec

import (
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/quant/tiled"
)

// quantizedBlockState is blockState for keys and values stored as codes. Kernels read the codes in
// place.
func (a *attention) quantizedBlockState(w *workspace, state []float32, t tile, kvHead, block, next int) {
	d, width := a.m.Spec.HeadDim, a.stateWidth()
	group := a.m.Spec.Heads / a.layer.KVHeads
	start := block * kv.BlockTokens
	shape := a.m.cache.Shape()
	coming := a.kvBlock(t, kvHead, next)
	b, after := shape.Block8(a.kvBlock(t, kvHead, block)), shape.Block8(coming)
	if shape.Format == kv.K4V8 {
		tiled.Scores4(w.scores, b.Keys, after.Keys, &w.queries, w.tiles)
	} else {
		tiled.Scores(w.scores, tiled.Keys{Codes: b.Keys, Scales: b.KeyScales}, after.Keys, &w.queries, w.tiles)
	}
	weights := w.weights[:t.count*group]
	for i := range weights {
		weights[i].Attended = a.attendMask(t.pos+i/group, start)
	}
	if limit := a.m.Spec.AttnSoftcap; limit != 0 {
		quant.SoftCap(w.scores[:len(weights)*kv.BlockTokens], limit)
	}
	// The kernels of scores and values prefetch the first and the last quarter of the next
	// block; the softmax prefetches the rest.
	quant.SoftmaxBlocks(weights, w.scores, b.Scales, state[d:], width, coming[len(coming)/4:len(coming)/4*3])
	tokens := min(kv.BlockTokens, t.pos+t.count-start) // up to the last row's own
	if shape.Format == kv.K8F8 {
		quant.WeightedSumBlockF8(state, width, d, weights, b.Floats, after.Floats, tokens)
	} else {
		quant.WeightedSumBlock(state, width, d, weights, b.Values, after.Values, tokens)
	}
}

// scoresF16 computes the scores of a tile's queries against float16 keys, and returns the
// block's values as float32.
func (s *passState) scoresF16(w *workspace, scores, q []float32 /* [queries, HeadDim] */, headBlock []byte, tokens int) []float32 {
	d := s.m.Spec.HeadDim
	keys, values := s.m.cache.Shape().Block16(headBlock)
	quant.MulRows(scores, kv.BlockTokens, quant.F16, keys, d, 0, tokens, q, len(q)/d, w.scratch)
	quant.DequantRow(quant.F16, w.values[:tokens*d], values[:2*tokens*d])
	return w.values
}
