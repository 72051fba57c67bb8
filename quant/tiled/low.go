package tiled

import (
	"encoding/binary"

	"github.com/llmrun/llmrun/quant"
)

// lowFormat describes the tile layout of a format of 1 to 4 bits whose blocks are code book indices,
// signs, or packed codes. A tile block stores the bytes of a block unchanged, in the file's order, in
// sections of words: the same word of TileRows rows is adjacent.
//
//	sections for each word of each section: [TileRows][width] bytes
//
// Kernels decode groups to signed codes and float32 scales (see panel) and then multiply them as other
// formats' codes. A scale is base·(2s+1), which has at most 16 significant bits. In formats with
// halves, the two halves of a group have factors instead, which are added to the sum as
//
//	i = Σ factor·Σ code·q  over the halves; each product is exact, and the sum rounds once
//
// Factors are 2s+1, or in NVFP4 8-bit floats. A product of a half's sum with a factor has at most 19
// significant bits, so no order of operations changes the result.
type lowFormat struct {
	typ      quant.Type
	groups   int  // per block
	halves   bool // each half of a group has a factor
	halfAt   int  // position of the binary16 scale in a block; noHalf or spreadHalf
	sections []section
}

// signedZeros is the zero point 128 of four codes.
const signedZeros = 0x80808080

// section is consecutive words of a block.
type section struct{ width, count int }

const (
	noHalf     = -1
	spreadHalf = -2 // the upper nibbles of the last four words of 16 bits (IQ1_M)
)

// lowBitFormat returns the format of a low-bit type.
func lowBitFormat(t quant.Type, halves bool, halfAt int, sections ...section) *format {
	return &format{bits: 8, zero: signedZero, low: &lowFormat{
		typ: t, groups: t.BlockElems() / GroupElems, halves: halves, halfAt: halfAt, sections: sections,
	}}
}

// store writes one row's block to a tile block.
func (l *lowFormat) store(tile []byte, row int, src []byte) {
	for _, s := range l.sections {
		for range s.count {
			to := tile[row*s.width:][:s.width]
			switch s.width { // copy would call memmove for a few bytes
			case 4:
				binary.LittleEndian.PutUint32(to, binary.LittleEndian.Uint32(src))
			case 2:
				to[0], to[1] = src[0], src[1]
			default:
				to[0] = src[0]
			}
			src, tile = src[s.width:], tile[TileRows*s.width:]
		}
	}
}

// load is the inverse of store.
func (l *lowFormat) load(dst []byte, tile []byte, row int) {
	for _, s := range l.sections {
		for range s.count {
			from := tile[row*s.width:][:s.width]
			switch s.width {
			case 4:
				binary.LittleEndian.PutUint32(dst, binary.LittleEndian.Uint32(from))
			case 2:
				dst[0], dst[1] = from[0], from[1]
			default:
				dst[0] = from[0]
			}
			dst, tile = dst[s.width:], tile[TileRows*s.width:]
		}
	}
}

// half returns the binary16 scale of a block, 0 if it has none.
func (l *lowFormat) half(block []byte) (half uint16) {
	switch l.halfAt {
	case noHalf:
	case spreadHalf:
		for i := range 4 {
			half |= uint16(block[len(block)-7+2*i]>>4) << (4 * i)
		}
	default:
		half = binary.LittleEndian.Uint16(block[l.halfAt:])
	}
	return half
}

// setHalf is the inverse of half.
func (l *lowFormat) setHalf(block []byte, half uint16) {
	switch l.halfAt {
	case noHalf:
	case spreadHalf:
		for i := range 4 {
			b := &block[len(block)-7+2*i]
			*b = *b&15 | byte(half>>(4*i))<<4
		}
	default:
		binary.LittleEndian.PutUint16(block[l.halfAt:], half)
	}
}

// decodeLow decodes a tile block into the panel, from group at of the panel on. It XORs flip with the codes:
// signedZeros turns signed codes into unsigned ones with the zero point 128.
func (p *panel) decodeLow(f *format, block []byte, at int, flip uint32) {
	l := f.low
	size := len(block) / TileRows
	var r lowRow
	for row := range TileRows {
		l.load(r.block[:size], block, row)
		r.decode(l)
		for g := range l.groups {
			codes := p.codes[(at+g)*planes*planeBytes+row*laneBytes:]
			for i := range planes {
				word := binary.LittleEndian.Uint32(r.code[g*GroupElems+i*laneBytes:])
				binary.LittleEndian.PutUint32(codes[i*planeBytes:], word^flip)
			}
			p.scales[(at+g)*TileRows+row] = r.scale[g]
			if l.halves {
				p.factors[2*(at+g)*TileRows+row] = r.factor[2*g]
				p.factors[(2*(at+g)+1)*TileRows+row] = r.factor[2*g+1]
			}
		}
	}
}

// lowArgs are the arguments of a kernel that decodes tile blocks as decodeLow does, to codes with the
// zero point 128.
type lowArgs struct {
	codes   *uint8
	scales  *float32
	factors *float32
	tile    *byte
	book    *byte // code book, see bookOf
	blocks  int
}

// lowKernel is such a kernel, one that multiplies tiles with a token, and their code book.
type lowKernel struct {
	decode func(*lowArgs)
	gemv   func(*smallArgs) // nil: the panel is multiplied
	book   *byte
	vbmi   bool // needs the AVX-512 instructions of that name
}

// decodeLowBlocks decodes n tile blocks with a kernel, or in Go, as decodeLow, if the path has none.
func (p *panel) decodeLowBlocks(f *format, blocks []byte, n int, kernel lowKernel, flip uint32) {
	if kernel.decode != nil {
		p.low = lowArgs{&p.codes[0], &p.scales[0], &p.factors[0], &blocks[0], kernel.book, n}
		kernel.decode(&p.low)
		return
	}
	size := len(blocks) / n
	for b := range n {
		p.decodeLow(f, blocks[b*size:][:size], b*f.low.groups, flip)
	}
}
