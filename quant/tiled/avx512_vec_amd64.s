//go:build !noasm

#include "go_asm.h"
#include "textflag.h"
#include "avx512_amd64.h"

// Vector kernels: a tile of sixteen rows times one token, straight from memory,
// which is what bounds them. Codes never leave the registers.
//
//	DI sums   SI tile   CX blocks
//	R8 x      R9 dx     R10 shift   R11 start
//	Z0 the sums         Z1, Z2 integer sums of a group's halves
//	Z24 scale           Z25 startFloat times it     Z26 min
//
// Formats with a min begin with startBits, the others where the token says.

// How far ahead of their use tiles are asked for. Hardware looks ahead too, but
// not across pages and not from a row's first bytes.
#define AHEAD 2048

#define VEC_ARGS \
	MOVQ a+0(FP), AX             \
	MOVQ vecArgs_sums(AX), DI    \
	MOVQ vecArgs_tile(AX), SI    \
	MOVQ vecArgs_x(AX), R8       \
	MOVQ vecArgs_dx(AX), R9      \
	MOVQ vecArgs_shift(AX), R10  \
	MOVQ vecArgs_start(AX), R11  \
	MOVQ vecArgs_blocks(AX), CX  \
	MOVQ vecArgs_table(AX), AX   \
	VPXORD Z0, Z0, Z0            \
	CONSTANTS

#define VEC_RETURN \
	VMOVUPS Z0, (DI) \
	VZEROUPPER       \
	RET

#define PREFETCH4 \
	PREFETCHT1 AHEAD(SI)     \
	PREFETCHT1 AHEAD+64(SI)  \
	PREFETCHT1 AHEAD+128(SI) \
	PREFETCHT1 AHEAD+192(SI)

#define PREFETCH5 \
	PREFETCH4 \
	PREFETCHT1 AHEAD+256(SI)

#define PREFETCH6 \
	PREFETCH5 \
	PREFETCHT1 AHEAD+320(SI)

#define PREFETCH9 \
	PREFETCH6 \
	PREFETCHT1 AHEAD+384(SI) \
	PREFETCHT1 AHEAD+448(SI) \
	PREFETCHT1 AHEAD+512(SI)

// START and BEGIN begin the sum of a group.
#define START \
	VPBROADCASTD (R11), Z1 \
	VPXORD       Z2, Z2, Z2

#define BEGIN \
	VMOVDQA32 Z31, Z1 \
	VPXORD    Z2, Z2, Z2

// DOT adds the products of plane p of both halves of a group.
#define DOT(p, low, high) \
	VPDPBUSD.BCST 4*(p)(R8), low, Z1 \
	VPDPBUSD.BCST 4*p+16(R8), high, Z2

#define LOAD_DOT8(offset, p) \
	VMOVDQU32 64*p+offset(SI), Z4     \
	VMOVDQU32 64*p+256+offset(SI), Z5 \
	DOT(p, Z4, Z5)

// The codes of a group at offset.
#define GROUP4(offset) \
	UNPACK(offset(SI), Z4, Z5)      \
	UNPACK(offset+64(SI), Z6, Z7)   \
	DOT(0, Z4, Z5)                  \
	UNPACK(offset+128(SI), Z8, Z9)  \
	DOT(1, Z6, Z7)                  \
	UNPACK(offset+192(SI), Z10, Z11) \
	DOT(2, Z8, Z9)                  \
	DOT(3, Z10, Z11)

#define GROUP_TABLE(offset) \
	UNPACK(offset(SI), Z4, Z5)      \
	LOOKUP(Z4, Z5)                  \
	UNPACK(offset+64(SI), Z6, Z7)   \
	LOOKUP(Z6, Z7)                  \
	DOT(0, Z4, Z5)                  \
	UNPACK(offset+128(SI), Z8, Z9)  \
	LOOKUP(Z8, Z9)                  \
	DOT(1, Z6, Z7)                  \
	UNPACK(offset+192(SI), Z10, Z11) \
	LOOKUP(Z10, Z11)                \
	DOT(2, Z8, Z9)                  \
	DOT(3, Z10, Z11)

#define UNPACK5(offset, p) \
	UNPACK(64*p+64+offset(SI), Z4, Z5) \
	FIFTH(8*p+offset(SI), Z4)          \
	FIFTH(8*p+32+offset(SI), Z5)       \
	DOT(p, Z4, Z5)

#define GROUP5(offset) \
	UNPACK5(offset, 0) \
	UNPACK5(offset, 1) \
	UNPACK5(offset, 2) \
	UNPACK5(offset, 3)

