//go:build !noasm

// Hand-written: this is the only GEMM kernel with SMMLA.

#include "go_asm.h"
#include "textflag.h"
#include "neon_arm64.h"
#include "neon_panel_arm64.h"

// GEMM kernel with SMMLA. It computes 8 rows of 4 tokens; see neon_panel_arm64.h for the
// formula and the general registers. A register of sums holds two rows of two tokens:
// rows 2j and 2j+1 of one token, then of the next.
//
//	V0-V3 float sums, V8-V11 integer sums of the first two tokens
//	V4-V7 float sums, V12-V15 integer sums of the other two tokens
//	V16-V19 activations of a group of the first two tokens, eight elements of each
//	per register   V20-V23 those of the other two tokens
//	V24-V27 codes, then scales or mins   V28, V29 dx or shift of the tokens

// PAIR converts the sums of two tokens from rows, a and b of one token and c and d of
// the other, to the layout of SMMLA in e to h.
#define PAIR(a, b, c, d, e, f, g, h) \
	VZIP1 c.D2, a.D2, e.D2 \
	VZIP2 c.D2, a.D2, f.D2 \
	VZIP1 d.D2, b.D2, g.D2 \
	VZIP2 d.D2, b.D2, h.D2

// STEP adds the products of the next eight elements of 8 rows with those of four
// tokens, in x0 and x1, to the integer sums. STEP_TO adds them to the given registers.
// MULTIPLY is the part of STEP after loading the codes, with LOAD_PAIR to a to d.
#define STEP(x0, x1) STEP_TO(x0, x1, 8, 9, 10, 11, 12, 13, 14, 15)

#define LOAD_PAIR(a, b, c, d) VLD1.P (R1)(R11), [a.B16, b.B16, c.B16, d.B16]

#define MULTIPLY(x0, x1, a, b, c, d) \
	SMMLA(a, x0, 8)  \
	SMMLA(b, x0, 9)  \
	SMMLA(c, x0, 10) \
	SMMLA(d, x0, 11) \
	SMMLA(a, x1, 12) \
	SMMLA(b, x1, 13) \
	SMMLA(c, x1, 14) \
	SMMLA(d, x1, 15)

#define STEP_TO(x0, x1, a, b, c, d, e, f, g, h) \
	LOAD_PAIR(V24, V25, V26, V27) \
	SMMLA(24, x0, a)                                       \
	SMMLA(25, x0, b)                                       \
	SMMLA(26, x0, c)                                       \
	SMMLA(27, x0, d)                                       \
	SMMLA(24, x1, e)                                       \
	SMMLA(25, x1, f)                                       \
	SMMLA(26, x1, g)                                       \
	SMMLA(27, x1, h)

// LOAD_ROWS loads the floats of 8 rows to V24-V27, each pair of rows twice.
#define LOAD_ROWS(from) \
	FLDPQ.P 64(from), (F24, F26) \
	VDUP    V24.D[1], V25.D2     \
	VDUP    V24.D[0], V24.D2     \
	VDUP    V26.D[1], V27.D2     \
	VDUP    V26.D[0], V26.D2

// LOAD_PAIRS loads the next float of each of four tokens to V28 and V29, each twice.
#define LOAD_PAIRS(from) \
	VLD1.P (from)(R9), [V30.S4]   \
	VZIP1  V30.S4, V30.S4, V28.S4 \
	VZIP2  V30.S4, V30.S4, V29.S4

// ALL_SUMS applies OP to all sums and the values of their rows in V24-V27.
#define ALL_SUMS(OP) \
	OP(24, 8)  \
	OP(25, 9)  \
	OP(26, 10) \
	OP(27, 11) \
	OP(24, 12) \
	OP(25, 13) \
	OP(26, 14) \
	OP(27, 15)

#define TIMES(scale, a) FMUL4(scale, a, a)

// LOAD_SCALES loads the next scales and dx for FINISH.
#define LOAD_SCALES \
	LOAD_ROWS(R3)  \
	LOAD_PAIRS(R6)

// FINISH adds the float sums in V8-V15, times the scales and dx, to V0-V7.
#define FINISH \
	ALL_SUMS(TIMES)             \
	VFMLA V28.S4, V8.S4, V0.S4  \
	VFMLA V28.S4, V9.S4, V1.S4  \
	VFMLA V28.S4, V10.S4, V2.S4 \
	VFMLA V28.S4, V11.S4, V3.S4 \
	VFMLA V29.S4, V12.S4, V4.S4 \
	VFMLA V29.S4, V13.S4, V5.S4 \
	VFMLA V29.S4, V14.S4, V6.S4 \
	VFMLA V29.S4, V15.S4, V7.S4

// BEGIN loads a group of the tokens and clears the integer sums.
#define BEGIN \
	LOAD_TOKENS(V16, V17, V18, V19, V20, V21, V22, V23) \
	ZERO_SUMS

