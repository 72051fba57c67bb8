//go:build !noasm

// Hand-written: no other file splits weights into bytes for dot products.

#include "go_asm.h"
#include "textflag.h"
#include "neon_arm64.h"
#include "neon_weighted_arm64.h"

// Weighted sums of values with dot products of bytes, four tokens an instruction.
// A 16-bit weight w is 256·h + l + 128, where h and l are signed bytes:
//
//	Σ w·v = 256·Σ h·v + Σ l·v + 128·Σ v
//
// Integer sums are exact, so the results equal those of the kernels with 16-bit
// products. A token with w = 0 has h = 0 and l = -128, which the last term cancels.

// SDOT adds four products to each lane of d; it takes the four bytes of m from
// its lane i, for all lanes of n.
#define SDOT(m, i, n, d) WORD $(0x4F80E000 | ((i)&1)<<21 | ((i)>>1)<<11 | (m)<<16 | (n)<<5 | (d))

// func splitWeights(w *BlockWeights, n int)
// Splits the codes of n queries: of 16 tokens all h, then all l, and so on.
TEXT ·splitWeights(SB), NOSPLIT, $0-16
	MOVD  w+0(FP), R0
	MOVD  n+8(FP), R1
	VMOVI $0x80, V31.B16

query:
	ADD  $BlockWeights_Codes, R0, R2
	ADD  $BlockWeights_floats, R0, R3
	MOVD $4, R4

codes:
	VLD1.P 32(R2), [V0.B16, V1.B16]
	VUZP2  V1.B16, V0.B16, V2.B16
	VUZP1  V1.B16, V0.B16, V3.B16
	VEOR   V31.B16, V3.B16, V3.B16 // less 128
	VST1.P [V2.B16, V3.B16], 32(R3)
	SUBS   $1, R4
	BNE    codes
	ADD    $BlockWeights__size, R0
	SUBS   $1, R1
	BNE    query
	RET

// ZIP_TOKENS brings two pairs of tokens together: the four bytes of an element.
#define ZIP_TOKENS(a, b) \
	VZIP1 b.H8, a.H8, V28.H8 \
	VZIP2 b.H8, a.H8, V29.H8

// DOT_ALL adds the products of 8 elements of four tokens, which are quad i of 16
// tokens, with the weights of four queries, and with ones.
#define DOT_ALL(i) \
	VLD1.P (R13)(R7), [V26.B16] \
	VLD1.P (R13)(R7), [V27.B16] \
	ZIP_TOKENS(V26, V27)  \
	SDOT(18, i, 28, 0)    \
	SDOT(18, i, 29, 1)    \
	SDOT(19, i, 28, 2)    \
	SDOT(19, i, 29, 3)    \
	SDOT(20, i, 28, 4)    \
	SDOT(20, i, 29, 5)    \
	SDOT(21, i, 28, 6)    \
	SDOT(21, i, 29, 7)    \
	SDOT(22, i, 28, 8)    \
	SDOT(22, i, 29, 9)    \
	SDOT(23, i, 28, 10)   \
	SDOT(23, i, 29, 11)   \
	SDOT(24, i, 28, 12)   \
	SDOT(24, i, 29, 13)   \
	SDOT(25, i, 28, 14)   \
	SDOT(25, i, 29, 15)   \
	SDOT(31, 0, 28, 16)   \
	SDOT(31, 0, 29, 17)

// JOIN makes a float of the sums of h, l and, times 128, of values.
#define JOIN(h, H, L, S) \
	VSHL $8, H.S4, H.S4  \
	VADD L.S4, H.S4, H.S4 \
	VADD S.S4, H.S4, H.S4 \
	SCVTF4(h, h)

// OUTPUT8 adds a query's sums to its outputs, and ends the column after the last.
#define OUTPUT8(h0, h1, H0, H1, L0, L1) \
	JOIN(h0, H0, L0, V16) \
	JOIN(h1, H1, L1, V17) \
	STORE8(H0, H1)

// NEXT_WEIGHTS sets the register to to the weights of the next query, or of the same
// query after the last one.
#define NEXT_WEIGHTS(count, from, to) \
	CMP  $count, R5        \
	CSEL GE, R12, ZR, R13  \
	ADD  R13, from, to

