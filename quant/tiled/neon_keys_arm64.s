//go:build !noasm

// Hand-written: arm64 has no other score kernels than these and those in neon_keys_i8mm_arm64.s.

#include "go_asm.h"
#include "textflag.h"
#include "neon_arm64.h"
#include "neon_codes_arm64.h"
#include "neon_panel_arm64.h"
#include "neon_keys_arm64.h"

// Scores with SDOT; see neon_keys_arm64.h. The zero point of codes is 128, so flipping the
// highest bit makes them signed. V31 is 128 in every byte.

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

// func scoresDot4NEON(a *scoreArgs, query int)
// It scores queries query to query+3, 8 keys at a time. x is interleaved by pairs of
// queries.
//
//	V0-V7 float sums, V8-V15 integer sums, two registers per query
//	V16-V23 a group of the queries, two interleaved queries in four registers
TEXT ·scoresDot4NEON(SB), NOSPLIT, $0-16
	SCORE_ARGS
	KEY_STEPS
	SUB   $64, R10
	VMOVI $128, V31.B16

keys:
	ZERO4(V0, V1, V2, V3)
	ZERO4(V4, V5, V6, V7)
	MOVD R1, R13
	MOVD R5, R14
	MOVD R6, R15
	MOVD R8, R16

group:
	VLD1.P 64(R14), [V16.B16, V17.B16, V18.B16, V19.B16]
	VLD1.P (R14)(R10), [V20.B16, V21.B16, V22.B16, V23.B16]
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
	NEXT_KEYS
	RET

// func scoresDot1NEON(a *scoreArgs, query int)
// It scores one query, 16 keys at a time. x is not interleaved.
//
//	V0-V3 float sums   V4-V7 integer sums
TEXT ·scoresDot1NEON(SB), NOSPLIT, $0-16
	SCORE_ARGS
	VMOVI $128, V31.B16

keys:
	ZERO4(V0, V1, V2, V3)
	MOVD R5, R14
	MOVD R6, R15
	MOVD R8, R16

group:
	VLD1.P  (R14)(R10), [V16.B16, V17.B16]
	VLD1R.P (R15)(R9), [V28.S4]
	ZERO4(V4, V5, V6, V7)
	DOT_BYTES
	ADD_SCALED(28, 4, 0)
	ADD_SCALED(28, 5, 1)
	ADD_SCALED(28, 6, 2)
	ADD_SCALED(28, 7, 3)
	SUB   $1, R16
	CBNZ  R16, group

	STORE_KEYS
	RET
