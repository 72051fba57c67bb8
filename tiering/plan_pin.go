package tiering

import (
	"cmp"
	"iter"
	"math/bits"
	"slices"
)

// block is a part of a section that is pinned as a whole.
type block struct {
	section int // index of the layer; the head comes last
	bytes   int64
	rank    float64 // relative position of its middle in the layer, 0 to 1; that of headRank in the head
}

// pin pins as many blocks as memory holds: the first ones of every section, and the
// same fraction of all layers. The order of the blocks does not depend on the memory,
// so that more memory never pins less.
func (m *planner) pin(p *Plan, memory int64) {
	p.Pinned = make([]int64, len(m.Layers))
	for i := range p.Pinned {
		p.Pinned[i] = m.Layers[i].Fixed
	}
	p.HeadPinned = m.Head.Fixed
	for _, b := range m.order() {
		if memory -= PageUp(b.bytes); memory < 0 {
			return
		}
		p.By[Pinned] += PageUp(b.bytes)
		if b.section < len(m.Layers) {
			p.Pinned[b.section] += b.bytes
		} else {
			p.HeadPinned += b.bytes
		}
	}
}

// blocks returns the blocks of all sections in the order of pinning.
func (m *planner) blocks() []block {
	var list []block
	for i, s := range append(slices.Clone(m.Layers), m.Head) {
		for off, n := range s.blocks() {
			b := block{section: i, bytes: n, rank: m.headRank()}
			if i < len(m.Layers) {
				b.rank = (float64(off) + float64(n)/2) / float64(s.Bytes)
			}
			list = append(list, b)
		}
	}
	slices.SortStableFunc(list, func(a, b block) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(spread(a.section), spread(b.section)))
	})
	return list
}

// headRank puts the head before all layers, because decoding waits for it, or behind them if only rows of it are looked up.
func (s *Shape) headRank() float64 {
	if s.HeadLookedUp {
		return 2
	}
	return -1
}

// blocks divides a section behind its fixed part into blocks and yields their offsets and sizes. A block of
// odd size comes first, so that the streamed part fills whole reads and ring slots.
func (s *Section) blocks() iter.Seq2[int64, int64] {
	granule, align := s.Granule, max(1, s.Block)
	if granule <= 0 {
		granule = max(1, s.Bytes-s.Fixed)
	}
	return func(yield func(off, n int64) bool) {
		n := ((s.Bytes-s.Fixed)%granule + align - 1) / align * align
		if n == 0 {
			n = granule
		}
		for off := s.Fixed; off < s.Bytes; off, n = off+n, granule {
			if !yield(off, min(n, s.Bytes-off)) {
				return
			}
		}
	}
}

// spread returns a sort key of a section: the first sections in this order are
// distributed evenly over the model, and so are the streamed bytes.
func spread(section int) uint32 { return bits.Reverse32(uint32(section)) }
