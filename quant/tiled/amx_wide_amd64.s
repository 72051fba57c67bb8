//go:build !noasm

// Hand-written: no other file converts codes to bfloat16.

#include "textflag.h"

// Conversion of the operands of TDPBF16PS to bfloat16, the upper half of a float32.
// 32-bit lane i of an operand holds elements i and 16+i of a group.
//
//	SI source   DI destination   CX groups left   Z31 mask of the upper halves

// JOIN combines the upper halves of two float32 vectors: low moves to the lower halves
// of the lanes of high.
#define JOIN(high, low) \
	VPSRLD     $16, low, low         \
	VPTERNLOGD $0xF8, Z31, high, low

// func widenAVX512(dst *uint16, src *int8, n int)
// It converts n groups of 32 int8 activations to bfloat16, dst [n][16][2].
TEXT ·widenAVX512(SB), NOSPLIT, $0-24
	MOVQ         dst+0(FP), DI
	MOVQ         src+8(FP), SI
	MOVQ         n+16(FP), CX
	VPBROADCASTD ·upperHalf(SB), Z31

loop:
	VPMOVSXBD (SI), Z0
	VPMOVSXBD 16(SI), Z1
	VCVTDQ2PS Z0, Z0
	VCVTDQ2PS Z1, Z1
	JOIN(Z1, Z0)
	VMOVDQU32 Z0, (DI)
	ADDQ      $32, SI
	ADDQ      $64, DI
	DECQ      CX
	JNZ       loop
	VZEROUPPER
	RET

// TIMES computes code·factor - less in float32 for the codes in the lowest bytes of
// lanes, where less is factor·zero.
#define TIMES(codes, factors, less) \
	VPANDD      Z30, codes, codes    \
	VCVTDQ2PS   codes, codes         \
	VFMSUB213PS less, factors, codes

// WIDE converts 16 codes of each half of a group, in the lowest bytes of a and b. It
// truncates every product to bfloat16 and stores these high parts at at(DI). It stores
// the remainders 1024 bytes further. A product has 13 bits, so the remainder fits
// bfloat16 exactly.
#define WIDE(a, b, at) \
	TIMES(a, Z26, Z27)       \
	TIMES(b, Z28, Z29)       \
	VPANDD    Z31, a, Z16    \
	VPANDD    Z31, b, Z17    \
	VSUBPS    Z16, a, a      \
	VSUBPS    Z17, b, b      \
	JOIN(Z17, Z16)           \
	JOIN(b, a)               \
	VMOVDQU32 Z16, at(DI)    \
	VMOVDQU32 a, at+1024(DI)

// WIDE4 applies WIDE to all four bytes of the lanes of a and b.
#define WIDE4(a, b, at) \
	VPSRLD $8, a, Z18          \
	VPSRLD $8, b, Z19          \
	VPSRLD $16, a, Z20         \
	VPSRLD $16, b, Z21         \
	VPSRLD $24, a, Z22         \
	VPSRLD $24, b, Z23         \
	WIDE(a, b, at)             \
	WIDE(Z18, Z19, at+64)      \
	WIDE(Z20, Z21, at+128)     \
	WIDE(Z22, Z23, at+192)

// func wideCodesAVX512(codes *uint8, factors *float32, groups int)
// It replaces codes [groups][8][64] by (code-32)·factor as bfloat16 pairs,
// [groups][2][16][16][2]. factors is [groups][2][16]. The output of a group takes four
// times the memory of its codes, so the kernel starts with the last group and does not
// overwrite codes that it has yet to read.
//
//	DX factors   Z25 32.0   Z26, Z28 factors of the halves   Z27, Z29 32·factor
//	Z30 byte mask
TEXT ·wideCodesAVX512(SB), NOSPLIT, $0-24
	MOVQ         codes+0(FP), SI
	MOVQ         factors+8(FP), DX
	MOVQ         groups+16(FP), CX
	VPBROADCASTD ·upperHalf(SB), Z31
	VPBROADCASTD ·lowByte(SB), Z30
	VPBROADCASTD ·halfZeroFloat(SB), Z25
	MOVQ         CX, AX
	SHLQ         $7, AX
	ADDQ         AX, DX
	LEAQ         (SI)(AX*8), DI
	LEAQ         (DI)(AX*8), DI
	LEAQ         (SI)(AX*4), SI

group:
	SUBQ      $512, SI
	SUBQ      $2048, DI
	SUBQ      $128, DX
	VMOVDQU32 (SI), Z0
	VMOVDQU32 64(SI), Z1
	VMOVDQU32 128(SI), Z2
	VMOVDQU32 192(SI), Z3
	VMOVDQU32 256(SI), Z4
	VMOVDQU32 320(SI), Z5
	VMOVDQU32 384(SI), Z6
	VMOVDQU32 448(SI), Z7
	VMOVUPS   (DX), Z26
	VMOVUPS   64(DX), Z28
	VMULPS    Z25, Z26, Z27
	VMULPS    Z25, Z28, Z29
	WIDE4(Z0, Z4, 0)
	WIDE4(Z1, Z5, 256)
	WIDE4(Z2, Z6, 512)
	WIDE4(Z3, Z7, 768)
	DECQ      CX
	JNZ       group
	VZEROUPPER
	RET
