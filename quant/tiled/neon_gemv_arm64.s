//go:build !noasm

// Hand-written: arm64 has one vector width, so there is nothing to generate for
// several widths; macros share the code between formats.

#include "go_asm.h"
#include "textflag.h"
#include "neon_arm64.h"
#include "neon_codes_arm64.h"

// GEMV kernels with SDOT. With i the integer sum of a group, they compute
//
//	sums[row] += Σ i·scale·d + shift·min     over the groups
//
// for groups of a packed tile of 16 rows and one token. They unpack codes in registers.
// The caller decodes the scales beforehand, except for gemvQ4NEON and gemvQ8NEON.
//
//	R0 sums   R1 codes   R2 bytes from the end of a group to the next   R3 scales
//	R4 mins or nil   R5 x   R6 dx   R7 shift   R8 start   R9 startStep
//	R10 groups left   R15, R16 bytes from a group to the next in x and in dx
//
//	V0-V3 float sums   V4-V7 integer sums of a group, or of its first half
//	V8-V11 integer sums of its second half   V12-V15, V20-V23 codes
//	V16, V17 elements of the token   V18 15 in every byte   V19 startBits

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

// START sets the integer sums a to d to start - startBits and advances start.
#define START(a, b, c, d) \
	VLD1R (R8), [a.S4]       \
	ADD   R9, R8             \
	VSUB  V19.S4, a.S4, a.S4 \
	VMOV  a.B16, b.B16       \
	VMOV  a.B16, c.B16       \
	VMOV  a.B16, d.B16

#define ZERO_SUMS ZERO4(V4, V5, V6, V7)

// SECOND is HIGH with V8-V11 as the sums, for formats with half groups.
#define SECOND(p, a, b, c, d) \
	SDOT(17, p, a, 8)  \
	SDOT(17, p, b, 9)  \
	SDOT(17, p, c, 10) \
	SDOT(17, p, d, 11)

// LOAD16 loads the next 16 scales or factors to V12-V15.
#define LOAD16(from) VLD1.P 64(from), [V12.S4, V13.S4, V14.S4, V15.S4]

#define TIMES(scale, a) FMUL4(scale, a, a)

// FINISH scales the sums in V4-V7 by V12-V15 with OP and adds them, times dx in V20,
// to V0-V3.
#define FINISH(OP) \
	OP(12, 4)          \
	OP(13, 5)          \
	OP(14, 6)          \
	OP(15, 7)          \
	FMLA4(20, 0, 4, 0) \
	FMLA4(20, 0, 5, 1) \
	FMLA4(20, 0, 6, 2) \
	FMLA4(20, 0, 7, 3)

// FINISH_GROUP adds a group with one scale, and its min if R4 is not nil. Without a
// min, it jumps to the label next.
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
// Q4_1, Q4_K and I4Z: the code is the nibble.
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

// FINISH_BLOCK adds a group whose binary16 scales are in V24 and V25.
#define FINISH_BLOCK \
	VLD1R.P (R6)(R16), [V20.S4] \
	FCVTL4(24, 12)          \
	FCVTL24(24, 13)         \
	FCVTL4(25, 14)          \
	FCVTL24(25, 15)         \
	FINISH(SCALED)          \
	SUB     $1, R10

// func gemvQ4NEON(a *neonGEMV)
// Q4_0. codes points to tile blocks: 16 binary16 scales, then nibbles. The kernel does
// not read scales and mins.
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
// IQ4_NL, IQ4_XS, MXFP4 and NF4: table has the signed code of each nibble. The kernel
// does not read start.
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
// Q5_0, Q5_1 and Q5_K.
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

// SIX unpacks 6-bit codes of four rows: it splits the nibbles in codes, shifts the
// 2-bit fields in first and second to bits 4 and 5 with op, and adds them. It adds the
// products of the low codes to sum and leaves the high codes in codes.
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
// Q6_K. R14 points to the factors, one for each half of a group.
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
// Q8_0. codes points to tile blocks: 16 binary16 scales, then codes with zero point
// 128. The kernel does not read scales, mins and start.
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
