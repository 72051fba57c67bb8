//go:build !noasm

// Hand-written: this is the only GEMM kernel with SDOT.

#include "go_asm.h"
#include "textflag.h"
#include "neon_arm64.h"
#include "neon_panel_arm64.h"
#include "neon_dot_arm64.h"

// GEMM kernel with SDOT. It computes 8 rows of 4 tokens; see neon_panel_arm64.h for the
// formula and the general registers.
//
//	V0-V7 float sums, two registers per token
//	V8-V15 integer sums, two registers per token
//	V16-V23 activations of a group, two interleaved tokens in four registers
//	V24-V31 codes, then scales or mins

// LOAD_PLANES loads four planes of codes for 8 rows.
#define LOAD_PLANES(offset) \
	FLDPQ offset+0(R1), (F24, F25)   \
	FLDPQ offset+64(R1), (F26, F27)  \
	FLDPQ offset+128(R1), (F28, F29) \
	FLDPQ offset+192(R1), (F30, F31)

#define DOT_PLANES(x0, x1, y0, y1) \
	DOT(24, 25, 0, x0, y0) \
	DOT(26, 27, 1, x0, y0) \
	DOT(28, 29, 0, x1, y1) \
	DOT(30, 31, 1, x1, y1)

// LOAD_SCALES loads the next scales and dx for FINISH.
#define LOAD_SCALES \
	FLDPQ.P 64(R3), (F24, F25) \
	VLD1.P  (R6)(R9), [V26.S4]

// SECOND_HALF computes the integer sums of the second half of a group for the two
// tokens in x0 and x1. It reuses V16, V17, V20 and V21 for the sums and adds them,
// times the factors, to a to d.
#define SECOND_DOT(lo, hi, i, x) \
	SDOT(x, i, lo, 16)   \
	SDOT(x, i, hi, 17)   \
	SDOT(x, i+2, lo, 20) \
	SDOT(x, i+2, hi, 21)

#define SECOND_HALF(x0, x1, a, b, c, d) \
	ZERO4(V16, V17, V20, V21)  \
	LOAD_PLANES(256)           \
	SECOND_DOT(24, 25, 0, x0)  \
	SECOND_DOT(26, 27, 1, x0)  \
	SECOND_DOT(28, 29, 0, x1)  \
	SECOND_DOT(30, 31, 1, x1)  \
	FLDPQ 64(R15), (F28, F29)  \
	FLOATS(16, 17, 20, 21)     \
	FMLA44(28, 16, a)          \
	FMLA44(29, 17, b)          \
	FMLA44(28, 20, c)          \
	FMLA44(29, 21, d)

// func mulDotNEON(a *kernelArgs, row, token int)
// It computes rows row to row+7 of tokens token to token+3. Codes are signed; x is
// interleaved by pairs of tokens.
TEXT ·mulDotNEON(SB), NOSPLIT, $0-24
	PANEL_ARGS(2)
	FOUR_TOKENS
	LOAD_SUMS(F0, F1, F2, F3, F4, F5, F6, F7)
	MOVD kernelArgs_halves(R0), R11
	CMP  $2, R11
	BEQ  halves

loop: // each load is well before its use, for in-order processors
	LOAD_TOKENS(V16, V17, V18, V19, V20, V21, V22, V23)
	LOAD_PLANES(0)
	ZERO_SUMS
	DOT(24, 25, 0, 16, 20)
	FLDPQ 256(R1), (F24, F25)
	DOT(26, 27, 1, 16, 20)
	FLDPQ 320(R1), (F26, F27)
	DOT(28, 29, 0, 17, 21)
	FLDPQ 384(R1), (F28, F29)
	DOT(30, 31, 1, 17, 21)
	FLDPQ 448(R1), (F30, F31)
	DOT(24, 25, 0, 18, 22)
	DOT(26, 27, 1, 18, 22)
	LOAD_SCALES
	DOT(28, 29, 0, 19, 23)
	DOT(30, 31, 1, 19, 23)
	FLOATS(8, 9, 10, 11)
	FLOATS(12, 13, 14, 15)
	FINISH
	CBZ   R4, next
	FLDPQ.P 64(R4), (F24, F25)
	VLD1.P  (R7)(R9), [V26.S4]
	ADD_TOKENS(24, 25, 24, 25, 24, 25, 24, 25)

next:
	ADD  $512, R1
	SUB  $1, R8
	CBNZ R8, loop
	B    store

halves:
	LOAD_TOKENS(V16, V17, V18, V19, V20, V21, V22, V23)
	ZERO_SUMS
	LOAD_PLANES(0)
	DOT_PLANES(16, 17, 20, 21)
	FLDPQ (R15), (F24, F25)
	FLOATS(8, 9, 10, 11)
	FLOATS(12, 13, 14, 15)
	ALL_SUMS(TIMES)
	SECOND_HALF(18, 19, 8, 9, 10, 11)
	SECOND_HALF(22, 23, 12, 13, 14, 15)
	LOAD_SCALES
	FINISH
	ADD  $512, R1
	ADD  $128, R15
	SUB  $1, R8
	CBNZ R8, halves

store:
	STORE_SUMS(F0, F1, F2, F3, F4, F5, F6, F7)
	RET
