//go:build !noasm

// Hand-written: arm64 has one vector width, and macros share what its formats have in common.

#include "go_asm.h"
#include "textflag.h"
#include "neon_arm64.h"
#include "neon_codes_arm64.h"

// The vector kernels with SDOT: sixteen rows of groups, as they are stored,
// times one token. Codes never leave the registers; scales were decoded before.
//
//	R0 sums    R1 codes  R2 from the end of a group to the next  R3 scales
//	R4 mins    R5 x      R6 dx   R7 shift   R8 start  R9 its step  R10 groups
//	R15, R16 from a group to the next of x and dx
//
//	V0-V3 sums of floats   V4-V7 sums of integers of a group, or of its first
//	half and V8-V11 of its second   V12-V15 codes  V16, V17 x  V19 startBits

#define VEC_ARGS(size) \
	MOVD  a+0(FP), R11                       \
	MOVD  neonGEMV_sums(R11), R0              \
	MOVD  neonGEMV_codes(R11), R1             \
	MOVD  neonGEMV_stride(R11), R2            \
	SUB   $size, R2                          \
	MOVD  neonGEMV_scales(R11), R3            \
	MOVD  neonGEMV_mins(R11), R4              \
	MOVD  neonGEMV_x(R11), R5                 \
	MOVD  neonGEMV_dx(R11), R6                \
	MOVD  neonGEMV_shift(R11), R7             \
	MOVD  neonGEMV_start(R11), R8             \
	MOVD  neonGEMV_startStep(R11), R9         \
	MOVD  neonGEMV_groups(R11), R10           \
	MOVD  neonGEMV_width(R11), R16            \
	LSL   $5, R16, R15                       \
	LSL   $2, R16                            \
	VLD1  (R0), [V0.S4, V1.S4, V2.S4, V3.S4] \
	VMOVI $15, V18.B16                       \
	MOVD  $const_startBits, R12              \
	VDUP  R12, V19.S4

#define LOAD_X VLD1.P (R5)(R15), [V16.B16, V17.B16]

// START begins the sums of a half where the token says, the next two with nothing.
#define START(a, b, c, d) \
	VLD1R (R8), [a.S4]       \
	ADD   R9, R8             \
	VSUB  V19.S4, a.S4, a.S4 \
	VMOV  a.B16, b.B16       \
	VMOV  a.B16, c.B16       \
	VMOV  a.B16, d.B16

#define ZERO_SUMS ZERO4(V4, V5, V6, V7)

// SECOND is HIGH where the second half has sums of its own.
#define SECOND(p, a, b, c, d) \
	SDOT(17, p, a, 8)  \
	SDOT(17, p, b, 9)  \
	SDOT(17, p, c, 10) \
	SDOT(17, p, d, 11)

// LOAD16 loads the next sixteen scales or factors.
#define LOAD16(from) VLD1.P 64(from), [V12.S4, V13.S4, V14.S4, V15.S4]

// FINISH adds the sums in V4 to V7, times dx in V20, after OP scaled them with
// what V12 to V15 have.
#define TIMES(scale, a) FMUL4(scale, a, a)

#define FINISH(OP) \
	OP(12, 4)          \
	OP(13, 5)          \
	OP(14, 6)          \
	OP(15, 7)          \
	FMLA4(20, 0, 4, 0) \
	FMLA4(20, 0, 5, 1) \
	FMLA4(20, 0, 6, 2) \
	FMLA4(20, 0, 7, 3)

// FINISH_GROUP adds a group with one scale, and then its min.
#define FINISH_GROUP \
	VLD1R.P (R6)(R16), [V20.S4]                          \
	LOAD16(R3)                                       \
	FINISH(SCALED)                                   \
	CBZ     R4, next                                 \
	VLD1R.P (R7)(R16), [V20.S4]                          \
	VLD1.P  64(R4), [V12.S4, V13.S4, V14.S4, V15.S4] \
	FMLA4(20, 0, 12, 0)                              \
	FMLA4(20, 0, 13, 1)                              \
	FMLA4(20, 0, 14, 2)                              \
	FMLA4(20, 0, 15, 3)

#define NEXT_GROUP \
	ADD R2, R1 \
	SUB $1, R10

#define STORE_SUMS \
	VST1 [V0.S4, V1.S4, V2.S4, V3.S4], (R0)

#define SPLIT4 \
	LOAD_NIBBLES    \
	SPLIT(V12, V20) \
	SPLIT(V13, V21) \
	SPLIT(V14, V22) \
	SPLIT(V15, V23)

#define VEC4(p) \
	SPLIT4                 \
	LOW(p, 20, 21, 22, 23) \
	HIGH(p, 12, 13, 14, 15)

// func gemv4NEON(a *neonGEMV)
// Nibbles that stand for themselves.
TEXT ·gemv4NEON(SB), NOSPLIT, $0-8
	VEC_ARGS(256)

loop:
	LOAD_X
	START(V4, V5, V6, V7)
	VEC4(0)
	VEC4(1)
	VEC4(2)
	VEC4(3)
	FINISH_GROUP

next:
	NEXT_GROUP
	CBNZ R10, loop
	STORE_SUMS
	RET

// FINISH_BLOCK adds a group whose scales, in binary16, are V24 and V25.
#define FINISH_BLOCK \
	VLD1R.P (R6)(R16), [V20.S4] \
	FCVTL4(24, 12)          \
	FCVTL24(24, 13)         \
	FCVTL4(25, 14)          \
	FCVTL24(25, 15)         \
	FINISH(SCALED)          \
	SUB     $1, R10

// func gemvQ4NEON(a *neonGEMV)
// Blocks of Q4_0: scales, then nibbles that stand for themselves.
TEXT ·gemvQ4NEON(SB), NOSPLIT, $0-8
	VEC_ARGS(0)

