//go:build !noasm

#include "go_asm.h"
#include "textflag.h"
#include "avx512_amd64.h"
#include "avx512_gemv_amd64.h"

// Formats with one scale, and one group, in a block.

#define BLOCK4(src, sums) \
	PREFETCH5(src) \
	F16_SCALE(src) \
	START \
	GROUP4(src, 32) \
	END(sums)

// func gemvQ4AVX512(a *smallArgs): Q4_0
TEXT ·gemvQ4AVX512(SB), NOSPLIT, $0-8
	VEC_ARGS

tiles:
	VEC_TILES

loop:
	BLOCK4(SI, Z0)
	BLOCK4(BX, Z20)
	NEXT_START
	NEXT(288)
	DECQ CX
	JNZ  loop
	VEC_NEXT

#define BLOCK_TABLE(src, sums) \
	PREFETCH5(src) \
	F16_SCALE(src) \
	START \
	GROUP_TABLE(src, 32) \
	END(sums)

// func gemvQ4TableAVX512(a *smallArgs): IQ4_NL, NF4
TEXT ·gemvQ4TableAVX512(SB), NOSPLIT, $0-8
	VEC_ARGS
	VBROADCASTI32X4 (AX), Z29

tiles:
	VEC_TILES

loop:
	BLOCK_TABLE(SI, Z0)
	BLOCK_TABLE(BX, Z20)
	NEXT_START
	NEXT(288)
	DECQ CX
	JNZ  loop
	VEC_NEXT

#define BLOCK_EXPONENT(src, sums) \
	PREFETCH5(src) \
	EXPONENT((src), Z24, Z3) \
	START \
	GROUP_TABLE(src, 16) \
	END(sums)

// func gemvExponentAVX512(a *smallArgs): MXFP4
TEXT ·gemvExponentAVX512(SB), NOSPLIT, $0-8
	VEC_ARGS
	VBROADCASTI32X4 (AX), Z29

tiles:
	VEC_TILES

loop:
	BLOCK_EXPONENT(SI, Z0)
	BLOCK_EXPONENT(BX, Z20)
	NEXT_START
	NEXT(272)
	DECQ CX
	JNZ  loop
	VEC_NEXT

#define BLOCK4_MIN(src, sums) \
	PREFETCH5(src) \
	F16_SCALE(src) \
	F16_OFFSET(src) \
	BEGIN \
	GROUP4(src, 64) \
	END(sums) \
	END_MIN(sums)

// func gemvQ4MinAVX512(a *smallArgs): Q4_1
TEXT ·gemvQ4MinAVX512(SB), NOSPLIT, $0-8
	VEC_ARGS

tiles:
	VEC_TILES

loop:
	BLOCK4_MIN(SI, Z0)
	BLOCK4_MIN(BX, Z20)
	NEXT_MIN
	NEXT(320)
	DECQ CX
	JNZ  loop
	VEC_NEXT

#define BLOCK4_ZERO(src, sums) \
	PREFETCH5(src) \
	F16_SCALE(src) \
	ZERO_MIN(src) \
	BEGIN \
	GROUP4(src, 48) \
	END(sums) \
	END_MIN(sums)

// func gemvQ4ZeroAVX512(a *smallArgs): I4Z
TEXT ·gemvQ4ZeroAVX512(SB), NOSPLIT, $0-8
	VEC_ARGS

tiles:
	VEC_TILES

loop:
	BLOCK4_ZERO(SI, Z0)
	BLOCK4_ZERO(BX, Z20)
	NEXT_MIN
	NEXT(304)
	DECQ CX
	JNZ  loop
	VEC_NEXT

#define BLOCK5(src, sums) \
	PREFETCH6(src) \
	F16_SCALE(src) \
	START \
	GROUP5(src, 32) \
	END(sums)

// func gemvQ5AVX512(a *smallArgs): Q5_0
TEXT ·gemvQ5AVX512(SB), NOSPLIT, $0-8
	VEC_ARGS
	VPBROADCASTD ·fifthBit(SB), Z27

tiles:
	VEC_TILES

loop:
	BLOCK5(SI, Z0)
	BLOCK5(BX, Z20)
	NEXT_START
	NEXT(352)
	DECQ CX
	JNZ  loop
	VEC_NEXT

#define BLOCK5_MIN(src, sums) \
	PREFETCH6(src) \
	F16_SCALE(src) \
	F16_OFFSET(src) \
	BEGIN \
	GROUP5(src, 64) \
	END(sums) \
	END_MIN(sums)

// func gemvQ5MinAVX512(a *smallArgs): Q5_1
TEXT ·gemvQ5MinAVX512(SB), NOSPLIT, $0-8
	VEC_ARGS
	VPBROADCASTD ·fifthBit(SB), Z27

tiles:
	VEC_TILES

loop:
	BLOCK5_MIN(SI, Z0)
	BLOCK5_MIN(BX, Z20)
	NEXT_MIN
	NEXT(384)
	DECQ CX
	JNZ  loop
	VEC_NEXT

#define BLOCK8(src, sums) \
	PREFETCH9(src) \
	F16_SCALE(src) \
	START \
	GROUP8(src, 32) \
	END(sums)

// func gemvQ8AVX512(a *smallArgs): Q8_0
TEXT ·gemvQ8AVX512(SB), NOSPLIT, $0-8
	VEC_ARGS

tiles:
	VEC_TILES

loop:
	BLOCK8(SI, Z0)
	BLOCK8(BX, Z20)
	NEXT_START
	NEXT(544)
	DECQ CX
	JNZ  loop
	VEC_NEXT
