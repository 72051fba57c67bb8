package exec

import (
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/quant/tiled"
)

// block8State is blockState for keys and values in codes, which are read where
// they lie.
func (p *pass) block8State(w *workspace, state []float32, t tile, kvHead, block, next int) {
	d, width := p.m.Spec.HeadDim, p.stateWidth()
	group := p.m.Spec.Heads / p.layer.KVHeads
	start := block * kv.BlockTokens
	shape := p.m.cache.Shape()
	coming := p.share(t, kvHead, next)
	b, after := shape.Block8(p.share(t, kvHead, block)), shape.Block8(coming)
	if shape.Format == kv.K4V8 {
		tiled.Scores4(w.scores, b.Keys, after.Keys, &w.queries, w.tiles)
	} else {
		tiled.Scores(w.scores, tiled.Keys{Codes: b.Keys, Scales: b.KeyScales}, after.Keys, &w.queries, w.tiles)
	}
	weights := w.weights[:t.count*group]
	for i := range weights {
		weights[i].Seen = p.visible(t.pos+i/group, start)
	}
	if limit := p.m.Spec.AttnSoftcap; limit != 0 {
		quant.SoftCap(w.scores[:len(weights)*kv.BlockTokens], limit)
	}
	// The kernels of scores and values ask for the first and the last quarter.
	quant.SoftmaxBlocks(weights, w.scores, b.Scales, state[d:], width, coming[len(coming)/4:len(coming)/4*3])
	tokens := min(kv.BlockTokens, t.pos+t.count-start) // that the last row sees
	if shape.Format == kv.K8F8 {
		quant.WeighBlockF8(state, width, d, weights, b.Floats, after.Floats, tokens)
	} else {
		quant.WeighBlock(state, width, d, weights, b.Values, after.Values, tokens)
	}
}

// scores16 computes the scores of a tile's queries for keys in floats of 16
// bits, and returns the values of the block as floats of 32.
func (p *pass) scores16(w *workspace, scores, q []float32 /* [queries, HeadDim] */, share []byte, tokens int) []float32 {
	d := p.m.Spec.HeadDim
	keys, values := p.m.cache.Shape().Block16(share)
	quant.MulRows(scores, kv.BlockTokens, quant.F16, keys, d, 0, tokens, q, len(q)/d, w.scratch)
	quant.DequantRow(quant.F16, w.values[:tokens*d], values[:2*tokens*d])
	return w.values
}
