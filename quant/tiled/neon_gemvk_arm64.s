//go:build !noasm

// Hand-written: arm64 has one vector width, so there is nothing to generate for
// several widths; macros share the code between formats.

#include "go_asm.h"
#include "textflag.h"
#include "neon_arm64.h"
#include "neon_codes_arm64.h"
#include "neon_gemv_arm64.h"

// GEMV kernels of whole tiles for K formats; see neon_gemv_arm64.h.
//
// The scale of a group is the block's scale times an integer, and so is its min. The
// kernels multiply the integer sums by the integers: the result is an integer below
// 2²⁴, so the only rounding is that of the product with the block's scale. The
// portable kernel rounds the same product.

// BLOCK_SCALE converts the next 16 binary16 numbers to float32 and stores them.
#define BLOCK_SCALE(to) \
	VLD1.P 32(R1), [V16.H8, V17.H8] \
	FCVTL4(16, 12)                  \
	FCVTL24(16, 13)                 \
	FCVTL4(17, 14)                  \
	FCVTL24(17, 15)                 \
	VST1   [V12.S4, V13.S4, V14.S4, V15.S4], (to)

// PAIRS_CONSTANTS loads the VTBL indices that zero-extend bytes to 32 bits, for each
// quarter of a register, and sets V19 to 0x30 in every byte.
#define PAIRS_CONSTANTS \
	MOVD  $·widenTable(SB), R12                     \
	VLD1  (R12), [V8.B16, V9.B16, V10.B16, V11.B16] \
	VMOVI $0x30, V19.B16

// PAIRS_HEAD reads the head of a Q4_K or Q5_K block and points R20 and R21 to the low
// nibbles and the high bits of its scales and mins.
#define PAIRS_HEAD \
	BLOCK_SCALE(R3)     \
	BLOCK_SCALE(R4)     \
	MOVD R1, R20        \
	ADD  $128, R1, R21  \
	ADD  $192, R1       \
	MOVD $4, R17

// LAST_PAIRS prepares the second half of a block, whose high bits are at the same place.
#define LAST_PAIRS \
	SUB  $64, R21 \
	MOVD $4, R17

#define WIDEN(from) \
	VTBL V8.B16, [from.B16], V12.B16  \
	VTBL V9.B16, [from.B16], V13.B16  \
	VTBL V10.B16, [from.B16], V14.B16 \
	VTBL V11.B16, [from.B16], V15.B16

// SCALE_SUMS multiplies the integer sums by V12-V15.
#define SCALE_SUMS \
	MUL4(12, 4, 4) \
	MUL4(13, 5, 5) \
	MUL4(14, 6, 6) \
	MUL4(15, 7, 7)

// ADD_PRODUCTS adds the integers in a to d, times the floats at from and times the next
// float at factors, to V0-V3.
#define ADD_PRODUCTS(a, b, c, d, from, factors) \
	VLD1    (from), [V20.S4, V21.S4, V22.S4, V23.S4] \
	VLD1R.P (factors)(R16), [V17.S4]                 \
	FLOATS(a, b, c, d)                               \
	FMUL4(20, a, a)                                  \
	FMUL4(21, b, b)                                  \
	FMUL4(22, c, c)                                  \
	FMUL4(23, d, d)                                  \
	FMLA4(17, 0, a, 0)                               \
	FMLA4(17, 0, b, 1)                               \
	FMLA4(17, 0, c, 2)                               \
	FMLA4(17, 0, d, 3)

// END_PAIRS adds a group. op and minOp shift the high bits of its scale and min to bits
// 4 and 5.
#define END_PAIRS(op, places, minOp, minPlaces) \
	VLD1.P 16(R20), [V16.B16]              \
	VLD1.P 16(R21), [V17.B16]              \
	VAND   V18.B16, V16.B16, V20.B16       \
	VUSHR  $4, V16.B16, V16.B16            \
	op     places, V17.B16, V21.B16        \
	VBIT   V19.B16, V21.B16, V20.B16       \
	minOp  minPlaces, V17.B16, V21.B16     \
	VBIT   V19.B16, V21.B16, V16.B16       \
	WIDEN(V20)                             \
	SCALE_SUMS                             \
	ADD_PRODUCTS(4, 5, 6, 7, R3, R6)       \
	WIDEN(V16)                             \
	ADD_PRODUCTS(12, 13, 14, 15, R4, R7)   \
	SUB    $1, R17

#define GROUP4 \
	LOAD_X    \
	ZERO_SUMS \
	VEC4(0)   \
	VEC4(1)   \
	VEC4(2)   \
	VEC4(3)

