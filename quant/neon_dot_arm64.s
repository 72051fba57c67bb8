//go:build !noasm

// Hand-written: arm64 has one vector width, and macros share what its formats have in common.

#include "textflag.h"
#include "neon_arm64.h"

// Matrix products. Four registers hold the sixteen lanes of one Dot. A kernel
// takes whole steps of sixteen elements; the tail of its rows and tokens comes
// as one more step from a padded copy, if the pointer to it is not nil.

#define ZERO16 \
	ZERO4(V0, V1, V2, V3)    \
	ZERO4(V4, V5, V6, V7)    \
	ZERO4(V8, V9, V10, V11)  \
	ZERO4(V12, V13, V14, V15)

// FMA16 accumulates sixteen products.
#define FMA16(a0, a1, a2, a3, b0, b1, b2, b3, d0, d1, d2, d3) \
	VFMLA a0.S4, b0.S4, d0.S4 \
	VFMLA a1.S4, b1.S4, d1.S4 \
	VFMLA a2.S4, b2.S4, d2.S4 \
	VFMLA a3.S4, b3.S4, d3.S4

// FOLD adds the lanes of one sum down to four, in its first register.
#define FOLD(a, b, c, d) \
	FADD4(c, a, a) \
	FADD4(d, b, b) \
	FADD4(b, a, a)

// REDUCE4 adds the lanes of the four sums in V0-V15 by the tree of the
// contract, leaving the results in V0.
#define REDUCE4 \
	FOLD(0, 1, 2, 3)               \
	FOLD(4, 5, 6, 7)               \
	FOLD(8, 9, 10, 11)             \
	FOLD(12, 13, 14, 15)           \
	VZIP1 V4.D2, V0.D2, V16.D2     \
	VZIP2 V4.D2, V0.D2, V17.D2     \
	VZIP1 V12.D2, V8.D2, V18.D2    \
	VZIP2 V12.D2, V8.D2, V19.D2    \
	FADD4(17, 16, 16)              \
	FADD4(19, 18, 18)              \
	VUZP1 V18.S4, V16.S4, V0.S4    \
	VUZP2 V18.S4, V16.S4, V1.S4    \
	FADD4(1, 0, 0)

// The matrix-vector kernels: rows at R1, R2, R3, R4 against the token at R5 for
// R6 steps; R7 is the padded tail.
#define VEC4_ENTER(shift) \
	MOVD out+0(FP), R0      \
	MOVD w+8(FP), R1        \
	MOVD wStride+16(FP), R8 \
	MOVD x+24(FP), R5       \
	MOVD steps+32(FP), R6   \
	ADD  R8<<shift, R1, R2  \
	ADD  R8<<shift, R2, R3  \
	ADD  R8<<shift, R3, R4  \
	ZERO16

#define BF16_ROW(row, d0, d1, d2, d3) \
	VLD1.P 32(row), [V20.H8, V21.H8] \
	VZIP1 V20.H8, V31.H8, V22.H8     \
	VZIP2 V20.H8, V31.H8, V23.H8     \
	VZIP1 V21.H8, V31.H8, V24.H8     \
	VZIP2 V21.H8, V31.H8, V25.H8     \
	FMA16(V16, V17, V18, V19, V22, V23, V24, V25, d0, d1, d2, d3)

#define F16_ROW(row, d0, d1, d2, d3) \
	VLD1.P 32(row), [V20.H8, V21.H8] \
	FCVTL4(20, 22)                   \
	FCVTL24(20, 23)                  \
	FCVTL4(21, 24)                   \
	FCVTL24(21, 25)                  \
	FMA16(V16, V17, V18, V19, V22, V23, V24, V25, d0, d1, d2, d3)

#define LOAD16(row, d0, d1, d2, d3) \
	VLD1 (row), [d0.S4, d1.S4, d2.S4, d3.S4]

#define STORE16(row, d0, d1, d2, d3) \
	VST1 [d0.S4, d1.S4, d2.S4, d3.S4], (row)

