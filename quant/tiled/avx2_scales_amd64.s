//go:build !noasm

// Hand-written: AVX2 unpacks scales a row at a time, AVX-512 all at once.

#include "textflag.h"

// Decoders of a panel's scales, half a tile's rows in a vector.

#define BLOCK_ARGS \
	MOVQ dst+0(FP), DI     \
	MOVQ src+8(FP), SI     \
	MOVQ stride+16(FP), DX \
	MOVQ n+24(FP), CX

// func scalesF16AVX2(dst *float32, src *byte, stride, n int, flip uint32)
TEXT ·scalesF16AVX2(SB), NOSPLIT, $0-36
	BLOCK_ARGS
	MOVL         flip+32(FP), AX
	VMOVD        AX, X2
	VPBROADCASTD X2, Y2

loop:
	VCVTPH2PS (SI), Y0
	VCVTPH2PS 16(SI), Y1
	VPXOR     Y2, Y0, Y0
	VPXOR     Y2, Y1, Y1
	VMOVUPS   Y0, (DI)
	VMOVUPS   Y1, 32(DI)
	ADDQ      DX, SI
	ADDQ      $64, DI
	DECQ      CX
	JNZ       loop
	VZEROUPPER
	RET

// EXPONENT makes half of 2^(e-127) of eight exponents e. Those below 2 are
// powers below the normal range: a bit of the fraction, moved e places.
#define EXPONENT(mem, scale) \
	VPMOVZXBD mem, scale            \
	VPSLLVD   scale, Y15, Y2        \
	VPCMPGTD  scale, Y14, Y3        \
	VPSUBD    Y13, scale, scale     \
	VPSLLD    $23, scale, scale     \
	VPBLENDVB Y3, Y2, scale, scale

// func scalesExponentAVX2(dst *float32, src *byte, stride, n int)
TEXT ·scalesExponentAVX2(SB), NOSPLIT, $0-32
	BLOCK_ARGS
	VPBROADCASTD ·subnormalHalf(SB), Y15
	VPBROADCASTD ·two(SB), Y14
	VPBROADCASTD ·one(SB), Y13

loop:
	EXPONENT((SI), Y0)
	EXPONENT(8(SI), Y1)
	VMOVUPS Y0, (DI)
	VMOVUPS Y1, 32(DI)
	ADDQ    DX, SI
	ADDQ    $64, DI
	DECQ    CX
	JNZ     loop
	VZEROUPPER
	RET

// TIMES stores the integers of a vector times a block's scale.
#define TIMES(values, scale, mem) \
	VCVTDQ2PS values, values        \
	VMULPS    scale, values, values \
	VMOVUPS   values, mem

// func scalesZeroAVX2(mins, scales *float32, src *byte, stride, n int)
TEXT ·scalesZeroAVX2(SB), NOSPLIT, $0-40
	MOVQ mins+0(FP), DI
	MOVQ scales+8(FP), R8
	MOVQ src+16(FP), SI
	MOVQ stride+24(FP), DX
	MOVQ n+32(FP), CX

loop:
	VPMOVZXBD (SI), Y0
	VPMOVZXBD 8(SI), Y1
	TIMES(Y0, (R8), (DI))
	TIMES(Y1, 32(R8), 32(DI))
	ADDQ      DX, SI
	ADDQ      $64, R8
	ADDQ      $64, DI
	DECQ      CX
	JNZ       loop
	VZEROUPPER
	RET

// PAIR decodes scale and min of one group: the low nibbles of both are at low,
// their high bits in Y2 and Y3 at bits 4 and 5.
#define PAIR(low, scale, min, scales, mins) \
	VPMOVZXBD low, Y1         \
	VPAND     Y14, Y2, Y2     \
	VPAND     Y14, Y3, Y3     \
	VPAND     Y15, Y1, Y0     \
	VPSRLD    $4, Y1, Y1      \
	VPOR      Y2, Y0, Y0      \
	VPOR      Y3, Y1, Y1      \
	TIMES(Y0, scale, scales)  \
	TIMES(Y1, min, mins)

// PAIR_ROWS does so for half a tile's rows and two groups, four apart, that
// share a row of high bits.
#define PAIR_ROWS(byte, float, scale, min) \
	VPMOVZXBD byte+192(SI), Y6                                          \
	VPSLLD    $4, Y6, Y2                                                \
	VPSLLD    $2, Y6, Y3                                                \
	PAIR(byte+64(SI), scale, min, float(DI), float(DX))                 \
	VMOVDQA   Y6, Y2                                                    \
	VPSRLD    $2, Y6, Y3                                                \
	PAIR(byte+128(SI), scale, min, float+256(DI), float+256(DX))