// func gemvQ4KNEON(a *neonGEMV)
// Q4_K.
TEXT ·gemvQ4KNEON(SB), NOSPLIT, $0-8
	TILES_ARGS
	PAIRS_CONSTANTS

tile:
	BEGIN_TILE

block:
	PAIRS_HEAD

first:
	GROUP4
	END_PAIRS(VSHL, $4, VSHL, $2)
	CBNZ R17, first
	LAST_PAIRS

last:
	GROUP4
	END_PAIRS(VSHL, $0, VUSHR, $2)
	CBNZ R17, last
	SUB  $1, R10
	CBNZ R10, block
	END_TILE
	RET

#define GROUP5 \
	LOAD_X    \
	ZERO_SUMS \
	FIVE_BITS \
	VEC5(0)   \
	VEC5(1)   \
	VEC5(2)   \
	VEC5(3)

// func gemvQ5KNEON(a *neonGEMV)
// Q5_K.
TEXT ·gemvQ5KNEON(SB), NOSPLIT, $0-8
	TILES_ARGS
	PAIRS_CONSTANTS
	FIVE_CONSTANTS

tile:
	BEGIN_TILE

block:
	PAIRS_HEAD

first:
	GROUP5
	END_PAIRS(VSHL, $4, VSHL, $2)
	CBNZ R17, first
	LAST_PAIRS

last:
	GROUP5
	END_PAIRS(VSHL, $0, VUSHR, $2)
	CBNZ R17, last
	SUB  $1, R10
	CBNZ R10, block
	END_TILE
	RET

// SECOND is HIGH with V8-V11 as the sums, for formats with half groups.
#define SECOND(p, a, b, c, d) \
	SDOT(17, p, a, 8)  \
	SDOT(17, p, b, 9)  \
	SDOT(17, p, c, 10) \
	SDOT(17, p, d, 11)

// SIX unpacks 6-bit codes of four rows: it splits the nibbles in codes, shifts the
// 2-bit fields in first and second to bits 4 and 5 with op, and adds them. It adds the
// products of the low codes to sum and leaves the high codes in codes.
#define SIX(p, op, places, codes, first, second, sum) \
	SPLIT(codes, V28)              \
	op places, first.B16, V30.B16  \
	HIGH2(V28)                     \
	SDOT(16, p, 28, sum)           \
	op places, second.B16, V30.B16 \
	HIGH2(codes)

#define VEC6(p, op, places) \
	LOAD_NIBBLES                         \
	SIX(p, op, places, V12, V24, V20, 4) \
	SIX(p, op, places, V13, V25, V21, 5) \
	SIX(p, op, places, V14, V26, V22, 6) \
	SIX(p, op, places, V15, V27, V23, 7) \
	SECOND(p, 12, 13, 14, 15)

// WIDEN_SIGNED sign-extends the 16 bytes of register from to V20-V23.
#define WIDEN_SIGNED(from) \
	SXTL8(from, 14)  \
	SXTL16(14, 20)   \
	SXTL216(14, 21)  \
	SXTL28(from, 14) \
	SXTL16(14, 22)   \
	SXTL216(14, 23)

// func gemvQ6KNEON(a *neonGEMV)
// Q6_K. R20 points to the factors, one for each half of a group.
TEXT ·gemvQ6KNEON(SB), NOSPLIT, $0-8
	TILES_ARGS
	VMOVI $0x30, V29.B16

tile:
	BEGIN_TILE

block:
	BLOCK_SCALE(R3)
	MOVD R1, R20
	ADD  $256, R1
	MOVD $8, R17

group:
	LOAD_X
	START(V4, V5, V6, V7)
	START(V8, V9, V10, V11)
	VLD1.P 64(R1), [V24.B16, V25.B16, V26.B16, V27.B16]
	VLD1.P 64(R1), [V20.B16, V21.B16, V22.B16, V23.B16]
	VEC6(0, VSHL, $4)
	VEC6(1, VSHL, $2)
	VEC6(2, VSHL, $0)
	VEC6(3, VUSHR, $2)
	VLD1.P 32(R20), [V12.B16, V13.B16]
	WIDEN_SIGNED(12)
	MUL4(20, 4, 4)
	MUL4(21, 5, 5)
	MUL4(22, 6, 6)
	MUL4(23, 7, 7)
	WIDEN_SIGNED(13)
	MLA4(20, 8, 4)
	MLA4(21, 9, 5)
	MLA4(22, 10, 6)
	MLA4(23, 11, 7)
	ADD_PRODUCTS(4, 5, 6, 7, R3, R6)
	SUB  $1, R17
	CBNZ R17, group
	SUB  $1, R10
	CBNZ R10, block
	END_TILE
	RET
