//go:build !noasm

// Hand-written: arm64 has one vector width, so there is nothing to generate for
// several widths.

#include "textflag.h"
#include "neon_arm64.h"

// Kernels that decode the scales, mins and factors of 16 rows to float32. They write
// [n][16] floats for n tile blocks that are stride bytes apart, or [8][16] for the
// groups of one tile block; factors are [8][2][16].
//
//	R0, R1 outputs (R1 is src in kernels for n blocks)   R2 stride or block   R3 left

// func scalesF16NEON(dst *float32, src *byte, stride, n int, flip uint32)
// It converts binary16 numbers and XORs the bits of the results with flip.
TEXT ·scalesF16NEON(SB), NOSPLIT, $0-36
	MOVD  dst+0(FP), R0
	MOVD  src+8(FP), R1
	MOVD  stride+16(FP), R2
	MOVD  n+24(FP), R3
	MOVWU flip+32(FP), R4
	VDUP  R4, V31.S4

loop:
	VLD1.P (R1)(R2), [V4.H8, V5.H8]
	FCVTL4(4, 0)
	FCVTL24(4, 1)
	FCVTL4(5, 2)
	FCVTL24(5, 3)
	VEOR   V31.B16, V0.B16, V0.B16
	VEOR   V31.B16, V1.B16, V1.B16
	VEOR   V31.B16, V2.B16, V2.B16
	VEOR   V31.B16, V3.B16, V3.B16
	VST1.P [V0.S4, V1.S4, V2.S4, V3.S4], 64(R0)
	SUB    $1, R3
	CBNZ   R3, loop
	RET

// POWER computes the float32 2^(e-64) from four integers e: it adds 63 and shifts the
// sum to the exponent field.
#define POWER(e) \
	VADD V31.S4, e.S4, e.S4 \
	VSHL $23, e.S4, e.S4

// func scalesExponentNEON(dst *float32, src *byte, stride, n int)
// It converts the exponents e of MXFP4 to 2^(e-128). It multiplies two powers with
// about half the exponent each, because the smallest results are subnormal.
TEXT ·scalesExponentNEON(SB), NOSPLIT, $0-32
	MOVD dst+0(FP), R0
	MOVD src+8(FP), R1
	MOVD stride+16(FP), R2
	MOVD n+24(FP), R3
	MOVD $63, R4
	VDUP R4, V31.S4

loop:
	VLD1.P (R1)(R2), [V16.B16]
	VUSHR  $1, V16.B16, V17.B16
	VSUB   V17.B16, V16.B16, V16.B16
	LANES4(V16, V18, V0, V1, V2, V3)
	LANES4(V17, V18, V4, V5, V6, V7)
	POWER(V0)
	POWER(V1)
	POWER(V2)
	POWER(V3)
	POWER(V4)
	POWER(V5)
	POWER(V6)
	POWER(V7)
	FMUL4(4, 0, 0)
	FMUL4(5, 1, 1)
	FMUL4(6, 2, 2)
	FMUL4(7, 3, 3)
	VST1.P [V0.S4, V1.S4, V2.S4, V3.S4], 64(R0)
	SUB    $1, R3
	CBNZ   R3, loop
	RET

// TIMES converts e to h to float32 and multiplies them by a to d.
#define TIMES(a, b, c, d, e, f, g, h) \
	SCVTF4(e, e)   \
	SCVTF4(f, f)   \
	SCVTF4(g, g)   \
	SCVTF4(h, h)   \
	FMUL4(a, e, e) \
	FMUL4(b, f, f) \
	FMUL4(c, g, g) \
	FMUL4(d, h, h)

// func scalesZeroNEON(mins, scales *float32, src *byte, stride, n int)
// It computes mins = zero point · scale for I4Z, from the zero points at src.
TEXT ·scalesZeroNEON(SB), NOSPLIT, $0-40
	MOVD mins+0(FP), R0
	MOVD scales+8(FP), R5
	MOVD src+16(FP), R1
	MOVD stride+24(FP), R2
	MOVD n+32(FP), R3

loop:
	VLD1.P (R1)(R2), [V16.B16]
	VLD1.P 64(R5), [V4.S4, V5.S4, V6.S4, V7.S4]
	LANES4(V16, V18, V0, V1, V2, V3)
	TIMES(4, 5, 6, 7, 0, 1, 2, 3)
	VST1.P [V0.S4, V1.S4, V2.S4, V3.S4], 64(R0)
	SUB    $1, R3
	CBNZ   R3, loop
	RET

// LOAD_BASE converts the next 16 binary16 numbers at R2 to float32.
#define LOAD_BASE(a, b, c, d) \
	VLD1.P 32(R2), [V16.H8, V17.H8] \
	FCVTL4(16, a)                   \
	FCVTL24(16, b)                  \
	FCVTL4(17, c)                   \
	FCVTL24(17, d)

// PAIR_SCALES decodes the scales and mins of the next group. It reads the low nibbles
// at R2, shifts the high bits in high to bits 4 and 5 with op and minOp, and stores the
// products with V0-V3 and V4-V7.
#define PAIR_SCALES(high, op, scalePlaces, minOp, minPlaces) \
	VLD1.P    16(R2), [V17.B16]                        \
	VAND      V31.B16, V17.B16, V16.B16                \
	VUSHR     $4, V17.B16, V17.B16                     \
	op        scalePlaces, high.B16, V18.B16           \
	VBIT      V30.B16, V18.B16, V16.B16                \
	minOp     minPlaces, high.B16, V18.B16             \
	VBIT      V30.B16, V18.B16, V17.B16                \
	LANES4(V16, V18, V20, V21, V22, V23)            \
	TIMES(0, 1, 2, 3, 20, 21, 22, 23)                  \
	VST1.P    [V20.S4, V21.S4, V22.S4, V23.S4], 64(R0) \
	LANES4(V17, V18, V20, V21, V22, V23)            \
	TIMES(4, 5, 6, 7, 20, 21, 22, 23)                  \
	VST1.P    [V20.S4, V21.S4, V22.S4, V23.S4], 64(R1)

