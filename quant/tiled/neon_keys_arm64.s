//go:build !noasm

// Hand-written: arm64 has no other score kernels.

#include "go_asm.h"
#include "textflag.h"
#include "neon_arm64.h"
#include "neon_codes_arm64.h"
#include "neon_panel_arm64.h"

// Scores of queries with a block of 64 8-bit keys, with SDOT:
//
//	y[q][key] = scale·Σ i·d     over the groups
//
// where i is the integer sum of a group. The zero point of codes is 128, so flipping
// the highest bit makes them signed.
//
//	R1 codes   R2 y   R3 scales   R5 x   R6 dx   R8 groups   R12 keys left
//	R9 bytes of dx in a group   R10 bytes of x in a group   V31 128 in every byte
//	R13, R14, R15, R16 codes, x, dx and groups left of the current keys

// SCORE_ARGS loads the arguments (a *scoreArgs, query int).
#define SCORE_ARGS \
	MOVD  a+0(FP), R0             \
	MOVD  query+8(FP), R12        \
	MOVD  scoreArgs_codes(R0), R1  \
	MOVD  scoreArgs_y(R0), R2      \
	MOVD  scoreArgs_scales(R0), R3 \
	MOVD  scoreArgs_x(R0), R5      \
	MOVD  scoreArgs_dx(R0), R6     \
	MOVD  scoreArgs_groups(R0), R8 \
	MOVD  scoreArgs_width(R0), R9  \
	ADD   R12<<8, R2               \
	ADD   R12<<5, R5               \
	ADD   R12<<2, R6               \
	LSL   $5, R9, R10              \
	LSL   $2, R9                   \
	VMOVI $128, V31.B16

// SIGNED_PAIRS loads two planes of codes of 8 keys and subtracts 128.
#define SIGNED_PAIRS(offset) \
	FLDPQ offset+0(R13), (F24, F25)  \
	FLDPQ offset+64(R13), (F26, F27) \
	VEOR  V31.B16, V24.B16, V24.B16  \
	VEOR  V31.B16, V25.B16, V25.B16  \
	VEOR  V31.B16, V26.B16, V26.B16  \
	VEOR  V31.B16, V27.B16, V27.B16

#define DOT_PAIRS(offset, x, y) \
	SIGNED_PAIRS(offset)  \
	DOT(24, 25, 0, x, y)  \
	DOT(26, 27, 1, x, y)

// ADD_QUERY adds the integer sums a and b, times lane i of dx in V28, to lo and hi.
#define ADD_QUERY(i, a, b, lo, hi) \
	SCVTF4(a, a)        \
	SCVTF4(b, b)        \
	FMLA4(28, i, a, lo) \
	FMLA4(28, i, b, hi)

// STORE_QUERY multiplies the sums a and b of 8 keys by the scales in V24 and V25 and
// stores them. A and B are the F names of the same registers.
#define STORE_QUERY(a, b, A, B, offset) \
	FMUL4(24, a, a)        \
	FMUL4(25, b, b)        \
	FSTPQ (A, B), offset(R2)

// func scoresDot4NEON(a *scoreArgs, query int)
// It scores queries query to query+3, 8 keys at a time. x is interleaved by pairs of
// queries.
//
//	V0-V7 float sums, V8-V15 integer sums, two registers per query
//	V16-V23 a group of the queries, two interleaved queries in four registers
//	R19 bytes from these 8 keys to the next, in the same or in the next tile
//	R20 the distance after that
TEXT ·scoresDot4NEON(SB), NOSPLIT, $0-16
	SCORE_ARGS
	MOVD $32, R19
	LSL  $9, R8, R20
	SUB  $32, R20
	MOVD $const_KeyBlock, R12

keys:
	ZERO4(V0, V1, V2, V3)
	ZERO4(V4, V5, V6, V7)
	MOVD R1, R13
	MOVD R5, R14
	MOVD R6, R15
	MOVD R8, R16

group:
	ADD   $64, R14, R17
	VLD1  (R14), [V16.B16, V17.B16, V18.B16, V19.B16]
	VLD1  (R17), [V20.B16, V21.B16, V22.B16, V23.B16]
	ADD   R10, R14
	FMOVQ (R15), F28
	ADD   R9, R15
	ZERO_SUMS
	DOT_PAIRS(0, 16, 20)
	DOT_PAIRS(128, 17, 21)
	DOT_PAIRS(256, 18, 22)
	DOT_PAIRS(384, 19, 23)
	ADD_QUERY(0, 8, 9, 0, 1)
	ADD_QUERY(1, 10, 11, 2, 3)
	ADD_QUERY(2, 12, 13, 4, 5)
	ADD_QUERY(3, 14, 15, 6, 7)
	ADD   $512, R13
	SUB   $1, R16
	CBNZ  R16, group

	FLDPQ.P 32(R3), (F24, F25)
	STORE_QUERY(0, 1, F0, F1, 0)
	STORE_QUERY(2, 3, F2, F3, 256)
	STORE_QUERY(4, 5, F4, F5, 512)
	STORE_QUERY(6, 7, F6, F7, 768)
	ADD     $32, R2
	ADD     R19, R1
	MOVD    R19, R21
	MOVD    R20, R19
	MOVD    R21, R20
	SUBS    $8, R12
	BNE     keys
	RET

// func scoresDot1NEON(a *scoreArgs, query int)
// It scores one query, 16 keys at a time. x is not interleaved.
//
//	V0-V3 float sums   V4-V7 integer sums
TEXT ·scoresDot1NEON(SB), NOSPLIT, $0-16
	SCORE_ARGS
	MOVD $const_KeyBlock, R12

keys:
	ZERO4(V0, V1, V2, V3)
	MOVD R5, R14
	MOVD R6, R15
	MOVD R8, R16

group:
	VLD1  (R14), [V16.B16, V17.B16]
	ADD   R10, R14
	VLD1R (R15), [V28.S4]
	ADD   R9, R15
	ZERO4(V4, V5, V6, V7)
	DOT_BYTES
	ADD_SCALED(28, 4, 0)
	ADD_SCALED(28, 5, 1)
	ADD_SCALED(28, 6, 2)
	ADD_SCALED(28, 7, 3)
	SUB   $1, R16
	CBNZ  R16, group

	VLD1.P 64(R3), [V12.S4, V13.S4, V14.S4, V15.S4]
	FMUL4(12, 0, 0)
	FMUL4(13, 1, 1)
	FMUL4(14, 2, 2)
	FMUL4(15, 3, 3)
	VST1.P [V0.S4, V1.S4, V2.S4, V3.S4], 64(R2)
	SUBS   $16, R12
	BNE    keys
	RET
