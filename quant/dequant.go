package quant

import (
	"encoding/binary"
	"fmt"
	"math"
)

// DequantRow writes the float32 values of a row (or any whole number of
// blocks) of format t into dst. src must hold RowBytes(len(dst)) bytes.
//
// The values are exactly those of the reference implementation: scales are
// multiplied before quants, each operation rounded to float32. For most
// formats the products are exact anyway, having fewer than 24 significant bits.
func DequantRow(t Type, dst []float32 /* [cols] */, src []byte) {
	size, err := t.RowBytes(len(dst))
	if err != nil {
		panic(err) // store checks shapes on load, so this is a caller's mistake
	}
	if len(src) < size {
		panic(fmt.Sprintf("quant: %d bytes are too few for a row of %d %s elements", len(src), len(dst), t))
	}
	active.dequant(t, dst, src[:size])
}

// dequantPortable is the reference decoder of every format. src holds exactly
// the blocks of dst.
func dequantPortable(t Type, dst []float32, src []byte) {
	switch t {
	case F32:
		dequantF32(dst, src)
	case F16:
		dequantF16(dst, src)
	case BF16:
		dequantBF16(dst, src)
	default:
		elems, size := types[t].blockElems, types[t].blockBytes
		decode := blockDecoders[t]
		for len(dst) >= elems {
			decode(dst[:elems], src[:size])
			dst, src = dst[elems:], src[size:]
		}
	}
}

// blockDecoders decode one block each: dst has the block's elements and src
// its bytes.
var blockDecoders = [numTypes]func(dst []float32, src []byte){
	Q4_0:    blockQ4_0,
	Q4_1:    blockQ4_1,
	Q5_0:    blockQ5_0,
	Q5_1:    blockQ5_1,
	Q8_0:    blockQ8_0,
	Q2_K:    blockQ2_K,
	Q3_K:    blockQ3_K,
	Q4_K:    blockQ4_K,
	Q5_K:    blockQ5_K,
	Q6_K:    blockQ6_K,
	IQ4_NL:  blockIQ4_NL,
	IQ4_XS:  blockIQ4_XS,
	MXFP4:   blockMXFP4,
	I4Z:     blockI4Z,
	NF4:     blockNF4,
	IQ1_S:   blockIQ1S,
	IQ1_M:   blockIQ1M,
	IQ2_XXS: blockIQ2XXS,
	IQ2_XS:  blockIQ2XS,
	IQ2_S:   blockIQ2S,
	IQ3_XXS: blockIQ3XXS,
	IQ3_S:   blockIQ3S,
	TQ1_0:   blockTQ1_0,
	TQ2_0:   blockTQ2_0,
	Q1_0:    blockQ1_0,
	Q2_0:    blockQ2_0,
	NVFP4:   blockNVFP4,
}

// f16At returns the little-endian binary16 value at the start of src.
func f16At(src []byte) float32 { return F16ToF32(binary.LittleEndian.Uint16(src)) }

func dequantF32(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
	}
}

func dequantF16(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = f16At(src[2*i:])
	}
}

// dequantBF16 reads four values with one load, which is what makes the
// portable decode of a bf16 model fast enough.
func dequantBF16(dst []float32, src []byte) {
	for len(dst) >= 4 && len(src) >= 8 {
		four := binary.LittleEndian.Uint64(src)
		dst[0] = math.Float32frombits(uint32(four) << 16)
		dst[1] = math.Float32frombits(uint32(four) & 0xffff0000)
		dst[2] = math.Float32frombits(uint32(four>>32) << 16)
		dst[3] = math.Float32frombits(uint32(four>>32) & 0xffff0000)
		dst, src = dst[4:], src[8:]
	}
	for i := range dst {
		dst[i] = BF16ToF32(binary.LittleEndian.Uint16(src[2*i:]))
	}
}
