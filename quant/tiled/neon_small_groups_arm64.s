//go:build !noasm

// Hand-written: arm64 has one vector width, so there is nothing to generate for
// several widths; macros share the code between formats.

#include "go_asm.h"
#include "textflag.h"
#include "neon_arm64.h"
#include "neon_panel_arm64.h"
#include "neon_dot_arm64.h"
#include "neon_small_arm64.h"

// Kernels of groups for four tokens, which add to the sums of one tile; see neon_small_arm64.h.
// The caller decodes the scales beforehand.
//
//	R0 sums   R1 codes   R2 bytes from a group to the next   R3 scales
//	R7 mins   R14 shift   R12 bytes to these rows in planes and scales

#define GROUPS_ARGS \
	MOVD a+0(FP), R11             \
	MOVD neonGEMV_sums(R11), R13  \
	MOVD neonGEMV_codes(R11), R1  \
	MOVD neonGEMV_stride(R11), R2 \
	FOUR_WIDTH                    \
	VMOVI $15, V28.B16

// BEGIN_GROUPS begins rows.
#define BEGIN_GROUPS \
	ADD  R12, R1, R4               \
	MOVD neonGEMV_scales(R11), R3  \
	ADD  R12, R3                   \
	MOVD neonGEMV_x(R11), R5       \
	MOVD neonGEMV_dx(R11), R6      \
	MOVD neonGEMV_groups(R11), R10

#define LOAD_ROWS \
	FLDPQ (R13), (F0, F1)    \
	FLDPQ 64(R13), (F2, F3)  \
	FLDPQ 128(R13), (F4, F5) \
	FLDPQ 192(R13), (F6, F7)

// SCALE_GROUP adds the integer sums of a group, times the scales and dx, to the float sums.
#define SCALE_GROUP \
	FLDPQ.P 64(R3), (F24, F25)     \
	VLD1.P  (R6)(R16), [V26.S4]    \
	FLOATS(8, 9, 10, 11)           \
	FLOATS(12, 13, 14, 15)         \
	FINISH

// func small4MinNEON(a *neonGEMV)
// Q4_1, Q4_K and I4Z: the code is the nibble, and groups have a min.
TEXT ·small4MinNEON(SB), NOSPLIT, $0-8
	GROUPS_ARGS
	MOVD $0, R12

rows:
	BEGIN_GROUPS
	MOVD neonGEMV_mins(R11), R7
	ADD  R12, R7
	MOVD neonGEMV_shift(R11), R14
	LOAD_ROWS

loop:
	LOAD_FOUR
	ZERO_SUMS
	NIBBLES4(0, 0, 16, 20, 18, 22)
	NIBBLES4(64, 1, 16, 20, 18, 22)
	NIBBLES4(128, 0, 17, 21, 19, 23)
	NIBBLES4(192, 1, 17, 21, 19, 23)
	SCALE_GROUP
	FLDPQ.P 64(R7), (F24, F25)
	VLD1.P  (R14)(R16), [V26.S4]
	ADD_TOKENS(24, 25, 24, 25, 24, 25, 24, 25)
	ADD  R2, R4
	SUB  $1, R10
	CBNZ R10, loop
	STORE_ROWS
	ADD  $32, R13
	ADD  $32, R12
	TBZ  $6, R12, rows
	RET

// TABLE4 is NIBBLES4 with V30 as the signed code of each nibble.
#define TABLE4(at, i, x, y, highX, highY) \
	FLDPQ at(R4), (F26, F27)          \
	VAND  V28.B16, V26.B16, V24.B16   \
	VAND  V28.B16, V27.B16, V25.B16   \
	VUSHR $4, V26.B16, V26.B16        \
	VUSHR $4, V27.B16, V27.B16        \
	VTBL  V24.B16, [V30.B16], V24.B16 \
	VTBL  V25.B16, [V30.B16], V25.B16 \
	VTBL  V26.B16, [V30.B16], V26.B16 \
	VTBL  V27.B16, [V30.B16], V27.B16 \
	DOT(24, 25, i, x, y)              \
	DOT(26, 27, i, highX, highY)

// func small4TableNEON(a *neonGEMV)
// IQ4_NL, IQ4_XS, MXFP4 and NF4: table has the signed code of each nibble.
TEXT ·small4TableNEON(SB), NOSPLIT, $0-8
	GROUPS_ARGS
	ADD  $neonGEMV_table, R11, R12
	VLD1 (R12), [V30.B16]
	MOVD $0, R12

rows:
	BEGIN_GROUPS
	LOAD_ROWS

loop:
	LOAD_FOUR
	ZERO_SUMS
	TABLE4(0, 0, 16, 20, 18, 22)
	TABLE4(64, 1, 16, 20, 18, 22)
	TABLE4(128, 0, 17, 21, 19, 23)
	TABLE4(192, 1, 17, 21, 19, 23)
	SCALE_GROUP
	ADD  R2, R4
	SUB  $1, R10
	CBNZ R10, loop
	STORE_ROWS
	ADD  $32, R13
	ADD  $32, R12
	TBZ  $6, R12, rows
	RET
