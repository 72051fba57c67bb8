//go:build !noasm

// Hand-written: decoders of the K formats. The kernels of other widths keep a block's scales
// elsewhere and extend codes differently.

#include "textflag.h"
#include "neon_arm64.h"
#include "neon_blocks_arm64.h"

// K_HEAD decodes the head of a Q4_K or Q5_K block: V20 and V21 become the scales d·scale of its
// eight groups, V22 and V23 the offsets dmin·min. The 6-bit numbers are packed into twelve bytes.
#define K_HEAD \
	HALF(V3, 3)                \
	HALF(V8, 8)                \
	MOVWU.P 4(R1), R4          \
	MOVWU.P 4(R1), R5          \
	MOVWU.P 4(R1), R6          \
	LSR     $2, R4, R7         \
	LSR     $2, R5, R8         \
	LSR     $4, R6, R9         \
	AND     $0x3f3f3f3f, R4    \
	AND     $0x3f3f3f3f, R5    \
	AND     $0x30303030, R7    \
	AND     $0x30303030, R8    \
	AND     $0x0f0f0f0f, R6    \
	AND     $0x0f0f0f0f, R9    \
	ORR     R7, R6             \
	ORR     R8, R9             \
	ORR     R6<<32, R4         \
	ORR     R9<<32, R5         \
	FMOVD   R4, F16            \
	FMOVD   R5, F17            \
	SXTL8(16, 16)              \
	SXTL8(17, 17)              \
	SXTL16(16, 20)             \
	SXTL216(16, 21)            \
	SXTL16(17, 22)             \
	SXTL216(17, 23)            \
	SCVTF4(20, 20)             \
	SCVTF4(21, 21)             \
	SCVTF4(22, 22)             \
	SCVTF4(23, 23)             \
	FMUL4(3, 20, 20)           \
	FMUL4(3, 21, 21)           \
	FMUL4(8, 22, 22)           \
	FMUL4(8, 23, 23)

// K_GROUP decodes a group of 32 codes in V1 and V2 with the scale and offset in two lanes.
#define K_GROUP(scale, offset) \
	VDUP scale, V3.S4   \
	VDUP offset, V8.S4  \
	WIDEN(1)            \
	FLOATS              \
	LESS_OFFSET         \
	STORE               \
	WIDEN(2)            \
	FLOATS              \
	LESS_OFFSET         \
	STORE

// K_LOW and K_HIGH take the low and the high nibbles of the 32 bytes in V14 and V15.
#define K_PAIR VLD1.P 32(R1), [V14.B16, V15.B16]
#define K_LOW \
	VAND V30.B16, V14.B16, V1.B16 \
	VAND V30.B16, V15.B16, V2.B16
#define K_HIGH \
	VUSHR $4, V14.B16, V1.B16 \
	VUSHR $4, V15.B16, V2.B16

// K_FIFTH sets the fifth bits from V18 and V19. V31 is 16 in every byte.
#define K_FIFTH \
	VAND V31.B16, V18.B16, V18.B16 \
	VAND V31.B16, V19.B16, V19.B16 \
	VORR V18.B16, V1.B16, V1.B16   \
	VORR V19.B16, V2.B16, V2.B16


// func dequantQ4KNEON(dst *float32, src *byte, blocks int)
// Q4_K: a head, 128 bytes of nibbles: low ones of a group, then high ones of the next.
TEXT ·dequantQ4KNEON(SB), NOSPLIT, $0-24
	ENTER

loop:
	K_HEAD
	K_PAIR
	K_LOW
	K_GROUP(V20.S[0], V22.S[0])
	K_HIGH
	K_GROUP(V20.S[1], V22.S[1])
	K_PAIR
	K_LOW
	K_GROUP(V20.S[2], V22.S[2])
	K_HIGH
	K_GROUP(V20.S[3], V22.S[3])
	K_PAIR
	K_LOW
	K_GROUP(V21.S[0], V23.S[0])
	K_HIGH
	K_GROUP(V21.S[1], V23.S[1])
	K_PAIR
	K_LOW
	K_GROUP(V21.S[2], V23.S[2])
	K_HIGH
	K_GROUP(V21.S[3], V23.S[3])
	NEXT_BLOCK

// func dequantQ5KNEON(dst *float32, src *byte, blocks int)
// Q5_K: a head, 32 bytes of fifth bits, 128 bytes of nibbles: low ones of a group, then high ones of the next.
TEXT ·dequantQ5KNEON(SB), NOSPLIT, $0-24
	ENTER
	VMOVI $16, V31.B16

loop:
	K_HEAD
	VLD1.P 32(R1), [V24.B16, V25.B16]
	K_PAIR
	K_LOW
	VSHL $4, V24.B16, V18.B16
	VSHL $4, V25.B16, V19.B16
	K_FIFTH
	K_GROUP(V20.S[0], V22.S[0])
	K_HIGH
	VSHL $3, V24.B16, V18.B16
	VSHL $3, V25.B16, V19.B16
	K_FIFTH
	K_GROUP(V20.S[1], V22.S[1])
	K_PAIR
	K_LOW
	VSHL $2, V24.B16, V18.B16
	VSHL $2, V25.B16, V19.B16
	K_FIFTH
	K_GROUP(V20.S[2], V22.S[2])
	K_HIGH
	VSHL $1, V24.B16, V18.B16
	VSHL $1, V25.B16, V19.B16
	K_FIFTH
	K_GROUP(V20.S[3], V22.S[3])
	K_PAIR
	K_LOW
	VMOV V24.B16, V18.B16
	VMOV V25.B16, V19.B16
	K_FIFTH
	K_GROUP(V21.S[0], V23.S[0])
	K_HIGH
	VUSHR $1, V24.B16, V18.B16
	VUSHR $1, V25.B16, V19.B16
	K_FIFTH
	K_GROUP(V21.S[1], V23.S[1])
	K_PAIR
	K_LOW
	VUSHR $2, V24.B16, V18.B16
	VUSHR $2, V25.B16, V19.B16
	K_FIFTH
	K_GROUP(V21.S[2], V23.S[2])
	K_HIGH
	VUSHR $3, V24.B16, V18.B16
	VUSHR $3, V25.B16, V19.B16
	K_FIFTH
	K_GROUP(V21.S[3], V23.S[3])
	NEXT_BLOCK