// func tileNEON(out *[4]float32, w *float32, wStride int, x *float32, xStride, steps int, tail *[4][16]float32)
// out[2*t+r] = Dot(w[r], x[t]) for two rows and two tokens; strides in elements.
// tail holds the rows' and then the tokens' last elements.
TEXT ·tileNEON(SB), NOSPLIT, $0-56
	MOVD out+0(FP), R0
	MOVD w+8(FP), R1
	MOVD wStride+16(FP), R8
	MOVD x+24(FP), R3
	MOVD xStride+32(FP), R9
	MOVD steps+40(FP), R6
	MOVD tail+48(FP), R7
	ADD  R8<<2, R1, R2
	ADD  R9<<2, R3, R4
	ZERO16
	CBZ  R6, tail

loop:
	VLD1.P 64(R1), [V16.S4, V17.S4, V18.S4, V19.S4]
	VLD1.P 64(R2), [V20.S4, V21.S4, V22.S4, V23.S4]
	VLD1.P 64(R3), [V24.S4, V25.S4, V26.S4, V27.S4]
	VLD1.P 64(R4), [V28.S4, V29.S4, V30.S4, V31.S4]
	FMA16(V16, V17, V18, V19, V24, V25, V26, V27, V0, V1, V2, V3)
	FMA16(V20, V21, V22, V23, V24, V25, V26, V27, V4, V5, V6, V7)
	FMA16(V16, V17, V18, V19, V28, V29, V30, V31, V8, V9, V10, V11)
	FMA16(V20, V21, V22, V23, V28, V29, V30, V31, V12, V13, V14, V15)
	SUB    $1, R6
	CBNZ   R6, loop

tail:
	CBZ  R7, reduce
	MOVD R7, R1
	ADD  $64, R7, R2
	ADD  $128, R7, R3
	ADD  $192, R7, R4
	MOVD $1, R6
	MOVD $0, R7
	B    loop

reduce:
	REDUCE4
	VST1 [V0.S4], (R0)
	RET

// func gemvF32NEON(out *[4]float32, w *float32, wStride int, x *float32, steps int, tail *[5][16]float32)
// out[r] = Dot(w[r], x) for four rows. tail holds the rows' and then the
// token's last elements.
TEXT ·gemvF32NEON(SB), NOSPLIT, $0-48
	VEC4_ENTER(2)
	MOVD tail+40(FP), R7
	CBZ  R6, tail

loop:
	VLD1.P 64(R5), [V16.S4, V17.S4, V18.S4, V19.S4]
	VLD1.P 64(R1), [V20.S4, V21.S4, V22.S4, V23.S4]
	VLD1.P 64(R2), [V24.S4, V25.S4, V26.S4, V27.S4]
	FMA16(V16, V17, V18, V19, V20, V21, V22, V23, V0, V1, V2, V3)
	VLD1.P 64(R3), [V20.S4, V21.S4, V22.S4, V23.S4]
	FMA16(V16, V17, V18, V19, V24, V25, V26, V27, V4, V5, V6, V7)
	VLD1.P 64(R4), [V24.S4, V25.S4, V26.S4, V27.S4]
	FMA16(V16, V17, V18, V19, V20, V21, V22, V23, V8, V9, V10, V11)
	FMA16(V16, V17, V18, V19, V24, V25, V26, V27, V12, V13, V14, V15)
	SUB    $1, R6
	CBNZ   R6, loop

tail:
	CBZ  R7, reduce
	MOVD R7, R1
	ADD  $64, R7, R2
	ADD  $128, R7, R3
	ADD  $192, R7, R4
	ADD  $256, R7, R5
	MOVD $1, R6
	MOVD $0, R7
	B    loop

reduce:
	REDUCE4
	VST1 [V0.S4], (R0)
	RET

// func gemvBF16NEON(out *[4]float32, w *byte, wStride int, x *float32, steps int)
TEXT ·gemvBF16NEON(SB), NOSPLIT, $0-40
	VEC4_ENTER(1)
	VEOR V31.B16, V31.B16, V31.B16