// func mulMatrixNEON(a *kernelArgs, row, token int)
// It computes rows row to row+7 of tokens token to token+3. Codes are signed, in the
// order that pairCodesNEON writes; x is interleaved by pairs of tokens.
TEXT ·mulMatrixNEON(SB), NOSPLIT, $0-24
	PANEL_ARGS(3)
	FOUR_TOKENS
	LOAD_SUMS(F24, F25, F26, F27, F28, F29, F30, F31)
	PAIR(V24, V25, V26, V27, V0, V1, V2, V3)
	PAIR(V28, V29, V30, V31, V4, V5, V6, V7)
	MOVD $128, R11
	MOVD kernelArgs_halves(R0), R12
	CMP  $2, R12
	BEQ  halves

loop:
	BEGIN
	LOAD_PAIR(V24, V25, V26, V27)
	LOAD_PAIR(V28, V29, V30, V31)
	MULTIPLY(16, 20, 24, 25, 26, 27)
	LOAD_PAIR(V24, V25, V26, V27)
	MULTIPLY(17, 21, 28, 29, 30, 31)
	LOAD_PAIR(V28, V29, V30, V31)
	MULTIPLY(18, 22, 24, 25, 26, 27)
	MULTIPLY(19, 23, 28, 29, 30, 31)
	LOAD_SCALES
	FLOATS(8, 9, 10, 11)
	FLOATS(12, 13, 14, 15)
	FINISH
	CBZ   R4, next
	LOAD_ROWS(R4)
	LOAD_PAIRS(R7)
	VFMLA V28.S4, V24.S4, V0.S4
	VFMLA V28.S4, V25.S4, V1.S4
	VFMLA V28.S4, V26.S4, V2.S4
	VFMLA V28.S4, V27.S4, V3.S4
	VFMLA V29.S4, V24.S4, V4.S4
	VFMLA V29.S4, V25.S4, V5.S4
	VFMLA V29.S4, V26.S4, V6.S4
	VFMLA V29.S4, V27.S4, V7.S4

next:
	SUB  $1, R8
	CBNZ R8, loop
	B    store

halves:
	BEGIN
	STEP(16, 20)
	STEP(17, 21)
	LOAD_ROWS(R15)
	FLOATS(8, 9, 10, 11)
	FLOATS(12, 13, 14, 15)
	ALL_SUMS(TIMES)
	ZERO4(V16, V17, V20, V21) // reuse the registers of the first half's elements
	ZERO4(V28, V29, V30, V31)
	STEP_TO(18, 22, 16, 17, 20, 21, 28, 29, 30, 31)
	STEP_TO(19, 23, 16, 17, 20, 21, 28, 29, 30, 31)
	LOAD_ROWS(R15)
	FLOATS(16, 17, 20, 21)
	FLOATS(28, 29, 30, 31)
	FMLA44(24, 16, 8)
	FMLA44(25, 17, 9)
	FMLA44(26, 20, 10)
	FMLA44(27, 21, 11)
	FMLA44(24, 28, 12)
	FMLA44(25, 29, 13)
	FMLA44(26, 30, 14)
	FMLA44(27, 31, 15)
	LOAD_SCALES
	FINISH
	SUB  $1, R8
	CBNZ R8, halves

store:
	PAIR(V0, V2, V1, V3, V24, V26, V25, V27)
	PAIR(V4, V6, V5, V7, V28, V30, V29, V31)
	STORE_SUMS(F24, F25, F26, F27, F28, F29, F30, F31)
	RET

// func pairCodesNEON(codes *uint8, groups int)
// It reorders the codes of a panel for SMMLA in place: pairs of planes are merged, from
// [groups][planes][TileRows][4] to [groups][planes/2][TileRows][8].
TEXT ·pairCodesNEON(SB), NOSPLIT, $0-16
	MOVD codes+0(FP), R0
	MOVD groups+8(FP), R2
	MOVD R0, R1
	LSL  $2, R2

loop:
	VLD1.P 64(R1), [V0.B16, V1.B16, V2.B16, V3.B16]
	VLD1.P 64(R1), [V4.B16, V5.B16, V6.B16, V7.B16]
	VZIP1  V4.S4, V0.S4, V16.S4
	VZIP2  V4.S4, V0.S4, V17.S4
	VZIP1  V5.S4, V1.S4, V18.S4
	VZIP2  V5.S4, V1.S4, V19.S4
	VZIP1  V6.S4, V2.S4, V20.S4
	VZIP2  V6.S4, V2.S4, V21.S4
	VZIP1  V7.S4, V3.S4, V22.S4
	VZIP2  V7.S4, V3.S4, V23.S4
	VST1.P [V16.B16, V17.B16, V18.B16, V19.B16], 64(R0)
	VST1.P [V20.B16, V21.B16, V22.B16, V23.B16], 64(R0)
	SUB    $1, R2
	CBNZ   R2, loop
	RET
