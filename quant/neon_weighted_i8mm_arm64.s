//go:build !noasm

// Hand-written: no other file weighs values with matrix products of bytes.

#include "go_asm.h"
#include "textflag.h"
#include "neon_arm64.h"
#include "neon_weighted_arm64.h"

// Weighted sums of values with matrix products of bytes, eight tokens an instruction. A 16-bit
// weight w is 256·h + l, where h is a signed byte and l an unsigned one:
//
//	Σ w·v = 256·Σ h·v + Σ l·v
//
// Integer sums are exact, so the results equal those of the kernels with 16-bit products.

// SMMLA adds the product of two 2×8 byte matrices to d: lane 2r+c of d += row r of n
// times row c of m. n is unsigned in USMMLA.
#define SMMLA(m, n, d) WORD $(0x4E80A400 | (m)<<16 | (n)<<5 | (d))
#define USMMLA(m, n, d) WORD $(0x4E80AC00 | (m)<<16 | (n)<<5 | (d))

// SDOT adds the products of the four bytes in lane i of m with those in each lane of n. m is
// unsigned in SUDOT.
#define SDOT(m, i, n, d) WORD $(0x4F80E000 | ((i)&1)<<21 | ((i)>>1)<<11 | (m)<<16 | (n)<<5 | (d))
#define SUDOT(m, i, n, d) WORD $(0x4F00F000 | ((i)&1)<<21 | ((i)>>1)<<11 | (m)<<16 | (n)<<5 | (d))

// func pairWeights(w *BlockWeights, n int)
// Splits the codes of pairs of queries, to the scratch memory of the first of each: of 8 tokens
// h of the first query, h of the second, l of the first, l of the second, and so on.
TEXT ·pairWeights(SB), NOSPLIT, $0-16
	MOVD w+0(FP), R0
	MOVD n+8(FP), R1
	MOVD $BlockWeights__size, R5

pair:
	CMP  $1, R1
	CSEL GT, R5, ZR, R6
	ADD  $BlockWeights_Codes, R0, R2
	ADD  R6, R2, R3
	ADD  $BlockWeights_floats, R0, R4
	MOVD $4, R7

codes:
	VLD1.P 32(R2), [V0.B16, V1.B16]
	VLD1.P 32(R3), [V2.B16, V3.B16]
	VUZP2  V1.B16, V0.B16, V4.B16
	VUZP1  V1.B16, V0.B16, V5.B16
	VUZP2  V3.B16, V2.B16, V6.B16
	VUZP1  V3.B16, V2.B16, V7.B16
	VZIP1  V6.D2, V4.D2, V16.D2
	VZIP1  V7.D2, V5.D2, V17.D2
	VZIP2  V6.D2, V4.D2, V18.D2
	VZIP2  V7.D2, V5.D2, V19.D2
	VST1.P [V16.B16, V17.B16, V18.B16, V19.B16], 64(R4)
	SUBS   $1, R7
	BNE    codes
	ADD    R5<<1, R0
	SUBS   $2, R1
	BGT    pair
	RET

// MUL_EIGHT adds the products of 8 elements of eight tokens with the weights of four queries.
#define MUL_EIGHT \
	FLDPQ.P 32(R15), (F28, F29)   \
	FLDPQ.P 32(R16), (F30, F31)   \
	VLD1.P  (R13)(R7), [V16.B16]  \
	VLD1.P  (R13)(R7), [V17.B16]  \
	VLD1.P  (R13)(R7), [V18.B16]  \
	VLD1.P  (R13)(R7), [V19.B16]  \
	VZIP1   V17.H8, V16.H8, V20.H8 \
	VZIP2   V17.H8, V16.H8, V21.H8 \
	VZIP1   V19.H8, V18.H8, V22.H8 \
	VZIP2   V19.H8, V18.H8, V23.H8 \
	VZIP1   V22.S4, V20.S4, V24.S4 \
	VZIP2   V22.S4, V20.S4, V25.S4 \
	VZIP1   V23.S4, V21.S4, V26.S4 \
	VZIP2   V23.S4, V21.S4, V27.S4 \
	SMMLA(24, 28, 0)              \
	SMMLA(25, 28, 1)              \
	SMMLA(26, 28, 2)              \
	SMMLA(27, 28, 3)              \
	USMMLA(24, 29, 4)             \
	USMMLA(25, 29, 5)             \
	USMMLA(26, 29, 6)             \
	USMMLA(27, 29, 7)             \
	SMMLA(24, 30, 8)              \
	SMMLA(25, 30, 9)              \
	SMMLA(26, 30, 10)             \
	SMMLA(27, 30, 11)             \
	USMMLA(24, 31, 12)            \
	USMMLA(25, 31, 13)            \
	USMMLA(26, 31, 14)            \
	USMMLA(27, 31, 15)

