//go:build !noasm

// Hand-written: arm64 has one vector width, and its functions share macros.

#include "textflag.h"
#include "neon_arm64.h"

// Functions built on the exponential. The steps are those of arith.exp in
// exp.go, and the constants are read from expTable.

// EXP_CONSTANTS loads the table: V16 the least and V17 the largest argument,
// V18 1/ln 2, V19 the rounding constant, V20 and V21 the two parts of -ln 2,
// V22-V26 the coefficients of r^6 to r^2, V27 one, V28 and V29 the constants of
// GELU, V30 +Inf.
#define EXP_CONSTANTS \
	MOVD    $·expTable(SB), R9 \
	VLD1R.P 4(R9), [V16.S4]    \
	VLD1R.P 4(R9), [V17.S4]    \
	VLD1R.P 4(R9), [V18.S4]    \
	VLD1R.P 4(R9), [V19.S4]    \
	VLD1R.P 4(R9), [V20.S4]    \
	VLD1R.P 4(R9), [V21.S4]    \
	VLD1R.P 4(R9), [V22.S4]    \
	VLD1R.P 4(R9), [V23.S4]    \
	VLD1R.P 4(R9), [V24.S4]    \
	VLD1R.P 4(R9), [V25.S4]    \
	VLD1R.P 4(R9), [V26.S4]    \
	VLD1R.P 4(R9), [V27.S4]    \
	VLD1R.P 4(R9), [V28.S4]    \
	VLD1R.P 4(R9), [V29.S4]    \
	VLD1R.P 4(R9), [V30.S4]

// HORNER computes next = p*r + coefficient, r being V6.
#define HORNER(p, coefficient, next) \
	VMOV  coefficient.B16, next.B16 \
	VFMLA V6.S4, p.S4, next.S4

// EXP replaces V4 by e^V4. V5 becomes the rounded x/ln 2, whose low bits are
// the integer k, V6 the remainder r, V7 and V8 the polynomial.
#define EXP \
	VMOV  V19.B16, V5.B16         \
	VFMLA V18.S4, V4.S4, V5.S4    \
	FSUB4(19, 5, 7)               \
	VMOV  V4.B16, V6.B16          \
	VFMLA V20.S4, V7.S4, V6.S4    \
	VFMLA V21.S4, V7.S4, V6.S4    \
	HORNER(V22, V23, V7)          \
	HORNER(V7, V24, V8)           \
	HORNER(V8, V25, V7)           \
	HORNER(V7, V26, V8)           \
	HORNER(V8, V27, V7)           \
	HORNER(V7, V27, V8)           \
	VSHL  $23, V5.S4, V5.S4       \
	VADD  V5.S4, V8.S4, V8.S4     \
	FCMEQ4(4, 4, 5)               \
	VBIF  V5.B16, V4.B16, V8.B16  \
	FCMGT4(4, 16, 5)              \
	VEOR  V6.B16, V6.B16, V6.B16  \
	VBIT  V5.B16, V6.B16, V8.B16  \
	FCMGT4(17, 4, 5)              \
	VBIT  V5.B16, V30.B16, V8.B16 \
	VMOV  V8.B16, V4.B16

// DIVIDE computes V9 / (1 + e^V4) in V4.
#define DIVIDE \
	EXP             \
	FADD4(27, 4, 4) \
	FDIV4(4, 9, 4)

// func expSumNEON(lane *[16]float32, p *float32, steps int, shift float32)
// It adds the sixteen lanes' sums of 16*steps elements to lane; steps > 0.
TEXT ·expSumNEON(SB), NOSPLIT, $0-28
	MOVD  lane+0(FP), R0
	MOVD  p+8(FP), R1
	MOVD  steps+16(FP), R2
	MOVWU shift+24(FP), R3
	VDUP  R3, V31.S4
	VLD1  (R0), [V0.S4, V1.S4, V2.S4, V3.S4]
	EXP_CONSTANTS

#define EXP_STEP(number) \
	VLD1   (R1), [V4.S4]     \
	FSUB4(31, 4, 4)          \
	EXP                      \
	VST1.P [V4.S4], 16(R1)   \
	FADD4(4, number, number)

loop:
	EXP_STEP(0)
	EXP_STEP(1)
	EXP_STEP(2)
	EXP_STEP(3)
	SUB  $1, R2
	CBNZ R2, loop
	VST1 [V0.S4, V1.S4, V2.S4, V3.S4], (R0)
	RET

// func siluNEON(dst, x *float32, n int)
// n is a positive multiple of 4.
TEXT ·siluNEON(SB), NOSPLIT, $0-24
	MOVD dst+0(FP), R0
	MOVD x+8(FP), R1
	MOVD n+16(FP), R2
	EXP_CONSTANTS

loop:
	VLD1.P 16(R1), [V9.S4]
	FNEG4(9, 4)
	DIVIDE
	VST1.P [V4.S4], 16(R0)
	SUBS   $4, R2
	BNE    loop
	RET

