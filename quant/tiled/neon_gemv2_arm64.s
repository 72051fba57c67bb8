//go:build !noasm

// Hand-written: arm64 has one vector width, so there is nothing to generate for
// several widths; macros share the code between formats.

#include "go_asm.h"
#include "textflag.h"
#include "neon_arm64.h"
#include "neon_codes_arm64.h"
#include "neon_gemv_arm64.h"

// Kernels of whole tiles for two tokens, which unpack codes and scales once. See
// neon_gemv_arm64.h for the formula and the registers, except:
//
//	V0-V3, V8-V11 float sums of the first and of the second token
//	V4-V7, V24-V27 their integer sums   V28-V31 their elements   V16, V17 scales

#define LOAD_X2 VLD1.P 64(R5), [V28.B16, V29.B16, V30.B16, V31.B16]
#define LOAD_HALVES2 VLD1.P 32(R1), [V16.H8, V17.H8]

#define BEGIN_TILE2 \
	BEGIN_TILE              \
	ZERO4(V8, V9, V10, V11)

#define ZERO_SUMS2 \
	ZERO_SUMS                 \
	ZERO4(V24, V25, V26, V27)

// START2 is START for both tokens.
#define START2 \
	VLD1.P (R8)(R9), [V20.S2]    \
	VSUB   V19.S4, V20.S4, V20.S4 \
	VDUP   V20.S[0], V4.S4        \
	VDUP   V20.S[0], V5.S4        \
	VDUP   V20.S[0], V6.S4        \
	VDUP   V20.S[0], V7.S4        \
	VDUP   V20.S[1], V24.S4       \
	VDUP   V20.S[1], V25.S4       \
	VDUP   V20.S[1], V26.S4       \
	VDUP   V20.S[1], V27.S4

// BOTH adds the products of a plane of 16 rows, a to d, with four elements of both
// tokens, in x and y.
#define BOTH(OP, x, y, p, a, b, c, d) \
	OP(x, p, a, 4)  \
	OP(x, p, b, 5)  \
	OP(x, p, c, 6)  \
	OP(x, p, d, 7)  \
	OP(y, p, a, 24) \
	OP(y, p, b, 25) \
	OP(y, p, c, 26) \
	OP(y, p, d, 27)

#define ADD_TOKEN(t, a, b, c, d, e, f, g, h) \
	FMUL4(12, a, a)    \
	FMUL4(13, b, b)    \
	FMUL4(14, c, c)    \
	FMUL4(15, d, d)    \
	FMLA4(20, t, a, e) \
	FMLA4(20, t, b, f) \
	FMLA4(20, t, c, g) \
	FMLA4(20, t, d, h)

#define END_GROUP2 \
	VLD1.P 8(R6), [V20.S2]                 \
	FCVTL4(16, 12)                         \
	FCVTL24(16, 13)                        \
	FCVTL4(17, 14)                         \
	FCVTL24(17, 15)                        \
	FLOATS(4, 5, 6, 7)                     \
	FLOATS(24, 25, 26, 27)                 \
	ADD_TOKEN(0, 4, 5, 6, 7, 0, 1, 2, 3)   \
	ADD_TOKEN(1, 24, 25, 26, 27, 8, 9, 10, 11) \
	SUB    $1, R10

#define END_TILE2 \
	VST1.P [V0.S4, V1.S4, V2.S4, V3.S4], 64(R0)   \
	VST1.P [V8.S4, V9.S4, V10.S4, V11.S4], 64(R0) \
	SUB    $1, R2                                 \
	CBNZ   R2, tile

#define NIBBLES2(p) \
	SPLIT4                                   \
	BOTH(SDOT, 28, 30, p, 20, 21, 22, 23)    \
	BOTH(SDOT, 29, 31, p, 12, 13, 14, 15)

// func gemv2Q4NEON(a *neonGEMV)
// Q4_0.
TEXT ·gemv2Q4NEON(SB), NOSPLIT, $0-8
	TILES_ARGS

tile:
	BEGIN_TILE2

loop:
	LOAD_X2
	LOAD_HALVES2
	START2
	NIBBLES2(0)
	NIBBLES2(1)
	NIBBLES2(2)
	NIBBLES2(3)
	END_GROUP2
	CBNZ R10, loop
	END_TILE2
	RET

#define LOAD_BYTES VLD1.P 64(R1), [V12.B16, V13.B16, V14.B16, V15.B16]

#define SIGNED2(x, y, p) \
	LOAD_BYTES                           \
	VEOR V18.B16, V12.B16, V12.B16       \
	VEOR V18.B16, V13.B16, V13.B16       \
	VEOR V18.B16, V14.B16, V14.B16       \
	VEOR V18.B16, V15.B16, V15.B16       \
	BOTH(SDOT, x, y, p, 12, 13, 14, 15)

// func gemv2Q8NEON(a *neonGEMV)
// Q8_0: codes with zero point 128, which flipping the highest bit subtracts.
TEXT ·gemv2Q8NEON(SB), NOSPLIT, $0-8
	TILES_ARGS
	VMOVI $128, V18.B16

tile:
	BEGIN_TILE2

loop:
	LOAD_X2
	LOAD_HALVES2
	ZERO_SUMS2
	SIGNED2(28, 30, 0)
	SIGNED2(28, 30, 1)
	SIGNED2(28, 30, 2)
	SIGNED2(28, 30, 3)
	SIGNED2(29, 31, 0)
	SIGNED2(29, 31, 1)
	SIGNED2(29, 31, 2)
	SIGNED2(29, 31, 3)
	END_GROUP2
	CBNZ R10, loop
	END_TILE2
	RET

#define UNSIGNED2(x, y, p) \
	LOAD_BYTES                            \
	BOTH(USDOT, x, y, p, 12, 13, 14, 15)

// func gemv2Q8MixedNEON(a *neonGEMV)
// Q8_0 with USDOT. start subtracts the zero point.
TEXT ·gemv2Q8MixedNEON(SB), NOSPLIT, $0-8
	TILES_ARGS

tile:
	BEGIN_TILE2

loop:
	LOAD_X2
	LOAD_HALVES2
	START2
	UNSIGNED2(28, 30, 0)
	UNSIGNED2(28, 30, 1)
	UNSIGNED2(28, 30, 2)
	UNSIGNED2(28, 30, 3)
	UNSIGNED2(29, 31, 0)
	UNSIGNED2(29, 31, 1)
	UNSIGNED2(29, 31, 2)
	UNSIGNED2(29, 31, 3)
	END_GROUP2
	CBNZ R10, loop
	END_TILE2
	RET
