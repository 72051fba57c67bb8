//go:build !noasm

// Hand-written: no other kernel multiplies with SDOT by lane.

#include "go_asm.h"
#include "textflag.h"
#include "neon_arm64.h"
#include "neon_panel_arm64.h"

// The panel kernel with SDOT computes 8 rows of 4 tokens and takes every
// register: V0-V7 the sums of floats and V8-V15 those of integers, two
// registers a token; V16-V23 the activations of a group, two tokens in four registers;
// V24-V31 codes.

// LOAD_PLANES loads the codes of 8 rows, four steps of them.
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

// ADD_TOKENS adds four tokens' numbers, the lanes of V26, times those of their
// rows, two registers each.
#define ADD_TOKENS(a, b, c, d, e, f, g, h) \
	FMLA4(26, 0, a, 0) \
	FMLA4(26, 0, b, 1) \
	FMLA4(26, 1, c, 2) \
	FMLA4(26, 1, d, 3) \
	FMLA4(26, 2, e, 4) \
	FMLA4(26, 2, f, 5) \
	FMLA4(26, 3, g, 6) \
	FMLA4(26, 3, h, 7)

// FINISH adds the sums of integers, times the scales at offset and dx.
#define ALL_SUMS(OP) \
	OP(24, 8)  \
	OP(25, 9)  \
	OP(24, 10) \
	OP(25, 11) \
	OP(24, 12) \
	OP(25, 13) \
	OP(24, 14) \
	OP(25, 15)

#define TIMES(scale, a) FMUL4(scale, a, a)

#define FINISH(OP) \
	FLDPQ (R3), (F24, F25) \
	FMOVQ (R6), F26        \
	ALL_SUMS(OP)           \
	ADD_TOKENS(8, 9, 10, 11, 12, 13, 14, 15)

// SECOND_HALF computes the sums of two tokens' second half, whose elements are x0
// and x1, in the registers of the first, and adds them, times the factors in V28
// and V29, to the floats in a to d.
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
	ADD_SCALED(28, 16, a)      \
	ADD_SCALED(29, 17, b)      \
	ADD_SCALED(28, 20, c)      \
	ADD_SCALED(29, 21, d)

// func mulDotNEON(a *kernelArgs, row, token int)
// Rows row to row+7 of tokens token to token+3. Codes are signed.
TEXT ·mulDotNEON(SB), NOSPLIT, $0-24
	PANEL_ARGS(2)
	LOAD_SUMS(F0, F1, F2, F3, F4, F5, F6, F7)
	MOVD kernelArgs_halves(R0), R11
	CMP  $2, R11
	BEQ  halves

loop:
	LOAD_TOKENS(V16, V17, V18, V19, V20, V21, V22, V23)
	ZERO_SUMS
	LOAD_PLANES(0)
	DOT_PLANES(16, 17, 20, 21)
	LOAD_PLANES(256)
	DOT_PLANES(18, 19, 22, 23)
	FINISH(SCALED)
	CBZ   R4, next
	FLDPQ (R4), (F24, F25)
	FMOVQ (R7), F26
	ADD_TOKENS(24, 25, 24, 25, 24, 25, 24, 25)
	ADD   $64, R4
	ADD   R9, R7

next:
	ADD  $512, R1
	ADD  $64, R3
	ADD  R9, R6
	SUB  $1, R8
	CBNZ R8, loop
	B    store

halves:
	LOAD_TOKENS(V16, V17, V18, V19, V20, V21, V22, V23)
	ZERO_SUMS
	LOAD_PLANES(0)
	DOT_PLANES(16, 17, 20, 21)
	FLDPQ (R15), (F24, F25)
	ALL_SUMS(SCALED)
	SECOND_HALF(18, 19, 8, 9, 10, 11)
	SECOND_HALF(22, 23, 12, 13, 14, 15)
	FINISH(TIMES)
	ADD  $512, R1
	ADD  $64, R3
	ADD  $128, R15
	ADD  R9, R6
	SUB  $1, R8
	CBNZ R8, halves

store:
	STORE_SUMS(F0, F1, F2, F3, F4, F5, F6, F7)
	RET
