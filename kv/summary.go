package kv

import (
	"fmt"

	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/quant/tiled"
	"github.com/llmrun/llmrun/tiering"
)

// The page selector estimates which blocks of tokens matter to a query without reading
// their keys. It uses summaries: for each head and SummaryTokens tokens, the bounding
// box of the keys, which is two numbers for each dimension. The maximum dot product of
// a query with a point of the box is
//
//	Σ max(q,0)·high + Σ min(q,0)·low
//
// which is the dot product of the query's positive and negative parts with the two
// corners of the box. Therefore a summary is stored like an 8-bit key of twice the
// dimensions and scored by the same kernel. The corners are moved toward the middle of
// the box (see boxFraction) and quantized: the scores rank blocks but are not bounds.

// SummaryTokens is the number of tokens that block a summary.
const SummaryTokens = 16

// boxFraction is the size of the stored box relative to the exact one.
const boxFraction = 0.5

// Summaries are grouped as the score kernel processes them.
const (
	blockSummaries = BlockTokens / SummaryTokens
	// SummaryBlocks is the number of blocks of tokens that a summary group describes.
	SummaryBlocks = BlockTokens / blockSummaries
)

// SummaryGroup holds the summaries of one head for SummaryBlocks blocks of tokens,
// block after block.
type SummaryGroup struct {
	Codes  []uint8   // [BlockTokens/16][SummaryCols/4][16][4], like Block8.Keys
	Scales []float32 // [BlockTokens]
}

// SummaryCols returns the bytes of a summary.
func SummaryCols(headDim int) int { return KeyCols(2 * headDim) }

func summaryGroupBytes(headDim int) int { return BlockTokens * (SummaryCols(headDim) + 4) }

// SummaryBytes returns the bytes of summaries for each token in all layers.
func (s Shape) SummaryBytes() int64 {
	var bytes int64
	for l, heads := range s.KVHeads {
		bytes += int64(heads) * int64(summaryGroupBytes(s.Dim(l)))
	}
	const perGroup = SummaryBlocks * BlockTokens
	return (bytes + perGroup - 1) / perGroup
}

// Summaries holds the summaries of one sequence. One goroutine at a time may change
// it. Exception: several goroutines may call Summarize for different heads and
// blocks.
type Summaries struct {
	shape  Shape
	budget *tiering.Budget
	groups []*tiering.Frame // [group] summaries of all layers and heads
	first  []int            // [layer] offset of the layer's first head in a group
	bytes  int              // of a group
	ready  []int            // [layer] number of blocks, from the first, with summaries
}

// NewSummaries returns the summaries of an empty sequence in a cache of the given
// shape. Their memory is charged to budget.
func NewSummaries(shape Shape, budget *tiering.Budget) *Summaries {
	s := &Summaries{shape: shape, budget: budget, first: make([]int, len(shape.KVHeads)), ready: make([]int, len(shape.KVHeads))}
	for l, n := range shape.KVHeads {
		s.first[l] = s.bytes
		s.bytes += n * summaryGroupBytes(shape.Dim(l))
	}
	return s
}

// Grow makes room for the summaries of all full blocks of a sequence of n tokens.
func (s *Summaries) Grow(n int) error {
	for len(s.groups)*SummaryBlocks < n/BlockTokens {
		frame, err := tiering.Alloc(s.budget, tiering.KVSummaries, s.bytes)
		if err != nil {
			return fmt.Errorf("kv: cannot allocate summaries for %d more tokens: %w", SummaryBlocks*BlockTokens, err)
		}
		s.groups = append(s.groups, frame)
	}
	return nil
}

// Clone returns a copy, for a sequence with the same tokens.
func (s *Summaries) Clone() (*Summaries, error) {
	c := NewSummaries(s.shape, s.budget)
	if err := c.Grow(len(s.groups) * SummaryBlocks * BlockTokens); err != nil {
		c.Close()
		return nil, err
	}
	for i, g := range s.groups {
		copy(c.groups[i].Bytes(), g.Bytes())
	}
	copy(c.ready, s.ready)
	return c, nil
}

// Group returns the summaries of one head for the blocks from i·SummaryBlocks on. The
// contents are undefined for blocks without summaries.
func (s *Summaries) Group(layer, head, i int) SummaryGroup {
	n := summaryGroupBytes(s.shape.Dim(layer))
	at := s.first[layer] + head*n
	b := s.groups[i].Bytes()[at : at+n : at+n]
	codes := BlockTokens * SummaryCols(s.shape.Dim(layer))
	return SummaryGroup{Codes: b[:codes:codes], Scales: view[float32](b[codes:], BlockTokens)}
}

// Ready returns the number of blocks of a layer, from the first, that have summaries.
func (s *Summaries) Ready(layer int) int { return s.ready[layer] }

