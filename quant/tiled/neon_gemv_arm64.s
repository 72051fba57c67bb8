//go:build !noasm

// Hand-written: arm64 has one vector width, so there is nothing to generate for
// several widths; macros share the code between formats.

#include "go_asm.h"
#include "textflag.h"
#include "neon_arm64.h"
#include "neon_codes_arm64.h"
#include "neon_gemv_arm64.h"

// GEMV kernels; see neon_gemv_arm64.h. Those of K formats are in neon_gemvk_arm64.s.

// func gemv4NEON(a *neonGEMV)
// Q4_1 and I4Z: the code is the nibble.
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

// func gemv5NEON(a *neonGEMV)
// Q5_0 and Q5_1.
TEXT ·gemv5NEON(SB), NOSPLIT, $0-8
	VEC_ARGS(320)
	FIVE_CONSTANTS

loop:
	LOAD_X
	START(V4, V5, V6, V7)
	FIVE_BITS
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

#define LOAD_HALVES VLD1.P 32(R1), [V24.H8, V25.H8]

// END_GROUP adds a group whose binary16 scales are in V24 and V25.
#define END_GROUP \
	VLD1R.P (R6)(R16), [V20.S4] \
	FCVTL4(24, 12)              \
	FCVTL24(24, 13)             \
	FCVTL4(25, 14)              \
	FCVTL24(25, 15)             \
	FINISH                      \
	SUB     $1, R10

// func gemvQ4NEON(a *neonGEMV)
// Q4_0.
TEXT ·gemvQ4NEON(SB), NOSPLIT, $0-8
	TILES_ARGS

tile:
	BEGIN_TILE

loop:
	LOAD_X
	LOAD_HALVES
	START(V4, V5, V6, V7)
	VEC4(0)
	VEC4(1)
	VEC4(2)
	VEC4(3)
	END_GROUP
	CBNZ R10, loop
	END_TILE
	RET

// func gemvQ8NEON(a *neonGEMV)
// Q8_0: codes with zero point 128, which flipping the highest bit subtracts.
TEXT ·gemvQ8NEON(SB), NOSPLIT, $0-8
	TILES_ARGS
	VMOVI $128, V31.B16

tile:
	BEGIN_TILE

loop:
	LOAD_X
	LOAD_HALVES
	ZERO_SUMS
	DOT_BYTES
	END_GROUP
	CBNZ R10, loop
	END_TILE
	RET

#define LOAD_EVEN VLD1.P 64(R1), [V12.B16, V13.B16, V14.B16, V15.B16]
#define LOAD_ODD VLD1.P 64(R1), [V8.B16, V9.B16, V10.B16, V11.B16]

// UNSIGNED multiplies a plane of 8-bit codes.
#define UNSIGNED(x, p, a, b, c, d) \
	USDOT(x, p, a, 4) \
	USDOT(x, p, b, 5) \
	USDOT(x, p, c, 6) \
	USDOT(x, p, d, 7)

// func gemvQ8MixedNEON(a *neonGEMV)
// Q8_0 with USDOT, which takes unsigned codes. start subtracts the zero point. A plane is
// loaded before the one before it is multiplied: in-order processors wait less.
TEXT ·gemvQ8MixedNEON(SB), NOSPLIT, $0-8
	TILES_ARGS

tile:
	BEGIN_TILE

loop:
	LOAD_X
	LOAD_HALVES
	LOAD_EVEN
	START(V4, V5, V6, V7)
	LOAD_ODD
	UNSIGNED(16, 0, 12, 13, 14, 15)
	LOAD_EVEN
	UNSIGNED(16, 1, 8, 9, 10, 11)
	LOAD_ODD
	UNSIGNED(16, 2, 12, 13, 14, 15)
	LOAD_EVEN
	UNSIGNED(16, 3, 8, 9, 10, 11)
	LOAD_ODD
	UNSIGNED(17, 0, 12, 13, 14, 15)
	LOAD_EVEN
	UNSIGNED(17, 1, 8, 9, 10, 11)
	LOAD_ODD
	UNSIGNED(17, 2, 12, 13, 14, 15)
	UNSIGNED(17, 3, 8, 9, 10, 11)
	END_GROUP
	CBNZ R10, loop
	END_TILE
	RET
