//go:build !noasm

// Hand-written: decoders of IQ4_XS, Q2_K and Q3_K. The kernels of other widths keep a block's scales
// elsewhere and extend codes differently.

#include "textflag.h"
#include "neon_arm64.h"
#include "neon_blocks_arm64.h"

// SCALES converts sixteen signed bytes in V(q) to floats in four registers, times V8.
#define SCALES(q, a, b, c, d) \
	WIDEN(q)         \
	SXTL16(16, a)    \
	SXTL216(16, b)   \
	SXTL16(17, c)    \
	SXTL216(17, d)   \
	SCVTF4(a, a)     \
	SCVTF4(b, b)     \
	SCVTF4(c, c)     \
	SCVTF4(d, d)     \
	FMUL4(8, a, a)   \
	FMUL4(8, b, b)   \
	FMUL4(8, c, c)   \
	FMUL4(8, d, d)

// func dequantIQ4XSNEON(dst *float32, src *byte, blocks int, table *[16]int8)
// IQ4_XS: a binary16 scale, 8 upper bit pairs and 8 low nibbles of scales with zero 32, then the
// nibbles of eight groups of 32.
TEXT ·dequantIQ4XSNEON(SB), NOSPLIT, $0-32
	ENTER
	MOVD table+24(FP), R6
	VLD1 (R6), [V29.B16]

loop:
	HALF(V8, 8)
	MOVHU.P 2(R1), R5
	MOVWU.P 4(R1), R4
	MOVD    $8, R9

group:
	AND     $15, R4, R6
	AND     $3, R5, R7
	ADD     R7<<4, R6, R6
	SUB     $32, R6, R6
	LSR     $4, R4, R4
	LSR     $2, R5, R5
	SCVTFS  R6, F3
	FMULS   F8, F3, F3
	VDUP    V3.S[0], V3.S4
	NIBBLES
	LOOKUP
	WIDEN(1)
	FLOATS
	STORE
	WIDEN(2)
	FLOATS
	STORE
	SUB     $1, R9
	CBNZ    R9, group
	NEXT_BLOCK

// TWO_SIXTEEN decodes sixteen elements of Q2_K whose codes are the low two bits in V1. V31 is 3 in
// every byte.
#define TWO_SIXTEEN(scale, offset) \
	VAND V31.B16, V1.B16, V1.B16  \
	VDUP scale, V3.S4             \
	VDUP offset, V8.S4            \
	WIDEN(1)                      \
	FLOATS                        \
	LESS_OFFSET                   \
	STORE

// func dequantQ2KNEON(dst *float32, src *byte, blocks int)
// Q2_K: 16 bytes with a scale and a min nibble, 64 bytes of 2-bit codes, binary16 factors of scales
// and mins. A half of 128 elements has four runs of 32 in the bit pairs of 32 bytes.
TEXT ·dequantQ2KNEON(SB), NOSPLIT, $0-24
	ENTER
	VMOVI $3, V31.B16

loop:
	VLD1.P 16(R1), [V9.B16]
	VLD1.P 64(R1), [V10.B16, V11.B16, V12.B16, V13.B16]
	VAND   V30.B16, V9.B16, V1.B16
	VUSHR  $4, V9.B16, V2.B16
	HALF(V8, 8)
	SCALES(1, 20, 21, 22, 23)
	HALF(V8, 8)
	SCALES(2, 24, 25, 26, 27)
	VMOV V10.B16, V1.B16
	TWO_SIXTEEN(V20.S[0], V24.S[0])
	VMOV V11.B16, V1.B16
	TWO_SIXTEEN(V20.S[1], V24.S[1])
	VUSHR $2, V10.B16, V1.B16
	TWO_SIXTEEN(V20.S[2], V24.S[2])
	VUSHR $2, V11.B16, V1.B16
	TWO_SIXTEEN(V20.S[3], V24.S[3])
	VUSHR $4, V10.B16, V1.B16
	TWO_SIXTEEN(V21.S[0], V25.S[0])
	VUSHR $4, V11.B16, V1.B16
	TWO_SIXTEEN(V21.S[1], V25.S[1])
	VUSHR $6, V10.B16, V1.B16
	TWO_SIXTEEN(V21.S[2], V25.S[2])
	VUSHR $6, V11.B16, V1.B16
	TWO_SIXTEEN(V21.S[3], V25.S[3])
	VMOV V12.B16, V1.B16
	TWO_SIXTEEN(V22.S[0], V26.S[0])
	VMOV V13.B16, V1.B16
	TWO_SIXTEEN(V22.S[1], V26.S[1])
	VUSHR $2, V12.B16, V1.B16
	TWO_SIXTEEN(V22.S[2], V26.S[2])
	VUSHR $2, V13.B16, V1.B16
	TWO_SIXTEEN(V22.S[3], V26.S[3])
	VUSHR $4, V12.B16, V1.B16
	TWO_SIXTEEN(V23.S[0], V27.S[0])
	VUSHR $4, V13.B16, V1.B16
	TWO_SIXTEEN(V23.S[1], V27.S[1])
	VUSHR $6, V12.B16, V1.B16
	TWO_SIXTEEN(V23.S[2], V27.S[2])
	VUSHR $6, V13.B16, V1.B16
	TWO_SIXTEEN(V23.S[3], V27.S[3])
	NEXT_BLOCK

