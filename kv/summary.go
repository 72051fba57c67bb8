package kv

import (
	"fmt"

	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/quant/tiled"
	"github.com/llmrun/llmrun/tiering"
)

// Selection asks which blocks of tokens can matter to a query without reading
// their keys. It looks at summaries: for each SummaryTokens tokens and head a
// box that holds their keys, which is two numbers for each dimension. The greatest
// product that a query can have with any point of the box is
//
//	Σ max(q,0)·high + Σ min(q,0)·low
//
// a product of the query's positive and negative parts with the box's two
// corners. So a summary is a key of twice the dimensions, is kept as 8-bit keys
// are, and is scored by the same kernel. The corners are drawn toward the box's
// middle (see boxFraction) and rounded: what comes out ranks blocks, and is not a
// bound.

// SummaryTokens is how many tokens share a summary.
const SummaryTokens = 16

// boxFraction is how far from the middle of the box the corners that are kept lie:
// 1 are the box's own.
const boxFraction = 0.5

// Summaries come in groups of as many as the score kernel takes at once.
const (
	blockSummaries = BlockTokens / SummaryTokens
	// SummaryBlocks is how many blocks of tokens a group of summaries is about.
	SummaryBlocks = BlockTokens / blockSummaries
)

// SummaryGroup is the summaries of one head for SummaryBlocks blocks of tokens:
// those of the first block, then those of the next.
type SummaryGroup struct {
	Codes  []uint8   // [BlockTokens/16][SummaryCols/4][16][4], like Block8.Keys
	Scales []float32 // [BlockTokens]
}

// SummaryCols returns the bytes of a summary.
func SummaryCols(headDim int) int { return KeyCols(2 * headDim) }

func summaryGroupBytes(headDim int) int { return BlockTokens * (SummaryCols(headDim) + 4) }

// SummaryBytes returns the bytes of summaries for each token over all layers.
func (s Shape) SummaryBytes() int64 {
	heads := 0
	for _, n := range s.KVHeads {
		heads += n
	}
	const perGroup = SummaryBlocks * BlockTokens
	return (int64(heads)*int64(summaryGroupBytes(s.HeadDim)) + perGroup - 1) / perGroup
}

// Summaries are those of one sequence. One goroutine at a time may change them,
// except that Summarize may be called by many for different heads and blocks.
type Summaries struct {
	shape  Shape
	budget *tiering.Budget
	groups []*tiering.Frame // [group] -> of all layers and heads
	first  []int            // [layer] index of its first head in a group
	heads  int              // of all layers
	ready  []int            // [layer] blocks from the beginning that have summaries
}

// NewSummaries returns those of an empty sequence, for a cache of the given
// shape. Their memory is charged to budget.
func NewSummaries(shape Shape, budget *tiering.Budget) *Summaries {
	s := &Summaries{shape: shape, budget: budget, first: make([]int, len(shape.KVHeads)), ready: make([]int, len(shape.KVHeads))}
	for l, n := range shape.KVHeads {
		s.first[l] = s.heads
		s.heads += n
	}
	return s
}

// Grow makes room for summaries of the blocks that are full in a sequence of n
// tokens.
func (s *Summaries) Grow(n int) error {
	for len(s.groups)*SummaryBlocks < n/BlockTokens {
		frame, err := tiering.Alloc(s.budget, tiering.KVSummaries, s.heads*summaryGroupBytes(s.shape.HeadDim))
		if err != nil {
			return fmt.Errorf("kv: no room for summaries of %d more tokens: %w", SummaryBlocks*BlockTokens, err)
		}
		s.groups = append(s.groups, frame)
	}
	return nil
}

// Clone returns summaries of a sequence with the same tokens.
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

// Group returns the summaries of one head for blocks from i·SummaryBlocks on.
// Those of blocks without any hold anything.
func (s *Summaries) Group(layer, head, i int) SummaryGroup {
	n := summaryGroupBytes(s.shape.HeadDim)
	at := (s.first[layer] + head) * n
	b := s.groups[i].Bytes()[at : at+n : at+n]
	codes := BlockTokens * SummaryCols(s.shape.HeadDim)
	return SummaryGroup{Codes: b[:codes:codes], Scales: view[float32](b[codes:], BlockTokens)}
}

