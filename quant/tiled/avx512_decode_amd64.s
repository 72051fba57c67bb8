//go:build !noasm

#include "textflag.h"
#include "avx512_amd64.h"

// Decoders of a panel. Codes: groups of them, stride bytes apart, become one
// byte each, [groups][planes][TileRows][laneBytes].

#define CODE_ARGS \
	MOVQ dst+0(FP), DI    \
	MOVQ src+8(FP), SI    \
	MOVQ stride+16(FP), DX \
	MOVQ groups+24(FP), CX

// func decode4AVX512(dst *uint8, src *byte, stride, groups int, table *[16]uint8)
TEXT ·decode4AVX512(SB), NOSPLIT, $0-40
	CODE_ARGS
	MOVQ            table+32(FP), AX
	VBROADCASTI32X4 (AX), Z29
	CONSTANTS

loop:
	UNPACK((SI), Z0, Z4)
	UNPACK(64(SI), Z1, Z5)
	UNPACK(128(SI), Z2, Z6)
	UNPACK(192(SI), Z3, Z7)
	LOOKUP(Z0, Z4)
	LOOKUP(Z1, Z5)
	LOOKUP(Z2, Z6)
	LOOKUP(Z3, Z7)
	VMOVDQU32 Z0, (DI)
	VMOVDQU32 Z1, 64(DI)
	VMOVDQU32 Z2, 128(DI)
	VMOVDQU32 Z3, 192(DI)
	VMOVDQU32 Z4, 256(DI)
	VMOVDQU32 Z5, 320(DI)
	VMOVDQU32 Z6, 384(DI)
	VMOVDQU32 Z7, 448(DI)
	ADDQ      DX, SI
	ADDQ      $512, DI
	DECQ      CX
	JNZ       loop
	VZEROUPPER
	RET

// func decode5AVX512(dst *uint8, src *byte, stride, groups int)
TEXT ·decode5AVX512(SB), NOSPLIT, $0-32
	CODE_ARGS
	CONSTANTS
	VPBROADCASTD ·fifthBit(SB), Z27

loop:
	UNPACK(64(SI), Z0, Z4)
	UNPACK(128(SI), Z1, Z5)
	UNPACK(192(SI), Z2, Z6)
	UNPACK(256(SI), Z3, Z7)
	FIFTH((SI), Z0)
	FIFTH(8(SI), Z1)
	FIFTH(16(SI), Z2)
	FIFTH(24(SI), Z3)
	FIFTH(32(SI), Z4)
	FIFTH(40(SI), Z5)
	FIFTH(48(SI), Z6)
	FIFTH(56(SI), Z7)
	VMOVDQU32 Z0, (DI)
	VMOVDQU32 Z1, 64(DI)
	VMOVDQU32 Z2, 128(DI)
	VMOVDQU32 Z3, 192(DI)
	VMOVDQU32 Z4, 256(DI)
	VMOVDQU32 Z5, 320(DI)
	VMOVDQU32 Z6, 384(DI)
	VMOVDQU32 Z7, 448(DI)
	ADDQ      DX, SI
	ADDQ      $512, DI
	DECQ      CX
	JNZ       loop
	VZEROUPPER
	RET

// func decode6AVX512(dst *uint8, src *byte, stride, groups int)
TEXT ·decode6AVX512(SB), NOSPLIT, $0-32
	CODE_ARGS
	CONSTANTS
	VPBROADCASTD ·sixMask(SB), Z27

loop:
	VMOVDQU32 (SI), Z10
	VMOVDQU32 64(SI), Z14
	HIGH6(Z10, Z8, Z9, Z11)
	HIGH6(Z14, Z12, Z13, Z15)
	UNPACK6(128(SI), Z0, Z4, Z8, Z12)
	UNPACK6(192(SI), Z1, Z5, Z9, Z13)
	UNPACK6(256(SI), Z2, Z6, Z10, Z14)
	UNPACK6(320(SI), Z3, Z7, Z11, Z15)
	VMOVDQU32 Z0, (DI)
	VMOVDQU32 Z1, 64(DI)
	VMOVDQU32 Z2, 128(DI)
	VMOVDQU32 Z3, 192(DI)
	VMOVDQU32 Z4, 256(DI)
	VMOVDQU32 Z5, 320(DI)
	VMOVDQU32 Z6, 384(DI)
	VMOVDQU32 Z7, 448(DI)
	ADDQ      DX, SI
	ADDQ      $512, DI
	DECQ      CX
	JNZ       loop
	VZEROUPPER
	RET

// func decode8AVX512(dst *uint8, src *byte, stride, groups int)
TEXT ·decode8AVX512(SB), NOSPLIT, $0-32
	CODE_ARGS

loop:
	VMOVDQU32 (SI), Z0
	VMOVDQU32 64(SI), Z1
	VMOVDQU32 128(SI), Z2
	VMOVDQU32 192(SI), Z3
	VMOVDQU32 256(SI), Z4
	VMOVDQU32 320(SI), Z5
	VMOVDQU32 384(SI), Z6
	VMOVDQU32 448(SI), Z7
	VMOVDQU32 Z0, (DI)
	VMOVDQU32 Z1, 64(DI)
	VMOVDQU32 Z2, 128(DI)
	VMOVDQU32 Z3, 192(DI)
	VMOVDQU32 Z4, 256(DI)
	VMOVDQU32 Z5, 320(DI)
	VMOVDQU32 Z6, 384(DI)
	VMOVDQU32 Z7, 448(DI)
	ADDQ      DX, SI
	ADDQ      $512, DI
	DECQ      CX
	JNZ       loop
	VZEROUPPER
	RET