// func scalesPairsAVX2(scales, mins *float32, block *byte)
TEXT ·scalesPairsAVX2(SB), NOSPLIT, $0-24
	MOVQ         scales+0(FP), DI
	MOVQ         mins+8(FP), DX
	MOVQ         block+16(FP), SI
	VPBROADCASTD ·dwordNibble(SB), Y15
	VPBROADCASTD ·dwordHigh(SB), Y14
	VCVTPH2PS    (SI), Y4
	VCVTPH2PS    32(SI), Y5
	VCVTPH2PS    16(SI), Y7
	VCVTPH2PS    48(SI), Y8
	MOVQ         $4, CX

loop:
	PAIR_ROWS(0, 0, Y4, Y5)
	PAIR_ROWS(8, 32, Y7, Y8)
	ADDQ $16, SI
	ADDQ $64, DI
	ADDQ $64, DX
	DECQ CX
	JNZ  loop
	VZEROUPPER
	RET

// FACTOR stores eight signed bytes as floats.
#define FACTOR(bytes, mem) \
	VPMOVSXBD bytes, Y0 \
	VCVTDQ2PS Y0, Y0    \
	VMOVUPS   Y0, mem

// func scalesBytesAVX2(scales, factors *float32, block *byte)
TEXT ·scalesBytesAVX2(SB), NOSPLIT, $0-24
	MOVQ      scales+0(FP), DI
	MOVQ      factors+8(FP), DX
	MOVQ      block+16(FP), SI
	VCVTPH2PS (SI), Y4
	VCVTPH2PS 16(SI), Y5
	MOVQ      $8, CX

loop:
	VMOVUPS Y4, (DI)
	VMOVUPS Y5, 32(DI)
	FACTOR(32(SI), (DX))
	FACTOR(40(SI), 32(DX))
	FACTOR(48(SI), 64(DX))
	FACTOR(56(SI), 96(DX))
	ADDQ $32, SI
	ADDQ $64, DI
	ADDQ $128, DX
	DECQ CX
	JNZ  loop
	VZEROUPPER
	RET

// SIX decodes the scale of one group of half a tile's rows: a nibble of low and
// two bits of high, less 32.
#define SIX(low, nibble, high, field, scale, mem) \
	VPMOVZXBD low, Y0         \
	VPSRLD    $(4*nibble), Y0, Y0 \
	VPAND     Y15, Y0, Y0     \
	VPMOVZXBD high, Y1        \
	VPSRLD    $(2*field), Y1, Y1  \
	VPSLLD    $4, Y1, Y1      \
	VPAND     Y14, Y1, Y1     \
	VPOR      Y1, Y0, Y0      \
	VPSUBD    Y13, Y0, Y0     \
	TIMES(Y0, scale, mem)

#define SIX_ROWS(low, nibble, high, field, group) \
	SIX(low(SI), nibble, high(SI), field, Y4, 64*(group)(DI))         \
	SIX(low+8(SI), nibble, high+8(SI), field, Y5, 64*(group)+32(DI))

// func scalesSixAVX2(scales *float32, block *byte)
TEXT ·scalesSixAVX2(SB), NOSPLIT, $0-16
	MOVQ         scales+0(FP), DI
	MOVQ         block+8(FP), SI
	VPBROADCASTD ·dwordNibble(SB), Y15
	VPBROADCASTD ·dwordHigh(SB), Y14
	VPBROADCASTD ·thirtyTwo(SB), Y13
	VCVTPH2PS    (SI), Y4
	VCVTPH2PS    16(SI), Y5
	SIX_ROWS(32, 0, 96, 0, 0)
	SIX_ROWS(48, 0, 112, 0, 1)
	SIX_ROWS(64, 0, 96, 1, 2)
	SIX_ROWS(80, 0, 112, 1, 3)
	SIX_ROWS(32, 1, 96, 2, 4)
	SIX_ROWS(48, 1, 112, 2, 5)
	SIX_ROWS(64, 1, 96, 3, 6)
	SIX_ROWS(80, 1, 112, 3, 7)
	VZEROUPPER
	RET
