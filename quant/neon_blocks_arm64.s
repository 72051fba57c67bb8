//go:build !noasm

// Hand-written: decoders of the formats whose blocks have 32 elements and one scale, besides those
// of neon_vector_arm64.s. The kernels of other widths look codes up and extend them differently.

#include "textflag.h"
#include "neon_arm64.h"
#include "neon_blocks_arm64.h"

// func dequantTableNEON(dst *float32, src *byte, blocks int, table *[16]int8)
// IQ4_NL, NF4: a binary16 scale, 16 bytes of nibbles that index the table.
TEXT ·dequantTableNEON(SB), NOSPLIT, $0-32
	ENTER
	MOVD table+24(FP), R6
	VLD1 (R6), [V29.B16]

loop:
	HALF(V3, 3)
	NIBBLES
	LOOKUP
	WIDEN(1)
	FLOATS
	STORE
	WIDEN(2)
	FLOATS
	STORE
	NEXT_BLOCK

// func dequantMXFP4NEON(dst *float32, src *byte, blocks int, table *[16]int8)
// MXFP4: an exponent e, 16 bytes of nibbles. The scale is 2^(e-128), for e below 2 subnormal.
TEXT ·dequantMXFP4NEON(SB), NOSPLIT, $0-32
	ENTER
	MOVD table+24(FP), R6
	VLD1 (R6), [V29.B16]

loop:
	MOVBU.P 1(R1), R4
	SUB     $1, R4, R5
	LSL     $23, R5, R5
	MOVD    $0x00200000, R6
	LSL     R4, R6, R6
	CMP     $2, R4
	CSEL    LT, R6, R5, R5
	VDUP    R5, V3.S4
	NIBBLES
	LOOKUP
	WIDEN(1)
	FLOATS
	STORE
	WIDEN(2)
	FLOATS
	STORE
	NEXT_BLOCK

// func dequantQ41NEON(dst *float32, src *byte, blocks int)
// Q4_1: a binary16 scale and offset, 16 bytes of nibbles.
TEXT ·dequantQ41NEON(SB), NOSPLIT, $0-24
	ENTER

loop:
	HALF(V3, 3)
	HALF(V8, 8)
	NIBBLES
	WIDEN(1)
	FLOATS
	WITH_OFFSET
	STORE
	WIDEN(2)
	FLOATS
	WITH_OFFSET
	STORE
	NEXT_BLOCK

// func dequantI4ZNEON(dst *float32, src *byte, blocks int)
// I4Z: a binary16 scale, a zero, 16 bytes of nibbles.
TEXT ·dequantI4ZNEON(SB), NOSPLIT, $0-24
	ENTER

loop:
	HALF(V3, 3)
	MOVBU.P 1(R1), R4
	VDUP    R4, V29.H8
	NIBBLES
	WIDEN(1)
	LESS_ZERO
	FLOATS
	STORE
	WIDEN(2)
	LESS_ZERO
	FLOATS
	STORE
	NEXT_BLOCK

// func dequantQ50NEON(dst *float32, src *byte, blocks int)
// Q5_0: a binary16 scale, 32 fifth bits, 16 bytes of nibbles; the zero is 16.
TEXT ·dequantQ50NEON(SB), NOSPLIT, $0-24
	ENTER
	FIFTH_CONSTANTS
	MOVD $16, R4
	VDUP R4, V29.H8

loop:
	HALF(V3, 3)
	MOVWU.P 4(R1), R5
	NIBBLES
	FIFTH
	WIDEN(1)
	LESS_ZERO
	FLOATS
	STORE
	WIDEN(2)
	LESS_ZERO
	FLOATS
	STORE
	NEXT_BLOCK

// func dequantQ51NEON(dst *float32, src *byte, blocks int)
// Q5_1: a binary16 scale and offset, 32 fifth bits, 16 bytes of nibbles.
TEXT ·dequantQ51NEON(SB), NOSPLIT, $0-24
	ENTER
	FIFTH_CONSTANTS

loop:
	HALF(V3, 3)
	HALF(V8, 8)
	MOVWU.P 4(R1), R5
	NIBBLES
	FIFTH
	WIDEN(1)
	FLOATS
	WITH_OFFSET
	STORE
	WIDEN(2)
	FLOATS
	WITH_OFFSET
	STORE
	NEXT_BLOCK
