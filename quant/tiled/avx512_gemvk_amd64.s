//go:build !noasm

#include "go_asm.h"
#include "textflag.h"
#include "avx512_amd64.h"
#include "avx512_gemv_amd64.h"

// Formats with blocks of 256 elements: the block has a scale, its groups have
// factors of it.

// NEXT_BLOCK goes to the groups of blocks with heads of so many bytes.
#define NEXT_BLOCK(bytes) \
	ADDQ $bytes, SI \
	ADDQ $bytes, BX \
	MOVQ $8, AX

// PAIR_HEAD spreads the scales and mins of a block with pairs.
#define PAIR_HEAD(src, factors, scale, min) \
	PREFETCH4(src)           \
	PAIRS(src, factors)      \
	VCVTPH2PS (src), scale   \
	VCVTPH2PS 32(src), min

#define PAIR_HEADS \
	LEAQ pairs-512(SP), R12          \
	LEAQ pairs-256(SP), R13          \
	PAIR_HEAD(SI, R12, Z12, Z13)     \
	PAIR_HEAD(BX, R13, Z21, Z22)     \
	NEXT_BLOCK(256)

// PAIR_SCALE takes the next of them.
#define PAIR_SCALE(factors, scale, min) \
	VPMOVZXBD (factors), Z24     \
	VPMOVZXBD 128(factors), Z26  \
	VCVTDQ2PS Z24, Z24           \
	VCVTDQ2PS Z26, Z26           \
	VMULPS    scale, Z24, Z24    \
	VMULPS    min, Z26, Z26      \
	ADDQ      $16, factors

#define PAIRS4(src, sums, factors, scale, min) \
	PREFETCH4(src)                  \
	PAIR_SCALE(factors, scale, min) \
	BEGIN                           \
	GROUP4(src, 0)                  \
	END(sums)                       \
	END_MIN(sums)

// func gemvPairs4AVX512(a *smallArgs): Q4_K
TEXT ·gemvPairs4AVX512(SB), NOSPLIT, $512-8
	VEC_ARGS
	VPBROADCASTD ·highMask(SB), Z28

tiles:
	VEC_TILES

loop:
	PAIR_HEADS

group:
	PAIRS4(SI, Z0, R12, Z12, Z13)
	PAIRS4(BX, Z20, R13, Z21, Z22)
	NEXT_MIN
	NEXT(256)
	DECQ AX
	JNZ  group
	DECQ CX
	JNZ  loop
	VEC_NEXT

#define PAIRS5(src, sums, factors, scale, min) \
	PREFETCH5(src)                  \
	PAIR_SCALE(factors, scale, min) \
	BEGIN                           \
	GROUP5(src, 0)                  \
	END(sums)                       \
	END_MIN(sums)

// func gemvPairs5AVX512(a *smallArgs): Q5_K
TEXT ·gemvPairs5AVX512(SB), NOSPLIT, $512-8
	VEC_ARGS
	VPBROADCASTD ·highMask(SB), Z28
	VPBROADCASTD ·fifthBit(SB), Z27

tiles:
	VEC_TILES

loop:
	PAIR_HEADS

group:
	PAIRS5(SI, Z0, R12, Z12, Z13)
	PAIRS5(BX, Z20, R13, Z21, Z22)
	NEXT_MIN
	NEXT(320)
	DECQ AX
	JNZ  group
	DECQ CX
	JNZ  loop
	VEC_NEXT

#define SIX_HEAD(src, factors, scale) \
	PREFETCH4(src)     \
	SIX(src, factors)  \
	VCVTPH2PS (src), scale

#define SIX4(src, sums, factors, scale) \
	PREFETCH4(src)                  \
	SIX_SCALE(factors, scale, Z24)  \
	START                           \
	GROUP_TABLE(src, 0)             \
	END(sums)

// func gemvSixAVX512(a *smallArgs): IQ4_XS
TEXT ·gemvSixAVX512(SB), NOSPLIT, $256-8
	VEC_ARGS
	VBROADCASTI32X4 (AX), Z29
	VPBROADCASTD    ·highMask(SB), Z28

tiles:
	VEC_TILES

loop:
	LEAQ factors-256(SP), R12
	LEAQ factors-128(SP), R13
	SIX_HEAD(SI, R12, Z12)
	SIX_HEAD(BX, R13, Z21)
	NEXT_BLOCK(128)

group:
	SIX4(SI, Z0, R12, Z12)
	SIX4(BX, Z20, R13, Z21)
	NEXT_START
	NEXT(256)
	DECQ AX
	JNZ  group
	DECQ CX
	JNZ  loop
	VEC_NEXT

#define FACTOR(mem, factor) \
	VPMOVSXBD mem, factor    \
	VCVTDQ2PS factor, factor

#define PLANES6(src, p, highA, highB) \
	UNPACK6(64*p+128(src), Z4, Z5, highA, highB) \
	DOT(p, Z4, Z5)

// The sums of a group's halves are multiplied by factors of their own and added,
// which floats do exactly. Z3 is zero: what is added to it is not -0.
#define BYTES6(src, sums, factors, block) \
	PREFETCH6(src)                            \
	FACTOR((factors), Z24)                    \
	FACTOR(16(factors), Z26)                  \
	VPBROADCASTD (R11), Z1                    \
	VPBROADCASTD 4(R11), Z2                   \
	VMOVDQU32    (src), Z8                    \
	VMOVDQU32    64(src), Z9                  \
	HIGH6(Z8, Z14, Z15, Z16)                  \
	HIGH6(Z9, Z17, Z18, Z19)                  \
	PLANES6(src, 0, Z14, Z17)                 \
	PLANES6(src, 1, Z15, Z18)                 \
	PLANES6(src, 2, Z8, Z9)                   \
	PLANES6(src, 3, Z16, Z19)                 \
	VSUBPS           Z31, Z1, Z1              \
	VSUBPS           Z31, Z2, Z2              \
	VFMADD213PS      Z3, Z24, Z1              \
	VFMADD231PS      Z26, Z2, Z1              \
	VMULPS           block, Z1, Z1            \
	VFMADD231PS.BCST (R9), Z1, sums           \
	ADDQ $32, factors

// func gemvBytes6AVX512(a *smallArgs): Q6_K
TEXT ·gemvBytes6AVX512(SB), NOSPLIT, $0-8
	VEC_ARGS
	VPBROADCASTD ·sixMask(SB), Z27
	VPXORD       Z3, Z3, Z3

tiles:
	VEC_TILES

loop:
	PREFETCH5(SI)
	PREFETCH5(BX)
	VCVTPH2PS (SI), Z12
	VCVTPH2PS (BX), Z21
	LEAQ      32(SI), R12
	LEAQ      32(BX), R13
	NEXT_BLOCK(288)

group:
	BYTES6(SI, Z0, R12, Z12)
	BYTES6(BX, Z20, R13, Z21)
	ADDQ $8, R11
	NEXT(384)
	DECQ AX
	JNZ  group
	DECQ CX
	JNZ  loop
	VEC_NEXT
