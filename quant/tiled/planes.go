package tiled

import "github.com/llmrun/llmrun/quant"

// A matrix may be stored in two planes: the high bits of its codes with the scales, and the low
// bits. Both are tiles. [JoinPlanes] restores the tiles of the whole codes, bit for bit.
// [MultiplyHigh] computes with the high plane alone, for which a code stands for the middle of its
// interval.

// Plane is a part of the bits of every code of a matrix. Packs store the values.
type Plane uint8

// The planes. High planes hold the scales too. Codes of 5 and 6 bits are a nibble and upper bits, which
// are in the high plane.
const (
	Whole Plane = iota // all bits
	High4              // 4 of 8 bits
	Low4
	High3 // 3 of the 4 bits of nibbles
	Low1
	High2 // 2 of the 4 bits of nibbles
	Low2
	numPlanes
)

// planeInfo describes a plane.
type planeInfo struct {
	low   int   // bits of a code in the low plane of the pair
	other Plane // the plane with the other bits
	high  bool
	join  joinKind
}

var planeInfos = [numPlanes]planeInfo{
	High4: {4, Low4, true, joinBytes},
	Low4:  {4, High4, false, joinBytes},
	High3: {1, Low1, true, joinThree},
	Low1:  {1, High3, false, joinThree},
	High2: {2, Low2, true, joinTwo},
	Low2:  {2, High2, false, joinTwo},
}

// Of reports whether matrices of a type can be stored in the plane.
func (p Plane) Of(t quant.Type) bool {
	f := formats[t]
	if p == Whole || p >= numPlanes || f == nil {
		return p == Whole
	}
	return f.low == nil && (planeInfos[p].join == joinBytes) == (f.bits == 8) && f.headBytes()%leadStep == 0
}

// IsHigh reports whether the plane holds high bits and scales.
func (p Plane) IsHigh() bool { return p < numPlanes && planeInfos[p].high }

// IsLow reports whether the plane holds low bits.
func (p Plane) IsLow() bool { return p != Whole && p < numPlanes && !planeInfos[p].high }

// Other returns the plane with the other bits.
func (p Plane) Other() Plane { return planeInfos[p].other }

// BlockBytes returns what the plane of a block of a type takes in each row, where [Plane.Of] is true.
func (p Plane) BlockBytes(t quant.Type) int {
	low := planeInfos[p].low * t.BlockElems() / 8
	if p.IsLow() {
		return low
	}
	return t.BlockBytes() - low
}

// SplitPlane writes a plane of tiles of whole codes of a type, where [Plane.Of] is true.
func SplitPlane(dst []byte, p Plane, t quant.Type, tiles []byte) {
	if p == Whole {
		copy(dst, tiles)
		return
	}
	f := formats[t]
	size, part := t.BlockBytes()*TileRows, p.BlockBytes(t)*TileRows
	for ; len(tiles) > 0; dst, tiles = dst[part:], tiles[size:] {
		f.splitBlock(dst[:part], p, tiles[:size])
	}
}

// splitBlock writes a plane of a tile block.
func (f *format) splitBlock(out []byte, p Plane, block []byte) {
	head, group, lead := f.headBytes(), f.groupBytes(), f.upperBytes()
	part := (len(out) - head) / f.groups(len(block))
	if p.IsLow() {
		part, lead = len(out)/f.groups(len(block)), 0
	} else {
		copy(out, block[:head])
		out = out[head:]
	}
	for block = block[head:]; len(block) > 0; out, block = out[part:], block[group:] {
		copy(out[:lead], block)
		splitCodes(out[lead:part], p, block[f.upperBytes():group])
	}
}

// upperBytes is the size of the upper bits of a group's codes of 5 and 6 bits.
func (f *format) upperBytes() int {
	if f.bits == 8 {
		return 0
	}
	return f.groupBytes() - nibbleGroup
}

// JoinPlanes writes tiles of the whole codes. Without low bits (nil) these are such that their mean is
// the middle of the interval in formats whose products of high planes need that, and zero in others.
func JoinPlanes(dst []byte, high Plane, t quant.Type, highTiles, lowTiles []byte) {
	if len(highTiles) == 0 {
		return
	}
	f, info := formats[t], &planeInfos[high]
	size, part, rest := t.BlockBytes()*TileRows, high.BlockBytes(t)*TileRows, high.Other().BlockBytes(t)*TileRows
	head, groups := f.headBytes(), f.groups(size)
	a := joinArgs{lead: f.upperBytes(), groups: groups, step: rest / groups, low: &f.fill(high)[0]}
	if lowTiles == nil {
		a.step = 0
	}
	if groups == 1 { // a head precedes every group
		a.lead, a.groups, head = a.lead+head, len(highTiles)/part, 0
		size, part, rest = size*a.groups, part*a.groups, rest*a.groups
	}
	for ; len(highTiles) > 0; dst, highTiles = dst[size:], highTiles[part:] {
		copy(dst[:head], highTiles)
		a.dst, a.high = &dst[head:size][0], &highTiles[head]
		if lowTiles != nil {
			a.low, lowTiles = &lowTiles[0], lowTiles[rest:]
		}
		active.join(info.join, a)
	}
}