// JOIN makes a float of the sums of h and l.
#define JOIN(h, H, L) \
	VSHL $8, H.S4, H.S4   \
	VADD L.S4, H.S4, H.S4 \
	SCVTF4(h, h)

// OUTPUTS8 adds the sums of two queries to their outputs. H0-H3 are 2 elements of both each.
#define OUTPUTS8(h0, h1, h2, h3, H0, H1, H2, H3, L0, L1, L2, L3) \
	JOIN(h0, H0, L0)          \
	JOIN(h1, H1, L1)          \
	JOIN(h2, H2, L2)          \
	JOIN(h3, H3, L3)          \
	VZIP1 H1.D2, H0.D2, L0.D2 \
	VZIP1 H3.D2, H2.D2, L1.D2 \
	VZIP2 H1.D2, H0.D2, L2.D2 \
	VZIP2 H3.D2, H2.D2, L3.D2 \
	STORE8(L0, L1)            \
	STORE8(L2, L3)

// func weightedSumMatrix4(o *float32, stride int, w *BlockWeights, n int, values *int8, d, rounds int)
// All elements of up to four queries, 8 at a time. d is a multiple of 8, a round is 16 tokens.
//
//	R8, R9 split weights of two pairs of queries  R12 columns left
//	V0-V3 sums of h, V4-V7 of l of the first pair  V8-V15 those of the second
//	V16-V27 values  V28-V31 weights
TEXT ·weightedSumMatrix4(SB), NOSPLIT, $0-56
	FOUR_ARGS
	MOVD $(2*BlockWeights__size), R12
	CMP  $2, R5
	CSEL GT, R12, ZR, R13
	ADD  $BlockWeights_floats, R2, R8
	ADD  R13, R8, R9
	LSR  $3, R4, R12

column:
	ZERO4(V0, V1, V2, V3)
	ZERO4(V4, V5, V6, V7)
	ZERO4(V8, V9, V10, V11)
	ZERO4(V12, V13, V14, V15)
	MOVD R1, R13
	MOVD R3, R14
	MOVD R8, R15
	MOVD R9, R16

round:
	MUL_EIGHT
	MUL_EIGHT
	SUB  $1, R14
	CBNZ R14, round

	BEGIN_OUTPUTS
	OUTPUTS8(0, 1, 2, 3, V0, V1, V2, V3, V4, V5, V6, V7)
	OUTPUTS8(8, 9, 10, 11, V8, V9, V10, V11, V12, V13, V14, V15)

next:
	NEXT_COLUMN
	RET

// DOT_FOUR adds the products of 16 elements of four tokens, which are quad i of eight, with the
// weights of one query.
#define DOT_FOUR(i) \
	VLD1.P (R13)(R7), [V24.B16, V25.B16] \
	VLD1.P (R13)(R7), [V26.B16, V27.B16] \
	VZIP1  V26.H8, V24.H8, V28.H8        \
	VZIP2  V26.H8, V24.H8, V29.H8        \
	VZIP1  V27.H8, V25.H8, V24.H8        \
	VZIP2  V27.H8, V25.H8, V25.H8        \
	SDOT(18, i, 28, 0)                   \
	SDOT(18, i, 29, 1)                   \
	SDOT(18, i, 24, 2)                   \
	SDOT(18, i, 25, 3)                   \
	SUDOT(19, i, 28, 4)                  \
	SUDOT(19, i, 29, 5)                  \
	SUDOT(19, i, 24, 6)                  \
	SUDOT(19, i, 25, 7)

// func weightedSumMixed1(o *float32, w *BlockWeights, values *int8, d, rounds int)
// All elements of one query, 16 at a time. d is a multiple of 16. The split weights are those of
// a pair of equal queries.
//
//	V0-V3 sums of h  V4-V7 of l  V18, V19 weights
TEXT ·weightedSumMixed1(SB), NOSPLIT, $0-40
	ONE_ARGS

column:
	ZERO4(V0, V1, V2, V3)
	ZERO4(V4, V5, V6, V7)
	MOVD R1, R13
	LSL  $1, R3, R14
	MOVD R8, R15

round:
	FLDPQ.P 32(R15), (F18, F19)
	DOT_FOUR(0)
	DOT_FOUR(1)
	SUB     $1, R14
	CBNZ    R14, round

	JOIN(0, V0, V4)
	JOIN(1, V1, V5)
	JOIN(2, V2, V6)
	JOIN(3, V3, V7)
	STORE16
	RET
