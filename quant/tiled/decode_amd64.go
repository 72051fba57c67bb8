//go:build !noasm

package tiled

import "github.com/llmrun/llmrun/quant"

// decoders are the assembly functions with which a path fills a panel.
type decoders struct {
	// codesN unpack N-bit codes of groups that are stride bytes apart to one byte
	// each, dst [groups][planes][TileRows][laneBytes].
	codes4 func(dst *uint8, src *byte, stride, groups int, table *[16]uint8)
	codes5 func(dst *uint8, src *byte, stride, groups int)
	codes6 func(dst *uint8, src *byte, stride, groups int)
	codes8 func(dst *uint8, src *byte, stride, groups int)

	// f16 and exponents convert the scales of n tile blocks that are stride bytes
	// apart, dst [n][TileRows]. f16 XORs flip with the bits of the results.
	f16       func(dst *float32, src *byte, stride, n int, flip uint32)
	exponents func(dst *float32, src *byte, stride, n int)
	// zeros computes mins = zero point · scale for n tile blocks that are stride
	// bytes apart, mins and scales [n][TileRows].
	zeros func(mins, scales *float32, src *byte, stride, n int)

	// These decode the scales of all eight groups of one tile block.
	pairs func(scales, mins *float32, block *byte)
	bytes func(scales, factors *float32, block *byte)
	six   func(scales *float32, block *byte)

	// low are the kernels of low-bit formats.
	low map[quant.Type]lowKernel
}

// decode decodes n tile blocks into the panel.
func (d *decoders) decode(p *panel, f *format, blocks []byte, n int) {
	if f.low != nil {
		p.decodeLowBlocks(f, blocks, n, d.lowKernel(f.low.typ), signedZeros)
		return
	}
	size := len(blocks) / n
	if f.scales == oneScale {
		d.decodeCodes(f, &p.codes[0], &blocks[f.headBytes()], size, n)
		d.decodeHalves(p, f, blocks, n)
		return
	}
	groups := f.groups(size)
	for b := range n {
		block, at := blocks[b*size:][:size], b*groups
		d.decodeCodes(f, &p.codes[at*planes*planeBytes], &block[f.headBytes()], f.groupBytes(), groups)
		switch f.scales {
		case pairs6:
			d.pairs(&p.scales[at*TileRows], &p.mins[at*TileRows], &block[0])
		case bytes16:
			d.bytes(&p.scales[at*TileRows], &p.factors[2*at*TileRows], &block[0])
		case six8:
			d.six(&p.scales[at*TileRows], &block[0])
		}
	}
}

// decodeCodes decodes the codes of n groups that are stride bytes apart.
func (d *decoders) decodeCodes(f *format, dst *uint8, src *byte, stride, n int) {
	switch f.bits {
	case 4:
		d.codes4(dst, src, stride, n, f.table)
	case 5:
		d.codes5(dst, src, stride, n)
	case 6:
		d.codes6(dst, src, stride, n)
	case 8:
		d.codes8(dst, src, stride, n)
	}
}

// decodeHalves decodes the scales and mins of n blocks with one group each.
func (d *decoders) decodeHalves(p *panel, f *format, blocks []byte, n int) {
	size := len(blocks) / n
	if f.exponent {
		d.exponents(&p.scales[0], &blocks[0], size, n)
		return
	}
	d.f16(&p.scales[0], &blocks[0], size, n, 0)
	if f.zeros {
		d.zeros(&p.mins[0], &p.scales[0], &blocks[2*TileRows], size, n)
	} else if f.hasMin() { // Q4_1 and Q5_1 add the offset
		d.f16(&p.mins[0], &blocks[2*TileRows], size, n, signMask)
	}
}
