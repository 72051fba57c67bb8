//go:build !noasm

// Hand-written: arm64 has one vector width, so there is nothing to generate for
// several widths; macros share the code between formats.

#include "go_asm.h"
#include "textflag.h"
#include "neon_arm64.h"
#include "neon_panel_arm64.h"
#include "neon_dot_arm64.h"
#include "neon_small_arm64.h"

// Kernels of whole tiles for four tokens; see neon_small_arm64.h.
//
//	R0 sums of a tile   R1 tile   R2 tiles left   R14 bytes from a tile's sums to the next
//	R3 binary16 scales

#define SMALL_ARGS \
	MOVD a+0(FP), R11             \
	MOVD neonGEMV_sums(R11), R0   \
	MOVD neonGEMV_codes(R11), R1  \
	MOVD neonGEMV_tiles(R11), R2  \
	MOVD neonGEMV_apart(R11), R14 \
	FOUR_WIDTH                    \
	MOVD $const_startBits, R12    \
	VDUP R12, V31.S4

// BEGIN_ROWS begins a tile, NEXT_ROWS its other 8 rows. The codes follow 32 bytes of scales.
#define BEGIN_ROWS \
	MOVD R1, R3      \
	ADD  $32, R1, R4 \
	MOVD R0, R13     \
	MOVD $2, R12

#define NEXT_ROWS \
	ADD $16, R1, R3 \
	ADD $64, R1, R4 \
	ADD $32, R13

#define BEGIN_SUMS \
	MOVD neonGEMV_x(R11), R5       \
	MOVD neonGEMV_dx(R11), R6      \
	MOVD neonGEMV_start(R11), R8   \
	MOVD neonGEMV_blocks(R11), R10 \
	ZERO4(V0, V1, V2, V3)          \
	ZERO4(V4, V5, V6, V7)

// STARTS sets the integer sums to start - startBits.
#define STARTS \
	VLD1.P (R8)(R16), [V29.S4]    \
	VSUB   V31.S4, V29.S4, V29.S4 \
	VDUP   V29.S[0], V8.S4        \
	VDUP   V29.S[0], V9.S4        \
	VDUP   V29.S[1], V10.S4       \
	VDUP   V29.S[1], V11.S4       \
	VDUP   V29.S[2], V12.S4       \
	VDUP   V29.S[2], V13.S4       \
	VDUP   V29.S[3], V14.S4       \
	VDUP   V29.S[3], V15.S4

// END_GROUP4 adds the integer sums of a group to the float sums and goes to the next block.
#define END_GROUP4(bytes) \
	VLD1   (R3), [V26.H8]                \
	FCVTL4(26, 24)                       \
	FCVTL24(26, 25)                      \
	VLD1.P (R6)(R16), [V26.S4]           \
	FLOATS(8, 9, 10, 11)                 \
	FLOATS(12, 13, 14, 15)               \
	FINISH                               \
	ADD    $bytes, R3                    \
	ADD    $bytes, R4                    \
	SUB    $1, R10

// NEXT_TILE continues with the tile behind the second half of the last block's scales.
#define NEXT_TILE \
	SUB $16, R3, R1 \
	ADD R14, R0     \
	SUB $1, R2

// func small4Q4NEON(a *neonGEMV)
// Q4_0.
TEXT ·small4Q4NEON(SB), NOSPLIT, $0-8
	SMALL_ARGS
	VMOVI $15, V28.B16

tile:
	BEGIN_ROWS

rows:
	BEGIN_SUMS

loop:
	LOAD_FOUR
	STARTS
	NIBBLES4(0, 0, 16, 20, 18, 22)
	NIBBLES4(64, 1, 16, 20, 18, 22)
	NIBBLES4(128, 0, 17, 21, 19, 23)
	NIBBLES4(192, 1, 17, 21, 19, 23)
	END_GROUP4(288)
	CBNZ R10, loop
	STORE_ROWS
	SUB  $1, R12
	CBZ  R12, next
	NEXT_ROWS
	B    rows

next:
	NEXT_TILE
	CBNZ R2, tile
	RET

// BYTES4 multiplies a plane of 8-bit codes less 128, UNSIGNED4 a plane of unsigned ones.
#define BYTES4(at, i, x, y) \
	FLDPQ at(R4), (F24, F25)          \
	VEOR  V28.B16, V24.B16, V24.B16   \
	VEOR  V28.B16, V25.B16, V25.B16   \
	DOT(24, 25, i, x, y)

#define UNSIGNED4(at, i, x, y) \
	FLDPQ at(R4), (F24, F25) \
	USDOT(x, i, 24, 8)       \
	USDOT(x, i, 25, 9)       \
	USDOT(x, i+2, 24, 10)    \
	USDOT(x, i+2, 25, 11)    \
	USDOT(y, i, 24, 12)      \
	USDOT(y, i, 25, 13)      \
	USDOT(y, i+2, 24, 14)    \
	USDOT(y, i+2, 25, 15)

#define PLANES8(PLANE) \
	PLANE(0, 0, 16, 20)   \
	PLANE(64, 1, 16, 20)  \
	PLANE(128, 0, 17, 21) \
	PLANE(192, 1, 17, 21) \
	PLANE(256, 0, 18, 22) \
	PLANE(320, 1, 18, 22) \
	PLANE(384, 0, 19, 23) \
	PLANE(448, 1, 19, 23)

// func small4Q8NEON(a *neonGEMV)
// Q8_0.
TEXT ·small4Q8NEON(SB), NOSPLIT, $0-8
	SMALL_ARGS
	VMOVI $128, V28.B16

tile:
	BEGIN_ROWS

rows:
	BEGIN_SUMS

loop:
	LOAD_FOUR
	ZERO_SUMS
	PLANES8(BYTES4)
	END_GROUP4(544)
	CBNZ R10, loop
	STORE_ROWS
	SUB  $1, R12
	CBZ  R12, next
	NEXT_ROWS
	B    rows

next:
	NEXT_TILE
	CBNZ R2, tile
	RET

// func small4Q8MixedNEON(a *neonGEMV)
// Q8_0 with USDOT. start subtracts the zero point.
TEXT ·small4Q8MixedNEON(SB), NOSPLIT, $0-8
	SMALL_ARGS

tile:
	BEGIN_ROWS

rows:
	BEGIN_SUMS

loop:
	LOAD_FOUR
	STARTS
	PLANES8(UNSIGNED4)
	END_GROUP4(544)
	CBNZ R10, loop
	STORE_ROWS
	SUB  $1, R12
	CBZ  R12, next
	NEXT_ROWS
	B    rows

next:
	NEXT_TILE
	CBNZ R2, tile
	RET