// func sigmoidNEON(dst, x *float32, n int)
// n is a positive multiple of 4.
TEXT ·sigmoidNEON(SB), NOSPLIT, $0-24
	MOVD dst+0(FP), R0
	MOVD x+8(FP), R1
	MOVD n+16(FP), R2
	EXP_CONSTANTS
	VMOV V27.B16, V9.B16

loop:
	VLD1.P 16(R1), [V4.S4]
	FNEG4(4, 4)
	DIVIDE
	VST1.P [V4.S4], 16(R0)
	SUBS   $4, R2
	BNE    loop
	RET

// func geluTanhNEON(dst, x *float32, n int)
// n is a positive multiple of 4. The exponent is -x*(c1 + c3*x²).
TEXT ·geluTanhNEON(SB), NOSPLIT, $0-24
	MOVD dst+0(FP), R0
	MOVD x+8(FP), R1
	MOVD n+16(FP), R2
	EXP_CONSTANTS

loop:
	VLD1.P 16(R1), [V9.S4]
	FMUL4(9, 9, 5)
	VMOV   V28.B16, V4.B16
	VFMLA  V29.S4, V5.S4, V4.S4
	FMUL4(4, 9, 4)
	FNEG4(4, 4)
	DIVIDE
	VST1.P [V4.S4], 16(R0)
	SUBS   $4, R2
	BNE    loop
	RET

// func geluErfNEON(dst, x *float32, n int)
// n is a positive multiple of 4. V9 is x, V10 |x|, V6 becomes t; the polynomial
// moves between V7 and V8, its coefficients come from the table at R11.
TEXT ·geluErfNEON(SB), NOSPLIT, $0-24
	MOVD    dst+0(FP), R0
	MOVD    x+8(FP), R1
	MOVD    n+16(FP), R2
	EXP_CONSTANTS
	ADD     $32, R9, R11
	ADD     $36, R11, R10
	VLD1R.P 4(R10), [V12.S4]
	VLD1R   (R10), [V13.S4]
	VEOR    V14.B16, V14.B16, V14.B16

loop:
	VLD1.P  16(R1), [V9.S4]
	FMUL4(9, 9, 4)
	FMUL4(13, 4, 4)
	EXP
	FABS4(9, 10)
	VMOV    V27.B16, V6.B16
	VFMLA   V10.S4, V12.S4, V6.S4
	FDIV4(6, 27, 6)
	MOVD    R11, R10
	VLD1R.P 4(R10), [V7.S4]
	VLD1R.P 4(R10), [V8.S4]
	VFMLA   V6.S4, V7.S4, V8.S4
	VLD1R.P 4(R10), [V7.S4]
	VFMLA   V6.S4, V8.S4, V7.S4
	VLD1R.P 4(R10), [V8.S4]
	VFMLA   V6.S4, V7.S4, V8.S4
	VLD1R.P 4(R10), [V7.S4]
	VFMLA   V6.S4, V8.S4, V7.S4
	VLD1R.P 4(R10), [V8.S4]
	VFMLA   V6.S4, V7.S4, V8.S4
	VLD1R.P 4(R10), [V7.S4]
	VFMLA   V6.S4, V8.S4, V7.S4
	VLD1R.P 4(R10), [V8.S4]
	VFMLA   V6.S4, V7.S4, V8.S4
	VLD1R.P 4(R10), [V7.S4]
	VFMLA   V6.S4, V8.S4, V7.S4
	FMUL4(6, 7, 7)
	FMUL4(4, 7, 7)
	FMAXNM4(14, 9, 8)
	VFMLS   V7.S4, V10.S4, V8.S4
	VST1.P  [V8.S4], 16(R0)
	SUBS    $4, R2
	BNE     loop
	RET

// func softCapNEON(x *float32, n int, limit float32)
// n is a positive multiple of 4. V9 becomes |x|, V10 x, V6 x² and V11 the result
// of the exponential; the polynomial moves between V7 and V8.
TEXT ·softCapNEON(SB), NOSPLIT, $0-20
	MOVD    x+0(FP), R0
	MOVD    n+8(FP), R1
	MOVWU   limit+16(FP), R2
	VDUP    R2, V31.S4
	EXP_CONSTANTS
	VLD1R.P 4(R9), [V0.S4]
	VLD1R.P 4(R9), [V1.S4]
	VLD1R.P 4(R9), [V2.S4]
	VLD1R.P 4(R9), [V3.S4]
	VLD1R.P 4(R9), [V12.S4]
	VLD1R.P 4(R9), [V13.S4]
	VLD1R.P 4(R9), [V14.S4]
	VLD1R   (R9), [V15.S4]