// func weightedSumDot4(o *float32, stride int, w *BlockWeights, n int, values *int8, d, rounds int)
// All elements of up to four queries, 8 at a time. d is a multiple of 8, a round
// is 16 tokens.
//
//	R0 outputs  R1 values  R2 weights  R3 rounds  R5 queries  R6, R7 bytes from
//	an output, a pair to the next  R8-R11 split weights  R12 columns left
//	V0-V7 sums of h  V8-V15 of l  V16, V17 of values  V18-V25 weights  V31 ones
TEXT ·weightedSumDot4(SB), NOSPLIT, $0-56
	FOUR_ARGS
	MOVD  $BlockWeights__size, R12
	ADD   $BlockWeights_floats, R2, R8
	NEXT_WEIGHTS(2, R8, R9)
	NEXT_WEIGHTS(3, R9, R10)
	NEXT_WEIGHTS(4, R10, R11)
	LSR   $3, R4, R12
	VMOVI $1, V31.B16

column:
	ZERO4(V0, V1, V2, V3)
	ZERO4(V4, V5, V6, V7)
	ZERO4(V8, V9, V10, V11)
	ZERO4(V12, V13, V14, V15)
	VEOR V16.B16, V16.B16, V16.B16
	VEOR V17.B16, V17.B16, V17.B16
	MOVD R1, R13
	MOVD R3, R14
	MOVD R8, R15
	MOVD R9, R16
	MOVD R10, R17
	MOVD R11, R19

round:
	FLDPQ.P 32(R15), (F18, F22)
	FLDPQ.P 32(R16), (F19, F23)
	FLDPQ.P 32(R17), (F20, F24)
	FLDPQ.P 32(R19), (F21, F25)
	DOT_ALL(0)
	DOT_ALL(1)
	DOT_ALL(2)
	DOT_ALL(3)
	SUB     $1, R14
	CBNZ    R14, round

	VSHL $7, V16.S4, V16.S4
	VSHL $7, V17.S4, V17.S4
	BEGIN_OUTPUTS
	OUTPUT8(0, 1, V0, V1, V8, V9)
	OUTPUT8(2, 3, V2, V3, V10, V11)
	OUTPUT8(4, 5, V4, V5, V12, V13)
	OUTPUT8(6, 7, V6, V7, V14, V15)

next:
	NEXT_COLUMN
	RET

// DOT_HALF adds the products of 8 elements of four tokens, with one query's
// weights and with ones.
#define DOT_HALF(i, h0, h1, l0, l1, s0, s1) \
	SDOT(18, i, 28, h0) \
	SDOT(18, i, 29, h1) \
	SDOT(22, i, 28, l0) \
	SDOT(22, i, 29, l1) \
	SDOT(31, 0, 28, s0) \
	SDOT(31, 0, 29, s1)

#define DOT_ONE(i) \
	VLD1.P (R13)(R7), [V24.B16, V25.B16] \
	VLD1.P (R13)(R7), [V26.B16, V27.B16] \
	ZIP_TOKENS(V24, V26)           \
	DOT_HALF(i, 0, 1, 8, 9, 16, 17) \
	ZIP_TOKENS(V25, V27)           \
	DOT_HALF(i, 2, 3, 10, 11, 19, 20)

// func weightedSumDot1(o *float32, w *BlockWeights, values *int8, d, rounds int)
// All elements of one query, 16 at a time. d is a multiple of 16.
TEXT ·weightedSumDot1(SB), NOSPLIT, $0-40
	ONE_ARGS
	VMOVI $1, V31.B16

column:
	ZERO4(V0, V1, V2, V3)
	ZERO4(V8, V9, V10, V11)
	ZERO4(V16, V17, V19, V20)
	MOVD R1, R13
	MOVD R3, R14
	MOVD R8, R15

round:
	FLDPQ.P 32(R15), (F18, F22)
	DOT_ONE(0)
	DOT_ONE(1)
	DOT_ONE(2)
	DOT_ONE(3)
	SUB     $1, R14
	CBNZ    R14, round

	VSHL $7, V16.S4, V16.S4
	VSHL $7, V17.S4, V17.S4
	VSHL $7, V19.S4, V19.S4
	VSHL $7, V20.S4, V20.S4
	JOIN(0, V0, V8, V16)
	JOIN(1, V1, V9, V17)
	JOIN(2, V2, V10, V19)
	JOIN(3, V3, V11, V20)
	STORE16
	RET