loop:
	LOAD_X
	VLD1.P 32(R1), [V24.H8, V25.H8]
	START(V4, V5, V6, V7)
	VEC4(0)
	VEC4(1)
	VEC4(2)
	VEC4(3)
	FINISH_BLOCK
	CBNZ R10, loop
	STORE_SUMS
	RET

#define LOOK_UP(codes) VTBL codes.B16, [V31.B16], codes.B16

#define VEC_TABLE(p) \
	SPLIT4                 \
	LOOK_UP(V20)           \
	LOOK_UP(V21)           \
	LOOK_UP(V22)           \
	LOOK_UP(V23)           \
	LOOK_UP(V12)           \
	LOOK_UP(V13)           \
	LOOK_UP(V14)           \
	LOOK_UP(V15)           \
	LOW(p, 20, 21, 22, 23) \
	HIGH(p, 12, 13, 14, 15)

// func gemvTableNEON(a *neonGEMV)
// Nibbles that stand for the signed numbers of a table: start is not read.
TEXT ·gemvTableNEON(SB), NOSPLIT, $0-8
	VEC_ARGS(256)
	ADD  $neonGEMV_table, R11
	VLD1 (R11), [V31.B16]

loop:
	LOAD_X
	ZERO_SUMS
	VEC_TABLE(0)
	VEC_TABLE(1)
	VEC_TABLE(2)
	VEC_TABLE(3)
	FINISH_GROUP

next:
	NEXT_GROUP
	CBNZ R10, loop
	STORE_SUMS
	RET

#define VEC5(p) \
	SPLIT4                   \
	VLD1R.P 8(R12), [V31.D2] \
	FIFTH(V31, V24, V20)     \
	FIFTH(V31, V25, V21)     \
	FIFTH(V31, V26, V22)     \
	FIFTH(V31, V27, V23)     \
	LOW(p, 20, 21, 22, 23)   \
	VLD1R.P 8(R13), [V31.D2] \
	FIFTH(V31, V24, V12)     \
	FIFTH(V31, V25, V13)     \
	FIFTH(V31, V26, V14)     \
	FIFTH(V31, V27, V15)     \
	HIGH(p, 12, 13, 14, 15)

// func gemv5NEON(a *neonGEMV)
// Codes of 5 bits.
TEXT ·gemv5NEON(SB), NOSPLIT, $0-8
	VEC_ARGS(320)
	FIVE_CONSTANTS

loop:
	LOAD_X
	START(V4, V5, V6, V7)
	MOVD R1, R12
	ADD  $32, R1, R13
	ADD  $64, R1
	VEC5(0)
	VEC5(1)
	VEC5(2)
	VEC5(3)
	FINISH_GROUP

next:
	NEXT_GROUP
	CBNZ R10, loop
	STORE_SUMS
	RET

// SIX adds high bits, shifted into place by op, to the low nibbles in V20 and to
// the high nibbles in codes, and then the products of both.
#define SIX(p, op, places, codes, first, second, sum) \
	SPLIT(codes, V20)              \
	op places, first.B16, V30.B16  \
	HIGH2(V20)                     \
	SDOT(16, p, 20, sum)           \
	op places, second.B16, V30.B16 \
	HIGH2(codes)

#define VEC6(p, op, places) \
	LOAD_NIBBLES                         \
	SIX(p, op, places, V12, V24, V31, 4) \
	SIX(p, op, places, V13, V25, V21, 5) \
	SIX(p, op, places, V14, V26, V22, 6) \
	SIX(p, op, places, V15, V27, V23, 7) \
	SECOND(p, 12, 13, 14, 15)

// func gemv6NEON(a *neonGEMV)
// Codes of 6 bits and a factor for each half of a group, which R14 points to.
TEXT ·gemv6NEON(SB), NOSPLIT, $0-8
	VEC_ARGS(384)
	MOVD  neonGEMV_factors(R11), R14
	VMOVI $0x30, V29.B16

loop:
	LOAD_X
	START(V4, V5, V6, V7)
	START(V8, V9, V10, V11)
	VLD1.P 64(R1), [V24.B16, V25.B16, V26.B16, V27.B16]
	VLD1   (R1), [V20.B16, V21.B16, V22.B16, V23.B16]
	ADD    $64, R1
	VMOV   V20.B16, V31.B16
	VEC6(0, VSHL, $4)
	VEC6(1, VSHL, $2)
	VEC6(2, VSHL, $0)
	VEC6(3, VUSHR, $2)
	VLD1R.P (R6)(R16), [V20.S4]
	LOAD16(R14)
	SCALED(12, 4)
	SCALED(13, 5)
	SCALED(14, 6)
	SCALED(15, 7)
	LOAD16(R14)
	ADD_SCALED(12, 8, 4)
	ADD_SCALED(13, 9, 5)
	ADD_SCALED(14, 10, 6)
	ADD_SCALED(15, 11, 7)
	LOAD16(R3)
	FINISH(TIMES)
	NEXT_GROUP
	CBNZ R10, loop
	STORE_SUMS
	RET

// func gemvQ8NEON(a *neonGEMV)
// Blocks of Q8_0: scales, then codes with a zero of 128. start is not read.
TEXT ·gemvQ8NEON(SB), NOSPLIT, $0-8
	VEC_ARGS(0)
	VMOVI $128, V31.B16

loop:
	LOAD_X
	VLD1.P 32(R1), [V24.H8, V25.H8]
	ZERO_SUMS
	DOT_BYTES
	FINISH_BLOCK
	CBNZ R10, loop
	STORE_SUMS
	RET