// Ready returns how many blocks of a layer, from the first on, have summaries.
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

// SetReady says that all heads of the layer's blocks before end have
// summaries, if those before first had.
func (s *Summaries) SetReady(layer, first, end int) {
	if s.ready[layer] >= first {
		s.ready[layer] = end
	}
}

// Summarizer is what making summaries needs; one goroutine at a time may use it.
type Summarizer struct {
	box   []float32 // [2, headDim] the high corner, then the low one
	key   []float32 // [headDim]
	raw   []byte    // [key4.BlockBytes] a group of a key of 4 bits
	group []float32 // [keyGroup] the same
}

// NewSummarizer returns one for heads of a size.
func NewSummarizer(headDim int) *Summarizer {
	return &Summarizer{
		box: make([]float32, 2*headDim), key: make([]float32, headDim),
		raw: make([]byte, key4.BlockBytes()), group: make([]float32, keyGroup),
	}
}

// Summarize makes the summaries of a full block of a head from its keys as they
// are stored, which lie in share.
func (s *Summaries) Summarize(w *Summarizer, layer, head, block int, share []byte) {
	d := s.shape.HeadDim
	g := s.Group(layer, head, block/SummaryBlocks)
	high, low := w.box[:d], w.box[d:]
	for i := range blockSummaries {
		for t := range SummaryTokens {
			w.read(s.shape.Format, share, i*SummaryTokens+t)
			if t == 0 {
				copy(low, w.key)
				copy(high, w.key)
				continue
			}
			growBox(low, high, w.key)
		}
		shrinkBox(low, high)
		g.put(block%SummaryBlocks*blockSummaries+i, w.box)
	}
}

// growBox makes a box hold a key. A NaN makes a side of it NaN.
func growBox(low, high, key []float32 /* [headDim] */) {
	for i, v := range key {
		low[i], high[i] = min(low[i], v), max(high[i], v)
	}
}

// shrinkBox moves a box's corners toward its middle.
func shrinkBox(low, high []float32 /* [headDim] */) {
	for i := range low {
		middle, half := (low[i]+high[i])*0.5, (high[i]-low[i])*(0.5*boxFraction)
		low[i], high[i] = middle-half, middle+half
	}
}

// put rounds and stores a summary. A broken one gets a broken scale: whoever
// ranks by it must take its block.
func (g *SummaryGroup) put(row int, box []float32 /* [2*headDim] */) {
	b := Block8{Keys: g.Codes, KeyScales: g.Scales}
	b.putKey(row, box)
}

// Truncate forgets the summaries of blocks that are not full in a sequence of n
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

// Close gives all memory back.
func (s *Summaries) Close() { s.Truncate(0) }

// read makes key a token's key as it is stored in a head's share of a block.
func (w *Summarizer) read(f Format, share []byte, row int) {
	d := len(w.key)
	switch f {
	case F32:
		keys, _ := f.Block32(share, d)
		copy(w.key, keys[row*d:])
	case F16:
		keys, _ := f.Block16(share, d)
		quant.DequantRow(quant.F16, w.key, keys[2*row*d:2*(row+1)*d])
	case K4V8:
		w.read4(f.Block8(share, d).Keys, row)
	default:
		b := f.Block8(share, d)
		codes := b.Keys[row/keyTile*keyTile*KeyCols(d)+row%keyTile*4:]
		for i := range w.key {
			w.key[i] = float32(int8(codes[i/4*keyStep+i%4]^0x80)) * b.KeyScales[row]
		}
	}
}

// read4 is read for keys of 4 bits, a group after the other.
func (w *Summarizer) read4(keys []byte, row int) {
	tileGroup := keyTile * len(w.raw)
	tile := keys[row/keyTile*(KeyCols(len(w.key))/keyGroup)*tileGroup:]
	for at := 0; at < len(w.key); at += keyGroup {
		tiled.UnpackRow(w.raw, key4, tile[at/keyGroup*tileGroup:], keyGroup, row%keyTile)
		quant.DequantRow(key4, w.group, w.raw)
		copy(w.key[at:], w.group)
	}
}