// Complete reports whether all full blocks of a sequence of n tokens have summaries.
func (s *Summaries) Complete(n int) bool {
	for l, heads := range s.shape.KVHeads {
		if heads > 0 && s.ready[l] < n/BlockTokens {
			return false
		}
	}
	return true
}

// SetReady marks the blocks of a layer from first to end as summarized for all heads,
// provided that all blocks before first are.
func (s *Summaries) SetReady(layer, first, end int) {
	if s.ready[layer] >= first {
		s.ready[layer] = end
	}
}

// Summarizer holds the buffers for computing summaries. One goroutine at a time may
// use it.
type Summarizer struct {
	box   []float32 // [2, headDim] the high corner, then the low one
	key   []float32 // [headDim] of the largest layer; read uses its beginning
	raw   []byte    // [key4.BlockBytes] a quantized group of a 4-bit key
	group []float32 // [keyGroup] the same group, dequantized
}

// NewSummarizer returns a summarizer for heads of up to headDim elements.
func NewSummarizer(headDim int) *Summarizer {
	return &Summarizer{
		box: make([]float32, 2*headDim), key: make([]float32, headDim),
		raw: make([]byte, key4.BlockBytes()), group: make([]float32, keyGroup),
	}
}

// Summarize computes the summaries of a full KV head block from its stored keys.
func (s *Summaries) Summarize(w *Summarizer, layer, head, block int, headBlock []byte) {
	d := s.shape.Dim(layer)
	g := s.Group(layer, head, block/SummaryBlocks)
	box, key := w.box[:2*d], w.key[:d]
	high, low := box[:d], box[d:]
	for i := range blockSummaries {
		for t := range SummaryTokens {
			w.read(key, s.shape.keyFormat(), headBlock, i*SummaryTokens+t)
			if t == 0 {
				copy(low, key)
				copy(high, key)
				continue
			}
			growBox(low, high, key)
		}
		shrinkBox(low, high)
		g.put(block%SummaryBlocks*blockSummaries+i, box)
	}
}

// growBox extends a box to contain a key. A NaN in the key makes that side NaN.
func growBox(low, high, key []float32 /* [headDim] */) {
	for i, v := range key {
		low[i], high[i] = min(low[i], v), max(high[i], v)
	}
}

// shrinkBox moves the corners of a box toward its middle.
func shrinkBox(low, high []float32 /* [headDim] */) {
	for i := range low {
		middle, half := (low[i]+high[i])*0.5, (high[i]-low[i])*(0.5*boxFraction)
		low[i], high[i] = middle-half, middle+half
	}
}

// put quantizes and stores a summary. If the box has a NaN or an infinity, so does the
// scale, and the page selector selects the block.
func (g *SummaryGroup) put(row int, box []float32 /* [2*headDim] */) {
	b := Block8{Keys: g.Codes, KeyScales: g.Scales}
	b.putKey(row, box)
}

// Truncate removes the summaries of blocks that are not full in a sequence of n
// tokens.
func (s *Summaries) Truncate(n int) {
	keep := (n/BlockTokens + SummaryBlocks - 1) / SummaryBlocks
	for len(s.groups) > keep {
		last := len(s.groups) - 1
		s.groups[last].Free()
		s.groups[last] = nil
		s.groups = s.groups[:last]
	}
	for l := range s.ready {
		s.ready[l] = min(s.ready[l], n/BlockTokens)
	}
}

// Close releases all memory.
func (s *Summaries) Close() { s.Truncate(0) }

// keyFormat returns the format of the shape's keys.
func (s Shape) keyFormat() Format {
	if s.Latent > 0 {
		return s.Format.latentKeys()
	}
	return s.Format
}

// read dequantizes the stored key of a token of a KV head block.
func (w *Summarizer) read(key []float32, f Format, block []byte, row int) {
	d := len(key)
	switch f {
	case F32:
		copy(key, view[float32](block[:4*BlockTokens*d], BlockTokens*d)[row*d:])
	case F16:
		quant.DequantRow(quant.F16, key, block[2*row*d:2*(row+1)*d])
	case K4V8:
		w.read4(key, block[:f.keyBytes(d)], row)
	default:
		b := LatentCodes(block, d)
		codes := b.Keys[row/keyTile*keyTile*KeyCols(d)+row%keyTile*4:]
		for i := range key {
			key[i] = float32(int8(codes[i/4*keyStep+i%4]^0x80)) * b.KeyScales[row]
		}
	}
}

// read4 is read for keys of 4 bits; it dequantizes group after group.
func (w *Summarizer) read4(key []float32, keys []byte, row int) {
	tileGroup := keyTile * len(w.raw)
	tile := keys[row/keyTile*(KeyCols(len(key))/keyGroup)*tileGroup:]
	for at := 0; at < len(key); at += keyGroup {
		tiled.UnpackRow(w.raw, key4, tile[at/keyGroup*tileGroup:], keyGroup, row%keyTile)
		quant.DequantRow(key4, w.group, w.raw)
		copy(key[at:], w.group)
	}
}
