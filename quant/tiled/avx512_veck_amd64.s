//go:build !noasm

#include "go_asm.h"
#include "textflag.h"
#include "avx512_amd64.h"
#include "avx512_vec_amd64.h"

// Formats with blocks of 256 elements: the block has a scale, its groups have
// factors of it.

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