#define GROUP8(offset) \
	LOAD_DOT8(offset, 0) \
	LOAD_DOT8(offset, 1) \
	LOAD_DOT8(offset, 2) \
	LOAD_DOT8(offset, 3)

// END adds a group's sum times the scale in Z24; ENDMIN what a min adds.
#define END \
	VPADDD           Z2, Z1, Z1   \
	VMULPS           Z31, Z24, Z25 \
	VFMSUB213PS      Z25, Z24, Z1 \
	VFMADD231PS.BCST (R9), Z1, Z0 \
	ADDQ             $32, R8      \
	ADDQ             $4, R9

#define NEXT_START ADDQ $4, R11

#define END_MIN \
	VFMADD231PS.BCST (R10), Z26, Z0 \
	ADDQ             $4, R10

#define F16_SCALE VCVTPH2PS (SI), Z24

// In these formats the offset is added: the min is minus it.
#define F16_OFFSET \
	VCVTPH2PS   32(SI), Z26 \
	VPXORD.BCST ·signBit(SB), Z26, Z26

// func vecQ4AVX512(a *vecArgs): Q4_0
TEXT ·vecQ4AVX512(SB), NOSPLIT, $0-8
	VEC_ARGS

loop:
	PREFETCH5
	F16_SCALE
	START
	GROUP4(32)
	END
	NEXT_START
	ADDQ $288, SI
	DECQ CX
	JNZ  loop
	VEC_RETURN

// func vecQ4TableAVX512(a *vecArgs): IQ4_NL
TEXT ·vecQ4TableAVX512(SB), NOSPLIT, $0-8
	VEC_ARGS
	VBROADCASTI32X4 (AX), Z29

loop:
	PREFETCH5
	F16_SCALE
	START
	GROUP_TABLE(32)
	END
	NEXT_START
	ADDQ $288, SI
	DECQ CX
	JNZ  loop
	VEC_RETURN

// func vecExponentAVX512(a *vecArgs): MXFP4
TEXT ·vecExponentAVX512(SB), NOSPLIT, $0-8
	VEC_ARGS
	VBROADCASTI32X4 (AX), Z29

loop:
	PREFETCH5
	EXPONENT((SI), Z24, Z3)
	START
	GROUP_TABLE(16)
	END
	NEXT_START
	ADDQ $272, SI
	DECQ CX
	JNZ  loop
	VEC_RETURN

// func vecQ4MinAVX512(a *vecArgs): Q4_1
TEXT ·vecQ4MinAVX512(SB), NOSPLIT, $0-8
	VEC_ARGS

loop:
	PREFETCH5
	F16_SCALE
	F16_OFFSET
	BEGIN
	GROUP4(64)
	END
	END_MIN
	ADDQ $320, SI
	DECQ CX
	JNZ  loop
	VEC_RETURN

// func vecQ5AVX512(a *vecArgs): Q5_0
TEXT ·vecQ5AVX512(SB), NOSPLIT, $0-8
	VEC_ARGS
	VPBROADCASTD ·fifthBit(SB), Z27

loop:
	PREFETCH6
	F16_SCALE
	START
	GROUP5(32)
	END
	NEXT_START
	ADDQ $352, SI
	DECQ CX
	JNZ  loop
	VEC_RETURN

// func vecQ5MinAVX512(a *vecArgs): Q5_1
TEXT ·vecQ5MinAVX512(SB), NOSPLIT, $0-8
	VEC_ARGS
	VPBROADCASTD ·fifthBit(SB), Z27

loop:
	PREFETCH6
	F16_SCALE
	F16_OFFSET
	BEGIN
	GROUP5(64)
	END
	END_MIN
	ADDQ $384, SI
	DECQ CX
	JNZ  loop
	VEC_RETURN

// func vecQ8AVX512(a *vecArgs): Q8_0
TEXT ·vecQ8AVX512(SB), NOSPLIT, $0-8
	VEC_ARGS

loop:
	PREFETCH9
	F16_SCALE
	START
	GROUP8(32)
	END
	NEXT_START
	ADDQ $544, SI
	DECQ CX
	JNZ  loop
	VEC_RETURN

// PAIR_SCALE takes the next scale and min of a block with pairs, of which Z12
// and Z13 have the block's.
#define PAIR_SCALE \
	VPMOVZXBD (R12), Z24     \
	VPMOVZXBD 128(R12), Z26  \
	VCVTDQ2PS Z24, Z24       \
	VCVTDQ2PS Z26, Z26       \
	VMULPS    Z12, Z24, Z24  \
	VMULPS    Z13, Z26, Z26  \
	ADDQ      $16, R12