// SIX_SIXTEEN decodes sixteen elements: V1 has the nibbles, V2 bits 4 and 5 among others. V31 is
// 0x30 and V19 32 in every byte.
#define SIX_SIXTEEN(scale) \
	VAND V31.B16, V2.B16, V2.B16  \
	VORR V2.B16, V1.B16, V1.B16   \
	VSUB V19.B16, V1.B16, V1.B16  \
	VDUP scale, V3.S4             \
	WIDEN(1)                      \
	FLOATS                        \
	STORE

// func dequantQ6KNEON(dst *float32, src *byte, blocks int)
// Q6_K: 128 bytes of nibbles, 64 bytes of upper bit pairs, 16 signed scales, a binary16 factor of
// them. A half of 128 elements has four runs of 32: the low nibbles of its 64 bytes, then the high
// ones, each with its own bit pair.
TEXT ·dequantQ6KNEON(SB), NOSPLIT, $0-24
	ENTER
	VMOVI $0x30, V31.B16
	VMOVI $32, V19.B16

loop:
	ADD    $128, R1, R5
	ADD    $192, R1, R6
	VLD1.P 16(R6), [V1.B16]
	MOVHU  (R6), R3
	VDUP   R3, V8.H8
	FCVTL4(8, 8)
	WIDEN(1)
	SXTL16(16, 20)
	SXTL216(16, 21)
	SXTL16(17, 22)
	SXTL216(17, 23)
	SCVTF4(20, 20)
	SCVTF4(21, 21)
	SCVTF4(22, 22)
	SCVTF4(23, 23)
	FMUL4(8, 20, 20)
	FMUL4(8, 21, 21)
	FMUL4(8, 22, 22)
	FMUL4(8, 23, 23)
	VLD1.P 64(R1), [V10.B16, V11.B16, V12.B16, V13.B16]
	VLD1.P 32(R5), [V14.B16, V15.B16]
	VAND V30.B16, V10.B16, V1.B16
	VSHL $4, V14.B16, V2.B16
	SIX_SIXTEEN(V20.S[0])
	VAND V30.B16, V11.B16, V1.B16
	VSHL $4, V15.B16, V2.B16
	SIX_SIXTEEN(V20.S[1])
	VAND V30.B16, V12.B16, V1.B16
	VSHL $2, V14.B16, V2.B16
	SIX_SIXTEEN(V20.S[2])
	VAND V30.B16, V13.B16, V1.B16
	VSHL $2, V15.B16, V2.B16
	SIX_SIXTEEN(V20.S[3])
	VUSHR $4, V10.B16, V1.B16
	VMOV V14.B16, V2.B16
	SIX_SIXTEEN(V21.S[0])
	VUSHR $4, V11.B16, V1.B16
	VMOV V15.B16, V2.B16
	SIX_SIXTEEN(V21.S[1])
	VUSHR $4, V12.B16, V1.B16
	VUSHR $2, V14.B16, V2.B16
	SIX_SIXTEEN(V21.S[2])
	VUSHR $4, V13.B16, V1.B16
	VUSHR $2, V15.B16, V2.B16
	SIX_SIXTEEN(V21.S[3])
	VLD1.P 64(R1), [V10.B16, V11.B16, V12.B16, V13.B16]
	VLD1.P 32(R5), [V14.B16, V15.B16]
	VAND V30.B16, V10.B16, V1.B16
	VSHL $4, V14.B16, V2.B16
	SIX_SIXTEEN(V22.S[0])
	VAND V30.B16, V11.B16, V1.B16
	VSHL $4, V15.B16, V2.B16
	SIX_SIXTEEN(V22.S[1])
	VAND V30.B16, V12.B16, V1.B16
	VSHL $2, V14.B16, V2.B16
	SIX_SIXTEEN(V22.S[2])
	VAND V30.B16, V13.B16, V1.B16
	VSHL $2, V15.B16, V2.B16
	SIX_SIXTEEN(V22.S[3])
	VUSHR $4, V10.B16, V1.B16
	VMOV V14.B16, V2.B16
	SIX_SIXTEEN(V23.S[0])
	VUSHR $4, V11.B16, V1.B16
	VMOV V15.B16, V2.B16
	SIX_SIXTEEN(V23.S[1])
	VUSHR $4, V12.B16, V1.B16
	VUSHR $2, V14.B16, V2.B16
	SIX_SIXTEEN(V23.S[2])
	VUSHR $4, V13.B16, V1.B16
	VUSHR $2, V15.B16, V2.B16
	SIX_SIXTEEN(V23.S[3])
	ADD    $82, R1
	NEXT_BLOCK
