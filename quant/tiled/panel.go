package tiled

import (
	"math"

	"github.com/llmrun/llmrun/quant"
)

// panelGroups is how many groups of a tile are decoded at a time. The codes of
// a panel, 16 KiB, stay in a first-level cache while activations pass.
const panelGroups = 32

// panel is some groups of a tile of weights, decoded to one form for all
// formats, which is what the matrix kernels read.
type panel struct {
	codes   []uint8   // [groups][planes][TileRows][laneBytes]
	scales  []float32 // [groups][TileRows]
	mins    []float32 // [groups][TileRows]
	factors []float32 // [groups][halves][TileRows] of formats with half groups

	tokens  int       // that it will be multiplied with
	centred bool      // codes are less the format's zero
	table   [16]uint8 // of a format of 4 bits, centred
}

func newPanel() panel {
	return panel{
		codes:   make([]uint8, panelGroups*planes*planeBytes),
		scales:  make([]float32, panelGroups*TileRows),
		mins:    make([]float32, panelGroups*TileRows),
		factors: make([]float32, panelGroups*2*TileRows),
	}
}

// decode fills the panel with groups of a tile block. at is the group of the
// panel to begin with.
func (p *panel) decode(f *format, block []byte, at int) {
	groups := block[f.headBytes():]
	size := f.groupBytes()
	for g := range len(groups) / size {
		decodeCodes(f, p.codes[(at+g)*planes*planeBytes:][:planes*planeBytes], groups[g*size:][:size])
	}
	p.decodeScales(f, block, at)
}

// decodeCodes brings one group's codes to one byte each, less nothing.
func decodeCodes(f *format, dst []uint8, group []byte) {
	if f.bits == 8 {
		copy(dst, group)
		return
	}
	low := group[len(group)-4*planeBytes:]
	for p := range planes {
		plane := dst[p*planeBytes:][:planeBytes]
		nib := low[p%4*planeBytes:][:planeBytes]
		shift := p / 4 * 4
		for i := range plane {
			c := nib[i] >> shift & 15
			switch {
			case f.bits == 4:
				c = f.table[c]
			case f.bits == 5:
				c |= group[p*8+i/8] >> (i % 8) & 1 << 4
			case f.bits == 6:
				c |= group[p/4*planeBytes+i] >> (2 * (p % 4)) & 3 << 4
			}
			plane[i] = c
		}
	}
}

// decodeScales computes the scale and min, or the scale and factors, of every row
// and group of a block.
func (p *panel) decodeScales(f *format, block []byte, at int) {
	groups := f.groups(len(block))
	scales, mins, factors := p.scales[at*TileRows:], p.mins[at*TileRows:], p.factors[2*at*TileRows:]
	var r rowBlock
	for row := range TileRows {
		f.loadHead(&r, block, row)
		base, offset := f.base(&r), quant.F16ToF32(r.half[1])
		for g := range groups {
			switch f.scales {
			case oneScale:
				scales[g*TileRows+row] = base
				mins[g*TileRows+row] = -offset // these formats add it
				if f.zeros {
					mins[g*TileRows+row] = base * float32(r.zero)
				}
			case pairs6:
				scales[g*TileRows+row] = base * float32(r.scale[g])
				mins[g*TileRows+row] = offset * float32(r.min[g])
			case bytes16:
				scales[g*TileRows+row] = base
				factors[2*g*TileRows+row] = float32(int8(r.scale[2*g]))
				factors[(2*g+1)*TileRows+row] = float32(int8(r.scale[2*g+1]))
			case six8:
				scales[g*TileRows+row] = base * float32(int(r.scale[g])-32)
			}
		}
	}
}

// base returns the scale that a whole block has in common.
func (f *format) base(r *rowBlock) float32 {
	if !f.exponent {
		return quant.F16ToF32(r.half[0])
	}
	// A power of two, halved because the table holds twice the values.
	if r.exponent < 2 { // below the normal range of float32
		return math.Float32frombits(0x00200000 << r.exponent)
	}
	return math.Float32frombits((uint32(r.exponent) - 1) << 23)
}
