//go:build !noasm

// Hand-written: these are the only score kernels with USMMLA and USDOT.

#include "go_asm.h"
#include "textflag.h"
#include "neon_arm64.h"
#include "neon_codes_arm64.h"
#include "neon_keys_arm64.h"

// Scores with matrix products of unsigned codes; see neon_keys_arm64.h. start subtracts the
// zero point of codes.

// ZIP_KEYS loads two planes of 8 keys and brings the eight codes of each key together, two
// keys in each register of V28-V31.
#define ZIP_KEYS(offset) \
	FLDPQ offset+0(R13), (F24, F25)  \
	FLDPQ offset+64(R13), (F26, F27) \
	VZIP1 V26.S4, V24.S4, V28.S4     \
	VZIP2 V26.S4, V24.S4, V29.S4     \
	VZIP1 V27.S4, V25.S4, V30.S4     \
	VZIP2 V27.S4, V25.S4, V31.S4

// MUL_KEYS adds the products of two planes of 8 keys with eight elements of four queries,
// two in x and two in y.
#define MUL_KEYS(offset, x, y) \
	ZIP_KEYS(offset)  \
	USMMLA(x, 28, 8)  \
	USMMLA(x, 29, 9)  \
	USMMLA(x, 30, 10) \
	USMMLA(x, 31, 11) \
	USMMLA(y, 28, 12) \
	USMMLA(y, 29, 13) \
	USMMLA(y, 30, 14) \
	USMMLA(y, 31, 15)

// BEGIN_KEYS sets the integer sums of four queries to start - startBits, which is in R22.
#define BEGIN_KEYS \
	FMOVQ (R17), F24            \
	ADD   R9, R17               \
	VDUP  R22, V25.S4           \
	VSUB  V25.S4, V24.S4, V24.S4 \
	VDUP  V24.D[0], V8.D2       \
	VDUP  V24.D[0], V9.D2       \
	VDUP  V24.D[0], V10.D2      \
	VDUP  V24.D[0], V11.D2      \
	VDUP  V24.D[1], V12.D2      \
	VDUP  V24.D[1], V13.D2      \
	VDUP  V24.D[1], V14.D2      \
	VDUP  V24.D[1], V15.D2

// func scoresMatrix4NEON(a *scoreArgs, query int)
// It scores queries query to query+3, 8 keys at a time. x is interleaved by pairs of
// queries, and so are sums: those of the first key and two queries, then of the second.
//
//	V0-V3 float sums, V8-V11 integer sums of 8 keys with the first two queries
//	V4-V7, V12-V15 those with the other two
//	V16-V23 a group of the queries, two interleaved queries in four registers
TEXT ·scoresMatrix4NEON(SB), NOSPLIT, $0-16
	SCORE_ARGS
	KEY_STEPS
	SUB  $64, R10
	MOVD $const_startBits, R22

keys:
	ZERO4(V0, V1, V2, V3)
	ZERO4(V4, V5, V6, V7)
	MOVD R1, R13
	MOVD R5, R14
	MOVD R6, R15
	MOVD R7, R17
	MOVD R8, R16

group:
	VLD1.P 64(R14), [V16.B16, V17.B16, V18.B16, V19.B16]
	VLD1.P (R14)(R10), [V20.B16, V21.B16, V22.B16, V23.B16]
	BEGIN_KEYS
	MUL_KEYS(0, 16, 20)
	MUL_KEYS(128, 17, 21)
	MUL_KEYS(256, 18, 22)
	MUL_KEYS(384, 19, 23)
	FMOVQ  (R15), F26
	ADD    R9, R15
	VDUP   V26.D[0], V24.D2
	VDUP   V26.D[1], V25.D2
	FLOATS(8, 9, 10, 11)
	FLOATS(12, 13, 14, 15)
	FMLA44(24, 8, 0)
	FMLA44(24, 9, 1)
	FMLA44(24, 10, 2)
	FMLA44(24, 11, 3)
	FMLA44(25, 12, 4)
	FMLA44(25, 13, 5)
	FMLA44(25, 14, 6)
	FMLA44(25, 15, 7)
	ADD    $512, R13
	SUB    $1, R16
	CBNZ   R16, group

	FLDPQ.P 32(R3), (F24, F25)
	VUZP1   V1.S4, V0.S4, V8.S4
	VUZP1   V3.S4, V2.S4, V9.S4
	VUZP2   V1.S4, V0.S4, V10.S4
	VUZP2   V3.S4, V2.S4, V11.S4
	VUZP1   V5.S4, V4.S4, V12.S4
	VUZP1   V7.S4, V6.S4, V13.S4
	VUZP2   V5.S4, V4.S4, V14.S4
	VUZP2   V7.S4, V6.S4, V15.S4
	STORE_QUERY(8, 9, F8, F9, 0)
	STORE_QUERY(10, 11, F10, F11, 256)
	STORE_QUERY(12, 13, F12, F13, 512)
	STORE_QUERY(14, 15, F14, F15, 768)
	NEXT_KEYS
	RET

// MIXED loads a plane of 16 keys and adds its products with elements 4p to 4p+3 in x.
#define MIXED(x, p) \
	VLD1.P 64(R1), [V12.B16, V13.B16, V14.B16, V15.B16] \
	USDOT(x, p, 12, 4) \
	USDOT(x, p, 13, 5) \
	USDOT(x, p, 14, 6) \
	USDOT(x, p, 15, 7)

// func scoresMixed1NEON(a *scoreArgs, query int)
// It scores one query, 16 keys at a time. x is not interleaved.
//
//	V0-V3 float sums   V4-V7 integer sums   V31 startBits
TEXT ·scoresMixed1NEON(SB), NOSPLIT, $0-16
	SCORE_ARGS
	MOVD $const_startBits, R22
	VDUP R22, V31.S4

keys:
	ZERO4(V0, V1, V2, V3)
	MOVD R5, R14
	MOVD R6, R15
	MOVD R7, R17
	MOVD R8, R16

group:
	VLD1.P  (R14)(R10), [V16.B16, V17.B16]
	VLD1R.P (R15)(R9), [V28.S4]
	VLD1R.P (R17)(R9), [V7.S4]
	VSUB    V31.S4, V7.S4, V4.S4
	VSUB    V31.S4, V7.S4, V5.S4
	VSUB    V31.S4, V7.S4, V6.S4
	VSUB    V31.S4, V7.S4, V7.S4
	MIXED(16, 0)
	MIXED(16, 1)
	MIXED(16, 2)
	MIXED(16, 3)
	MIXED(17, 0)
	MIXED(17, 1)
	MIXED(17, 2)
	MIXED(17, 3)
	ADD_SCALED(28, 4, 0)
	ADD_SCALED(28, 5, 1)
	ADD_SCALED(28, 6, 2)
	ADD_SCALED(28, 7, 3)
	SUB     $1, R16
	CBNZ    R16, group
	STORE_KEYS
	RET