loop:
	VLD1.P 64(R5), [V16.S4, V17.S4, V18.S4, V19.S4]
	BF16_ROW(R1, V0, V1, V2, V3)
	BF16_ROW(R2, V4, V5, V6, V7)
	BF16_ROW(R3, V8, V9, V10, V11)
	BF16_ROW(R4, V12, V13, V14, V15)
	SUB    $1, R6
	CBNZ   R6, loop
	REDUCE4
	VST1   [V0.S4], (R0)
	RET

// func gemvF16NEON(out *[4]float32, w *byte, wStride int, x *float32, steps int)
TEXT ·gemvF16NEON(SB), NOSPLIT, $0-40
	VEC4_ENTER(1)

loop:
	VLD1.P 64(R5), [V16.S4, V17.S4, V18.S4, V19.S4]
	F16_ROW(R1, V0, V1, V2, V3)
	F16_ROW(R2, V4, V5, V6, V7)
	F16_ROW(R3, V8, V9, V10, V11)
	F16_ROW(R4, V12, V13, V14, V15)
	SUB    $1, R6
	CBNZ   R6, loop
	REDUCE4
	VST1   [V0.S4], (R0)
	RET

// func weightedSumF32x4NEON(o *float32, oStride int, p *float32, pStride int, v *float32, vStride, tokens int)
// Sixteen elements of four outputs; strides in elements.
TEXT ·weightedSumF32x4NEON(SB), NOSPLIT, $0-56
	MOVD o+0(FP), R0
	MOVD oStride+8(FP), R8
	MOVD p+16(FP), R4
	MOVD pStride+24(FP), R9
	MOVD v+32(FP), R10
	MOVD vStride+40(FP), R11
	MOVD tokens+48(FP), R12
	LSL  $2, R11
	ADD  R8<<2, R0, R1
	ADD  R8<<2, R1, R2
	ADD  R8<<2, R2, R3
	ADD  R9<<2, R4, R5
	ADD  R9<<2, R5, R6
	ADD  R9<<2, R6, R7
	LOAD16(R0, V0, V1, V2, V3)
	LOAD16(R1, V4, V5, V6, V7)
	LOAD16(R2, V8, V9, V10, V11)
	LOAD16(R3, V12, V13, V14, V15)

loop:
	VLD1    (R10), [V16.S4, V17.S4, V18.S4, V19.S4]
	VLD1R.P 4(R4), [V20.S4]
	VLD1R.P 4(R5), [V21.S4]
	VLD1R.P 4(R6), [V22.S4]
	VLD1R.P 4(R7), [V23.S4]
	FMA16(V16, V17, V18, V19, V20, V20, V20, V20, V0, V1, V2, V3)
	FMA16(V16, V17, V18, V19, V21, V21, V21, V21, V4, V5, V6, V7)
	FMA16(V16, V17, V18, V19, V22, V22, V22, V22, V8, V9, V10, V11)
	FMA16(V16, V17, V18, V19, V23, V23, V23, V23, V12, V13, V14, V15)
	ADD     R11, R10
	SUB     $1, R12
	CBNZ    R12, loop
	STORE16(R0, V0, V1, V2, V3)
	STORE16(R1, V4, V5, V6, V7)
	STORE16(R2, V8, V9, V10, V11)
	STORE16(R3, V12, V13, V14, V15)
	RET

// func weightedSumF32x1NEON(o, p, v *float32, vStride, tokens int)
// Sixteen elements of one output.
TEXT ·weightedSumF32x1NEON(SB), NOSPLIT, $0-40
	MOVD o+0(FP), R0
	MOVD p+8(FP), R4
	MOVD v+16(FP), R10
	MOVD vStride+24(FP), R11
	MOVD tokens+32(FP), R12
	LSL  $2, R11
	LOAD16(R0, V0, V1, V2, V3)

loop:
	VLD1    (R10), [V16.S4, V17.S4, V18.S4, V19.S4]
	VLD1R.P 4(R4), [V20.S4]
	FMA16(V16, V17, V18, V19, V20, V20, V20, V20, V0, V1, V2, V3)
	ADD     R11, R10
	SUB     $1, R12
	CBNZ    R12, loop
	STORE16(R0, V0, V1, V2, V3)
	RET
