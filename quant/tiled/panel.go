package tiled

import (
	"math"

	"github.com/llmrun/llmrun/quant"
)

// panelGroups is the number of groups of a tile that decode processes at a time.
// The codes of a panel take 16 KiB, so they stay in the L1 cache while the kernel
// multiplies them with all tokens.
const panelGroups = 32

// panel holds decoded groups of a tile. Its layout is the same for all formats;
// GEMM kernels read it.
type panel struct {
	codes   []uint8   // [groups][planes][TileRows][laneBytes]
	scales  []float32 // [groups][TileRows]
	mins    []float32 // [groups][TileRows]
	factors []float32 // [groups][halves][TileRows], for formats with half groups; see pairFactorsAVX2

	tokens       int       // batch size of the matmul; input of decode
	split        bool      // input of decode of a splittingPath: see kernelArgs
	centred      bool      // the codes are signed: decode subtracted the zero point
	low          lowArgs   // of a kernel of the low-bit formats; a local variable would escape to the heap
	centredTable [16]uint8 // decoding table less the zero point, for 4-bit formats
}

// reset prepares the panel for a batch.
func (p *panel) reset(tokens int) {
	p.tokens, p.centred, p.split = tokens, false, false
}

// usePanel sets the arguments that describe the codes and scales of a panel.
func (a *kernelArgs) usePanel(p *panel) {
	a.codes, a.scales, a.split, a.centred = &p.codes[0], &p.scales[0], p.split, p.centred
}

func newPanel() panel {
	return panel{
		codes:   make([]uint8, panelGroups*planes*planeBytes),
		scales:  make([]float32, panelGroups*TileRows),
		mins:    make([]float32, panelGroups*TileRows),
		factors: make([]float32, panelGroups*2*TileRows),
	}
}

// decode decodes a tile block into the panel, from group at of the panel on.
func (p *panel) decode(f *format, block []byte, at int) {
	if f.low != nil {
		p.decodeLow(f, block, at, signedZeros)
		return
	}
	groups := block[f.headBytes():]
	size := f.groupBytes()
	for g := range len(groups) / size {
		decodeCodes(f, p.codes[(at+g)*planes*planeBytes:][:planes*planeBytes], groups[g*size:][:size])
	}
	p.decodeScales(f, block, at)
}

// decodeCodes unpacks one group's codes to one byte each. It does not subtract
// the zero point.
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

// decodeScales computes the scale, and the min or factors if the format has them,
// of every row and group of a tile block.
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
				mins[g*TileRows+row] = -offset // Q4_1 and Q5_1 add the offset
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

// base returns the scale of a row's whole block.
func (f *format) base(r *rowBlock) float32 {
	if !f.exponent {
		return quant.F16ToF32(r.half[0])
	}
	// MXFP4: 2^(exponent-128), half the format's scale, because the table holds
	// doubled values.
	if r.exponent < 2 { // subnormal in float32
		return math.Float32frombits(0x00200000 << r.exponent)
	}
	return math.Float32frombits((uint32(r.exponent) - 1) << 23)
}
