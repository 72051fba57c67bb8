package exec

import (
	"context"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/quant/tiled"
)

// passState is the state that all parts of a pass share: the model, the activations, the current
// layer, and the row operations that wait for the next matmul run. The parts (the matmul queue,
// attention, the experts) embed a pointer to the same passState.
type passState struct {
	m       *Model
	chunk   int // maximum tokens of a pass
	workers []workspace
	activations
	rowOps

	ctx   context.Context // of the running pass
	err   error           // why the pass cannot continue
	batch *Batch
	n     int  // rows that are being computed; pruneRows reduces it
	high  bool // the pass computes with high planes alone, see Draft
	layer *arch.LayerSpec
	index int // index of the layer
	// stored is the layer in whose pages the layer's keys and values are: itself or an earlier one.
	stored int
	w      *weights.LayerWeights
	// activate combines the gate and up vectors of an MLP.
	activate func(dst, gate, up []float32)
}

// activations are the buffers of a pass, allocated once. Some share memory, see carve.
type activations struct {
	x, h     []float32   // [chunk, Dim] residual stream; its normalized copy
	mix, ffn []float32   // [chunk, Dim] results of attention and of the MLP
	q, att   []float32   // [chunk, Heads*HeadDim] queries as the matmul writes them; attention's output
	qgate    []float32   // [chunk, Heads*HeadDim] gates of attention's output
	k, v     []float32   // [chunk, maxKV*HeadDim]
	heads    []float32   // [kvHeads, chunk, group, HeadDim] rotated queries in attention's order
	gate     []float32   // [chunk, inner] of an MLP, or [chunk*ExpertsUsed, inner] of experts
	up       []float32   // the same, for at most maxUpTokens tokens
	cos, sin [][]float32 // [ropes][chunk, Dim/2] of the batch's positions
	logits   []float32   // [headRows, Vocab]
	raw      []byte      // an embedding row as the file stores it
}

// workspace is the working memory of one thread.
type workspace struct {
	scratch    *quant.Scratch
	tiles      *tiled.Scratch
	tileMemory []float32 // memory of tiles
	joined     []byte    // [joinedBytes] tiles of whole codes that are joined from planes
	orderedRow []float32 // [maxCols] the row that is being quantized, in the column order of the weights
	up         []float32 // [chunk, upSliceColumns] slice of up, see multiplyActivating
	factors    []float32 // [recurrent.Factors] of a convolution
	outer      []float32 // [outerRanks, BlockRows] a decoded part of B, see besidePass
	scores     []float32 // [tileQueries, kv.BlockTokens]
	acc        []float32 // [tileQueries, HeadDim+2] softmax states of a tile
	span       []float32 // [tileQueries, HeadDim+2] softmax states over the current span

	latent []int8    // [kv.BlockTokens, ValueDim] values of a latent block
	values []float32 // [kv.BlockTokens, HeadDim] values of an F16 cache as float32

	// For quantized KV formats: a tile's quantized queries and their softmax weights of a block.
	queries     tiled.Activations
	paddedQuery []float32 // [kv.KeyCols(HeadDim)] a query, padded with zeros
	queryMemory []float32 // memory of queries
	weights     []quant.BlockWeights

	// For page selection.
	summarizer    *kv.Summarizer
	cornerQuery   []float32         // [SummaryCols] a query in the form that multiplies summaries, see splitSigns
	cornerQueries tiled.Activations // these queries, quantized
	cornerMemory  []float32         // memory of cornerQueries
	summaryScores []float32         // [group, kv.BlockTokens] scores of one group of summaries
	blockScores   []float32         // [group, blocks] scores of blocks
}

// failed reports whether the pass has failed or was cancelled.
func (s *passState) failed() bool {
	if s.err == nil {
		s.err = s.ctx.Err()
	}
	return s.err != nil
}

// stateWidth returns the floats of one query's softmax state: the weighted values, then the
// maximum and the sum of the weights.
func (s *passState) stateWidth() int { return s.layer.ValueDim + 2 }

// widestState returns the largest stateWidth of any layer.
func (s *passState) widestState() int { return s.m.Spec.HeadDim + 2 }

// setLayer makes l the layer that the pass computes.
func (s *passState) setLayer(l int) {
	s.index, s.stored, s.layer = l, s.m.Spec.Stored(l), &s.m.Spec.Layers[l]
}

// queries returns the rotated queries of some rows that share a key head: [rows, group,
// HeadDim].
func (s *passState) queries(kvHead, row, rows int) []float32 {
	width := s.m.Spec.Heads / s.layer.KVHeads * s.layer.HeadDim
	at := (kvHead*s.n + row) * width
	return s.heads[at : at+rows*width]
}

// activation returns the function that combines gate and up. For an MLP without a gate it
// ignores gate and maps up alone.
func activation(s *arch.Spec) func(dst, gate, up []float32) {
	if s.GateScale != 0 && s.GateScale != 1 {
		unscaled := *s
		unscaled.GateScale = 1
		activate := activation(&unscaled)
		return func(dst, gate, up []float32) {
			quant.Scale(gate, s.GateScale)
			activate(dst, gate, up)
		}
	}
	if s.Act == arch.ClampedSiLU {
		return func(dst, gate, up []float32) { quant.ClampedSiluMul(dst, gate, up, s.GateLimit) }
	}
	if s.Gated {
		return [...]func(dst, gate, up []float32){arch.SiLU: quant.SiluMul, arch.GELUTanh: quant.GeluTanhMul, arch.GELUErf: quant.GeluErfMul}[s.Act]
	}
	single := [...]func(dst, x []float32){arch.SiLU: quant.Silu, arch.GELUTanh: quant.GeluTanh, arch.GELUErf: quant.GeluErf, arch.ReLU2: quant.SquaredRelu}[s.Act]
	return func(dst, _, up []float32) { single(dst, up) }
}