loop:
	VLD1   (R0), [V10.S4]
	FDIV4(31, 10, 10)
	FABS4(10, 9)
	FADD4(9, 9, 4)
	EXP
	FADD4(27, 4, 4)
	FDIV4(4, 15, 4)
	FSUB4(4, 27, 11)
	FMUL4(9, 9, 6)
	HORNER(V0, V1, V7)
	HORNER(V7, V2, V8)
	HORNER(V8, V3, V7)
	HORNER(V7, V12, V8)
	HORNER(V8, V13, V7)
	FMUL4(6, 7, 7)
	VMOV   V9.B16, V8.B16
	VFMLA  V9.S4, V7.S4, V8.S4
	FCMGT4(9, 14, 5)
	VBIT   V5.B16, V8.B16, V11.B16
	VUSHR  $31, V10.S4, V10.S4
	VSHL   $31, V10.S4, V10.S4
	VORR   V10.B16, V11.B16, V11.B16
	FMUL4(11, 31, 11)
	VST1.P [V11.S4], 16(R0)
	SUBS   $4, R1
	BNE    loop
	RET

// func dequantBF16NEON(dst *float32, src *byte, n int)
// n is a positive multiple of 16, here and below.
TEXT ·dequantBF16NEON(SB), NOSPLIT, $0-24
	MOVD dst+0(FP), R0
	MOVD src+8(FP), R1
	MOVD n+16(FP), R2
	VEOR V31.B16, V31.B16, V31.B16

loop:
	VLD1.P 32(R1), [V0.H8, V1.H8]
	VZIP1  V0.H8, V31.H8, V4.H8
	VZIP2  V0.H8, V31.H8, V5.H8
	VZIP1  V1.H8, V31.H8, V6.H8
	VZIP2  V1.H8, V31.H8, V7.H8
	VST1.P [V4.S4, V5.S4, V6.S4, V7.S4], 64(R0)
	SUBS   $16, R2
	BNE    loop
	RET

// func dequantF16NEON(dst *float32, src *byte, n int)
TEXT ·dequantF16NEON(SB), NOSPLIT, $0-24
	MOVD dst+0(FP), R0
	MOVD src+8(FP), R1
	MOVD n+16(FP), R2

loop:
	VLD1.P 32(R1), [V0.H8, V1.H8]
	FCVTL4(0, 4)
	FCVTL24(0, 5)
	FCVTL4(1, 6)
	FCVTL24(1, 7)
	VST1.P [V4.S4, V5.S4, V6.S4, V7.S4], 64(R0)
	SUBS   $16, R2
	BNE    loop
	RET

// HALF_BLOCK decodes the sixteen signed bytes in V(q) with the scale in V3.
#define HALF_BLOCK(q) \
	SXTL8(q, 16)    \
	SXTL28(q, 17)   \
	SXTL16(16, 4)   \
	SXTL216(16, 5)  \
	SXTL16(17, 6)   \
	SXTL216(17, 7)  \
	SCVTF4(4, 4)    \
	SCVTF4(5, 5)    \
	SCVTF4(6, 6)    \
	SCVTF4(7, 7)    \
	FMUL4(3, 4, 4)  \
	FMUL4(3, 5, 5)  \
	FMUL4(3, 6, 6)  \
	FMUL4(3, 7, 7)  \
	VST1.P [V4.S4, V5.S4, V6.S4, V7.S4], 64(R0)

// func dequantQ8NEON(dst *float32, src *byte, blocks int)
// Q8_0: scale f16, 32 signed bytes.
TEXT ·dequantQ8NEON(SB), NOSPLIT, $0-24
	MOVD dst+0(FP), R0
	MOVD src+8(FP), R1
	MOVD blocks+16(FP), R2

loop:
	MOVHU.P 2(R1), R3
	VDUP    R3, V3.H8
	FCVTL4(3, 3)
	VLD1.P  32(R1), [V1.B16, V2.B16]
	HALF_BLOCK(1)
	HALF_BLOCK(2)
	SUB     $1, R2
	CBNZ    R2, loop
	RET

// func dequantQ4NEON(dst *float32, src *byte, blocks int)
// Q4_0: scale f16, 16 bytes of nibbles, which stand for 8 more than they mean.
TEXT ·dequantQ4NEON(SB), NOSPLIT, $0-24
	MOVD  dst+0(FP), R0
	MOVD  src+8(FP), R1
	MOVD  blocks+16(FP), R2
	VMOVI $15, V30.B16
	VMOVI $8, V31.B16

loop:
	MOVHU.P 2(R1), R3
	VDUP    R3, V3.H8
	FCVTL4(3, 3)
	VLD1.P  16(R1), [V1.B16]
	VUSHR   $4, V1.B16, V2.B16
	VAND    V30.B16, V1.B16, V1.B16
	VSUB    V31.B16, V1.B16, V1.B16
	VSUB    V31.B16, V2.B16, V2.B16
	HALF_BLOCK(1)
	HALF_BLOCK(2)
	SUB     $1, R2
	CBNZ    R2, loop
	RET