// THREE_SIXTEEN decodes sixteen elements of Q3_K: the low two bits of V1, and bit 2 of V2. V31 is 3
// and V19 4 in every byte.
#define THREE_SIXTEEN(scale) \
	VAND V31.B16, V1.B16, V1.B16  \
	VAND V19.B16, V2.B16, V2.B16  \
	VORR V2.B16, V1.B16, V1.B16   \
	VSUB V19.B16, V1.B16, V1.B16  \
	VDUP scale, V3.S4             \
	WIDEN(1)                      \
	FLOATS                        \
	STORE

// func dequantQ3KNEON(dst *float32, src *byte, blocks int)
// Q3_K: 32 bytes of third bits, 64 bytes of 2-bit codes, 12 bytes of scales with zero 32, a binary16
// factor of them.
TEXT ·dequantQ3KNEON(SB), NOSPLIT, $0-24
	ENTER
	VMOVI $3, V31.B16
	VMOVI $4, V19.B16
	VMOVI $32, V18.B16

loop:
	VLD1.P  32(R1), [V14.B16, V15.B16]
	VLD1.P  64(R1), [V10.B16, V11.B16, V12.B16, V13.B16]
	MOVD.P  8(R1), R4
	MOVWU.P 4(R1), R5
	LSR     $4, R4, R6
	VMOV    R4, V1.D[0]
	VMOV    R6, V1.D[1]
	VAND    V30.B16, V1.B16, V1.B16
	LSL     $4, R5, R6
	LSL     $2, R5, R7
	LSR     $2, R5, R8
	AND     $0x30303030, R6
	AND     $0x30303030, R7
	AND     $0x30303030, R8
	AND     $0x30303030, R5
	ORR     R7<<32, R6
	ORR     R8<<32, R5
	VMOV    R6, V2.D[0]
	VMOV    R5, V2.D[1]
	VORR    V2.B16, V1.B16, V1.B16
	VSUB    V18.B16, V1.B16, V1.B16
	HALF(V8, 8)
	SCALES(1, 20, 21, 22, 23)
	VMOV V10.B16, V1.B16
	VSHL $2, V14.B16, V2.B16
	THREE_SIXTEEN(V20.S[0])
	VMOV V11.B16, V1.B16
	VSHL $2, V15.B16, V2.B16
	THREE_SIXTEEN(V20.S[1])
	VUSHR $2, V10.B16, V1.B16
	VSHL $1, V14.B16, V2.B16
	THREE_SIXTEEN(V20.S[2])
	VUSHR $2, V11.B16, V1.B16
	VSHL $1, V15.B16, V2.B16
	THREE_SIXTEEN(V20.S[3])
	VUSHR $4, V10.B16, V1.B16
	VMOV V14.B16, V2.B16
	THREE_SIXTEEN(V21.S[0])
	VUSHR $4, V11.B16, V1.B16
	VMOV V15.B16, V2.B16
	THREE_SIXTEEN(V21.S[1])
	VUSHR $6, V10.B16, V1.B16
	VUSHR $1, V14.B16, V2.B16
	THREE_SIXTEEN(V21.S[2])
	VUSHR $6, V11.B16, V1.B16
	VUSHR $1, V15.B16, V2.B16
	THREE_SIXTEEN(V21.S[3])
	VMOV V12.B16, V1.B16
	VUSHR $2, V14.B16, V2.B16
	THREE_SIXTEEN(V22.S[0])
	VMOV V13.B16, V1.B16
	VUSHR $2, V15.B16, V2.B16
	THREE_SIXTEEN(V22.S[1])
	VUSHR $2, V12.B16, V1.B16
	VUSHR $3, V14.B16, V2.B16
	THREE_SIXTEEN(V22.S[2])
	VUSHR $2, V13.B16, V1.B16
	VUSHR $3, V15.B16, V2.B16
	THREE_SIXTEEN(V22.S[3])
	VUSHR $4, V12.B16, V1.B16
	VUSHR $4, V14.B16, V2.B16
	THREE_SIXTEEN(V23.S[0])
	VUSHR $4, V13.B16, V1.B16
	VUSHR $4, V15.B16, V2.B16
	THREE_SIXTEEN(V23.S[1])
	VUSHR $6, V12.B16, V1.B16
	VUSHR $5, V14.B16, V2.B16
	THREE_SIXTEEN(V23.S[2])
	VUSHR $6, V13.B16, V1.B16
	VUSHR $5, V15.B16, V2.B16
	THREE_SIXTEEN(V23.S[3])
	NEXT_BLOCK