// Scales: one for each row of a group, of n blocks that are stride bytes apart
// or of the groups of one block.

// func scalesF16AVX512(dst *float32, src *byte, stride, n int, flip uint32)
// flip is XORed to the results: the sign bit, or 0.
TEXT ·scalesF16AVX512(SB), NOSPLIT, $0-36
	MOVQ         dst+0(FP), DI
	MOVQ         src+8(FP), SI
	MOVQ         stride+16(FP), DX
	MOVQ         n+24(FP), CX
	MOVL         flip+32(FP), AX
	VPBROADCASTD AX, Z1

loop:
	VCVTPH2PS (SI), Z0
	VPXORD    Z1, Z0, Z0
	VMOVUPS   Z0, (DI)
	ADDQ      DX, SI
	ADDQ      $64, DI
	DECQ      CX
	JNZ       loop
	VZEROUPPER
	RET

// func scalesExponentAVX512(dst *float32, src *byte, stride, n int)
TEXT ·scalesExponentAVX512(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ stride+16(FP), DX
	MOVQ n+24(FP), CX

loop:
	EXPONENT((SI), Z0, Z1)
	VMOVUPS Z0, (DI)
	ADDQ    DX, SI
	ADDQ    $64, DI
	DECQ    CX
	JNZ     loop
	VZEROUPPER
	RET

// func scalesZeroAVX512(mins, scales *float32, src *byte, stride, n int)
TEXT ·scalesZeroAVX512(SB), NOSPLIT, $0-40
	MOVQ mins+0(FP), DI
	MOVQ scales+8(FP), R8
	MOVQ src+16(FP), SI
	MOVQ stride+24(FP), DX
	MOVQ n+32(FP), CX

loop:
	VPMOVZXBD (SI), Z0
	VCVTDQ2PS Z0, Z0
	VMULPS    (R8), Z0, Z0
	VMOVUPS   Z0, (DI)
	ADDQ      DX, SI
	ADDQ      $64, R8
	ADDQ      $64, DI
	DECQ      CX
	JNZ       loop
	VZEROUPPER
	RET

// func scalesPairsAVX512(scales, mins *float32, block *byte)
TEXT ·scalesPairsAVX512(SB), NOSPLIT, $256-24
	MOVQ         scales+0(FP), DI
	MOVQ         mins+8(FP), DX
	MOVQ         block+16(FP), SI
	LEAQ         bytes-256(SP), R12
	CONSTANTS
	VPBROADCASTD ·highMask(SB), Z28
	PAIRS(SI, R12)
	VCVTPH2PS    (SI), Z1
	VCVTPH2PS    32(SI), Z2
	MOVQ         $8, CX

loop:
	VPMOVZXBD (R12), Z3
	VPMOVZXBD 128(R12), Z4
	VCVTDQ2PS Z3, Z3
	VCVTDQ2PS Z4, Z4
	VMULPS    Z1, Z3, Z3
	VMULPS    Z2, Z4, Z4
	VMOVUPS   Z3, (DI)
	VMOVUPS   Z4, (DX)
	ADDQ      $16, R12
	ADDQ      $64, DI
	ADDQ      $64, DX
	DECQ      CX
	JNZ       loop
	VZEROUPPER
	RET

// func scalesBytesAVX512(scales, factors *float32, block *byte)
TEXT ·scalesBytesAVX512(SB), NOSPLIT, $0-24
	MOVQ      scales+0(FP), DI
	MOVQ      factors+8(FP), DX
	MOVQ      block+16(FP), SI
	VCVTPH2PS (SI), Z1
	MOVQ      $8, CX

loop:
	VPMOVSXBD 32(SI), Z3
	VPMOVSXBD 48(SI), Z4
	VCVTDQ2PS Z3, Z3
	VCVTDQ2PS Z4, Z4
	VMOVUPS   Z1, (DI)
	VMOVUPS   Z3, (DX)
	VMOVUPS   Z4, 64(DX)
	ADDQ      $32, SI
	ADDQ      $64, DI
	ADDQ      $128, DX
	DECQ      CX
	JNZ       loop
	VZEROUPPER
	RET

// func scalesSixAVX512(scales *float32, block *byte)
TEXT ·scalesSixAVX512(SB), NOSPLIT, $128-16
	MOVQ         scales+0(FP), DI
	MOVQ         block+8(FP), SI
	LEAQ         bytes-128(SP), R12
	CONSTANTS
	VPBROADCASTD ·highMask(SB), Z28
	SIX(SI, R12)
	VCVTPH2PS    (SI), Z1
	MOVQ         $8, CX

loop:
	SIX_SCALE(R12, Z1, Z3)
	VMOVUPS Z3, (DI)
	ADDQ    $64, DI
	DECQ    CX
	JNZ     loop
	VZEROUPPER
	RET