// func scalesPairsNEON(scales, mins *float32, block *byte)
// It decodes the head of a Q4_K or Q5_K tile block: 8 scales and mins of 6 bits times
// the block's binary16 scale and min.
TEXT ·scalesPairsNEON(SB), NOSPLIT, $0-24
	MOVD  scales+0(FP), R0
	MOVD  mins+8(FP), R1
	MOVD  block+16(FP), R2
	VMOVI $15, V31.B16
	VMOVI $0x30, V30.B16
	LOAD_BASE(0, 1, 2, 3)
	LOAD_BASE(4, 5, 6, 7)
	ADD   $128, R2, R3
	VLD1  (R3), [V24.B16, V25.B16, V26.B16, V27.B16]
	PAIR_SCALES(V24, VSHL, $4, VSHL, $2)
	PAIR_SCALES(V25, VSHL, $4, VSHL, $2)
	PAIR_SCALES(V26, VSHL, $4, VSHL, $2)
	PAIR_SCALES(V27, VSHL, $4, VSHL, $2)
	PAIR_SCALES(V24, VSHL, $0, VUSHR, $2)
	PAIR_SCALES(V25, VSHL, $0, VUSHR, $2)
	PAIR_SCALES(V26, VSHL, $0, VUSHR, $2)
	PAIR_SCALES(V27, VSHL, $0, VUSHR, $2)
	RET

// SIGNED4 sign-extends 16 bytes to four registers of 32-bit lanes.
#define SIGNED4(from, t, a, b, c, d) \
	SXTL8(from, t)  \
	SXTL16(t, a)    \
	SXTL216(t, b)   \
	SXTL28(from, t) \
	SXTL16(t, c)    \
	SXTL216(t, d)

// STORE_SIGNED stores the signed scales in V16 times the block's scale in V0-V3.
#define STORE_SIGNED \
	SIGNED4(16, 18, 20, 21, 22, 23)   \
	TIMES(0, 1, 2, 3, 20, 21, 22, 23) \
	VST1.P [V20.S4, V21.S4, V22.S4, V23.S4], 64(R0)

// STORE_FACTORS converts the next 16 signed bytes at R2 to float32.
#define STORE_FACTORS \
	VLD1.P 16(R2), [V16.B16]        \
	SIGNED4(16, 18, 20, 21, 22, 23) \
	SCVTF4(20, 20)                  \
	SCVTF4(21, 21)                  \
	SCVTF4(22, 22)                  \
	SCVTF4(23, 23)                  \
	VST1.P [V20.S4, V21.S4, V22.S4, V23.S4], 64(R1)

// func scalesBytesNEON(scales, factors *float32, block *byte)
// It decodes the head of a Q6_K tile block: the binary16 scale, repeated for each
// group, and the int8 factors of the half groups.
TEXT ·scalesBytesNEON(SB), NOSPLIT, $0-24
	MOVD scales+0(FP), R0
	MOVD factors+8(FP), R1
	MOVD block+16(FP), R2
	MOVD $8, R3
	LOAD_BASE(0, 1, 2, 3)

loop:
	VST1.P [V0.S4, V1.S4, V2.S4, V3.S4], 64(R0)
	STORE_FACTORS
	STORE_FACTORS
	SUB  $1, R3
	CBNZ R3, loop
	RET

// SIX_LOW and SIX_HIGH decode 6-bit scales, less 32, from the low or high nibbles in
// low and the 2-bit fields in high, which op shifts to bits 4 and 5.
#define SIX_LOW(low, high, op, places) \
	VAND V31.B16, low.B16, V16.B16 \
	op   places, high.B16, V18.B16 \
	VBIT V30.B16, V18.B16, V16.B16 \
	VSUB V29.B16, V16.B16, V16.B16 \
	STORE_SIGNED

#define SIX_HIGH(low, high, op, places) \
	VUSHR $4, low.B16, V16.B16      \
	op    places, high.B16, V18.B16 \
	VBIT  V30.B16, V18.B16, V16.B16 \
	VSUB  V29.B16, V16.B16, V16.B16 \
	STORE_SIGNED

// func scalesSixNEON(scales *float32, block *byte)
// It decodes the head of an IQ4_XS tile block: 8 scales of 6 bits, less 32, times the
// block's binary16 scale.
TEXT ·scalesSixNEON(SB), NOSPLIT, $0-16
	MOVD   scales+0(FP), R0
	MOVD   block+8(FP), R2
	VMOVI  $15, V31.B16
	VMOVI  $0x30, V30.B16
	VMOVI  $32, V29.B16
	LOAD_BASE(0, 1, 2, 3)
	VLD1.P 64(R2), [V24.B16, V25.B16, V26.B16, V27.B16]
	VLD1   (R2), [V4.B16, V5.B16]
	SIX_LOW(V24, V4, VSHL, $4)
	SIX_LOW(V25, V5, VSHL, $4)
	SIX_LOW(V26, V4, VSHL, $2)
	SIX_LOW(V27, V5, VSHL, $2)
	SIX_HIGH(V24, V4, VSHL, $0)
	SIX_HIGH(V25, V5, VSHL, $0)
	SIX_HIGH(V26, V4, VUSHR, $2)
	SIX_HIGH(V27, V5, VUSHR, $2)
	RET
