//go:build !noasm

// Hand-written: AVX2 unpacks 6-bit scales for 8 rows of one group at a time, AVX-512
// for all groups of a block at once.

#include "textflag.h"
#include "avx2_scales_amd64.h"

// Kernels that decode the scales, mins and factors of 16 rows to float32. A vector
// holds 8 rows. They write [n][16] floats for n tile blocks that are stride bytes
// apart, or [8][16] for the groups of one tile block; factors are [8][2][16].
//
//	DI, DX outputs (DX is stride in kernels for n blocks)   SI source   CX left

#define BLOCK_ARGS \
	MOVQ dst+0(FP), DI     \
	MOVQ src+8(FP), SI     \
	MOVQ stride+16(FP), DX \
	MOVQ n+24(FP), CX

// func scalesF16AVX2(dst *float32, src *byte, stride, n int, flip uint32)
// It converts binary16 numbers and XORs the bits of the results with flip.
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

// EXPONENT computes 2^(e-128) for eight exponents e. For e below 2 the result is
// subnormal: bit 21 of the fraction, shifted left by e.
#define EXPONENT(mem, scale) \
	VPMOVZXBD mem, scale            \
	VPSLLVD   scale, Y15, Y2        \
	VPCMPGTD  scale, Y14, Y3        \
	VPSUBD    Y13, scale, scale     \
	VPSLLD    $23, scale, scale     \
	VPBLENDVB Y3, Y2, scale, scale

// func scalesExponentAVX2(dst *float32, src *byte, stride, n int)
// It converts the exponents of MXFP4 to 2^(e-128).
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

// func scalesZeroAVX2(mins, scales *float32, src *byte, stride, n int)
// It computes mins = zero point · scale for I4Z, from the zero points at src.
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

// func scalesPairsAVX2(scales, mins *float32, block *byte)
// It decodes the head of a Q4_K or Q5_K tile block: 8 scales and mins of 6 bits times
// the block's binary16 scale and min.
TEXT ·scalesPairsAVX2(SB), NOSPLIT, $0-24
	MOVQ         scales+0(FP), DI
	MOVQ         mins+8(FP), DX
	MOVQ         block+16(FP), SI
	PAIRS_LOAD
	MOVQ         $4, CX

loop:
	PAIR_ROWS(0, 0, Y4, Y5, DI, DX)
	PAIR_ROWS(8, 32, Y7, Y8, DI, DX)
	ADDQ $16, SI
	ADDQ $64, DI
	ADDQ $64, DX
	DECQ CX
	JNZ  loop
	VZEROUPPER
	RET

// FACTOR converts eight signed bytes to float32.
#define FACTOR(bytes, mem) \
	VPMOVSXBD bytes, Y0 \
	VCVTDQ2PS Y0, Y0    \
	VMOVUPS   Y0, mem

// func scalesBytesAVX2(scales, factors *float32, block *byte)
// It decodes the head of a Q6_K tile block: the binary16 scale, repeated for each
// group, and the int8 factors of the half groups.
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

// func scalesSixAVX2(scales *float32, block *byte)
// It decodes the head of an IQ4_XS tile block: 8 scales of 6 bits, less 32, times the
// block's binary16 scale.
TEXT ·scalesSixAVX2(SB), NOSPLIT, $0-16
	MOVQ         scales+0(FP), DI
	MOVQ         block+8(FP), SI
	SIX_GROUPS(DI)
	VZEROUPPER
	RET