#define PAIR_HEAD \
	LEAQ      bytes-256(SP), R12 \
	PAIRS(0)                     \
	VCVTPH2PS (SI), Z12          \
	VCVTPH2PS 32(SI), Z13        \
	ADDQ      $256, SI           \
	MOVQ      $8, BX

// func vecPairs4AVX512(a *vecArgs): Q4_K
TEXT ·vecPairs4AVX512(SB), NOSPLIT, $256-8
	VEC_ARGS
	VPBROADCASTD ·highMask(SB), Z28

loop:
	PREFETCH4
	PAIR_HEAD

group:
	PREFETCH4
	PAIR_SCALE
	BEGIN
	GROUP4(0)
	END
	END_MIN
	ADDQ $256, SI
	DECQ BX
	JNZ  group
	DECQ CX
	JNZ  loop
	VEC_RETURN

// func vecPairs5AVX512(a *vecArgs): Q5_K
TEXT ·vecPairs5AVX512(SB), NOSPLIT, $256-8
	VEC_ARGS
	VPBROADCASTD ·highMask(SB), Z28
	VPBROADCASTD ·fifthBit(SB), Z27

loop:
	PREFETCH4
	PAIR_HEAD

group:
	PREFETCH5
	PAIR_SCALE
	BEGIN
	GROUP5(0)
	END
	END_MIN
	ADDQ $320, SI
	DECQ BX
	JNZ  group
	DECQ CX
	JNZ  loop
	VEC_RETURN

// func vecSixAVX512(a *vecArgs): IQ4_XS
TEXT ·vecSixAVX512(SB), NOSPLIT, $128-8
	VEC_ARGS
	VBROADCASTI32X4 (AX), Z29
	VPBROADCASTD    ·highMask(SB), Z28

loop:
	PREFETCH4
	LEAQ      bytes-128(SP), R12
	SIX
	VCVTPH2PS (SI), Z12
	ADDQ      $128, SI
	MOVQ      $8, BX

group:
	PREFETCH4
	SIX_SCALE(Z12, Z24)
	START
	GROUP_TABLE(0)
	END
	NEXT_START
	ADDQ $256, SI
	DECQ BX
	JNZ  group
	DECQ CX
	JNZ  loop
	VEC_RETURN

// BYTE_SCALE makes a scale of sixteen signed bytes; Z12 has the block's.
#define BYTE_SCALE(mem, scale, product) \
	VPMOVSXBD mem, scale            \
	VCVTDQ2PS scale, scale          \
	VMULPS    Z12, scale, scale     \
	VMULPS    Z31, scale, product

#define PLANES6(p, highA, highB) \
	UNPACK6(64*p+128(SI), Z4, Z5, highA, highB) \
	DOT(p, Z4, Z5)

// func vecBytes6AVX512(a *vecArgs): Q6_K
// The halves of a group have scales of their own and end one by one.
TEXT ·vecBytes6AVX512(SB), NOSPLIT, $0-8
	VEC_ARGS
	VPBROADCASTD ·sixMask(SB), Z27

loop:
	PREFETCH5
	VCVTPH2PS (SI), Z12
	LEAQ      32(SI), R12
	ADDQ      $288, SI
	MOVQ      $8, BX

group:
	PREFETCH6
	BYTE_SCALE((R12), Z24, Z25)
	BYTE_SCALE(16(R12), Z26, Z13)
	VPBROADCASTD (R11), Z1
	VPBROADCASTD 4(R11), Z2
	VMOVDQU32    (SI), Z8
	VMOVDQU32    64(SI), Z9
	HIGH6(Z8, Z14, Z15, Z16)
	HIGH6(Z9, Z17, Z18, Z19)
	PLANES6(0, Z14, Z17)
	PLANES6(1, Z15, Z18)
	PLANES6(2, Z8, Z9)
	PLANES6(3, Z16, Z19)
	VFMSUB213PS      Z25, Z24, Z1
	VFMSUB213PS      Z13, Z26, Z2
	VFMADD231PS.BCST (R9), Z1, Z0
	VFMADD231PS.BCST (R9), Z2, Z0
	ADDQ $32, R8
	ADDQ $4, R9
	ADDQ $8, R11
	ADDQ $32, R12
	ADDQ $384, SI
	DECQ BX
	JNZ  group
	DECQ CX
	JNZ  loop
	VEC_RETURN
