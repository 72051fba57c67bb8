//go:build !noasm

#include "textflag.h"
#include "avx512_amd64.h"
#include "avx512_exp_amd64.h"

// Functions built on the exponential.

// func maxAVX512(p *float32, n int) float32
TEXT ·maxAVX512(SB), NOSPLIT, $0-20
	MOVQ         p+0(FP), SI
	MOVQ         n+8(FP), BX
	MOVL         $0xff800000, AX
	VPBROADCASTD AX, Z0

	// VMAXPS returns its second source, here the maximum so far, when the
	// element is a NaN.
loop:
	CMPQ    BX, $16
	JLT     tail
	VMOVUPS (SI), Z1
	VMAXPS  Z0, Z1, Z0
	ADDQ    $64, SI
	SUBQ    $16, BX
	JMP     loop

tail:
	TESTQ     BX, BX
	JZ        reduce
	TAIL(BX)
	VMOVUPS.Z (SI), K1, Z1
	VMAXPS    Z0, Z1, K1, Z0

reduce:
	TREE(VMAXPS)
	VMOVSS X0, ret+16(FP)
	VZEROUPPER
	RET

// func expSumAVX512(p *float32, n int, shift float32) float32
TEXT ·expSumAVX512(SB), NOSPLIT, $0-28
	MOVQ         p+0(FP), SI
	MOVQ         n+8(FP), BX
	VBROADCASTSS shift+16(FP), Z5
	VPXORD       Z0, Z0, Z0
	EXP_CONSTANTS

loop:
	CMPQ    BX, $16
	JLT     tail
	VMOVUPS (SI), Z1
	VSUBPS  Z5, Z1, Z1
	EXP(Z1)
	VMOVUPS Z1, (SI)
	VADDPS  Z1, Z0, Z0
	ADDQ    $64, SI
	SUBQ    $16, BX
	JMP     loop

tail:
	TESTQ     BX, BX
	JZ        reduce
	TAIL(BX)
	VMOVUPS.Z (SI), K1, Z1
	VSUBPS    Z5, Z1, Z1
	EXP(Z1)
	VMOVUPS   Z1, K1, (SI)
	VADDPS    Z1, Z0, K1, Z0

	// The tree of the contract.
reduce:
	TREE(VADDPS)
	VMOVSS X0, ret+24(FP)
	VZEROUPPER
	RET

// ELEMENTWISE gives the BX elements at SI to STEP, in Z6, and stores what it
// makes of them, in Z1, at DI.
#define ELEMENTWISE(STEP) \
loop:                           \
	CMPQ      BX, $16       \
	JLT       tail          \
	VMOVUPS   (SI), Z6      \
	STEP                    \
	VMOVUPS   Z1, (DI)      \
	ADDQ      $64, SI       \
	ADDQ      $64, DI       \
	SUBQ      $16, BX       \
	JMP       loop          \
tail:                           \
	TESTQ     BX, BX        \
	JZ        done          \
	TAIL(BX)                \
	VMOVUPS.Z (SI), K1, Z6  \
	STEP                    \
	VMOVUPS   Z1, K1, (DI)  \
done:                           \
	VZEROUPPER              \
	RET

// SILU computes Z6 / (1 + e^-Z6) in Z1.
#define SILU \
	VSUBPS Z6, Z29, Z1  \
	EXP(Z1)             \
	VADDPS Z27, Z1, Z1  \
	VDIVPS Z1, Z6, Z1

// GELU computes Z6 / (1 + e^-2u) in Z1, where 2u = x*(c1 + c3*x²); Z7 is c1
// and Z8 c3.
#define GELU \
	VMULPS      Z6, Z6, Z1  \
	VFMADD213PS Z7, Z8, Z1  \
	VMULPS      Z1, Z6, Z1  \
	VSUBPS      Z1, Z29, Z1 \
	EXP(Z1)                 \
	VADDPS      Z27, Z1, Z1 \
	VDIVPS      Z1, Z6, Z1

// func siluAVX512(dst, x *float32, n int)
TEXT ·siluAVX512(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ n+16(FP), BX
	EXP_CONSTANTS

	ELEMENTWISE(SILU)

// func geluTanhAVX512(dst, x *float32, n int)
TEXT ·geluTanhAVX512(SB), NOSPLIT, $0-24
	MOVQ         dst+0(FP), DI
	MOVQ         x+8(FP), SI
	MOVQ         n+16(FP), BX
	EXP_CONSTANTS
	VBROADCASTSS ·expTable+384(SB), Z7
	VBROADCASTSS ·expTable+416(SB), Z8

	ELEMENTWISE(GELU)

// GELU_ERF computes max(x, 0) - |x|*tail in Z1, x being Z6: Z7-Z15 are the
// coefficients, Z30 is the slope, Z31 is -1/2. Z5 becomes |x|, Z3 is t and Z2 the
// polynomial.
#define GELU_ERF \
	VMULPS      Z6, Z6, Z1   \
	VMULPS      Z31, Z1, Z1  \
	EXP(Z1)                  \
	VPSLLD      $1, Z6, Z5   \
	VPSRLD      $1, Z5, Z5   \
	VMOVAPS     Z30, Z3      \
	VFMADD213PS Z27, Z5, Z3  \
	VDIVPS      Z3, Z27, Z3  \
	VMOVAPS     Z7, Z2       \
	VFMADD213PS Z8, Z3, Z2   \
	VFMADD213PS Z9, Z3, Z2   \
	VFMADD213PS Z10, Z3, Z2   \
	VFMADD213PS Z11, Z3, Z2   \
	VFMADD213PS Z12, Z3, Z2   \
	VFMADD213PS Z13, Z3, Z2   \
	VFMADD213PS Z14, Z3, Z2   \
	VFMADD213PS Z15, Z3, Z2   \
	VMULPS      Z3, Z2, Z2   \
	VMULPS      Z1, Z2, Z2   \
	VMAXPS      Z29, Z6, Z1  \
	VFNMADD231PS Z2, Z5, Z1

// func geluErfAVX512(dst, x *float32, n int)
TEXT ·geluErfAVX512(SB), NOSPLIT, $0-24
	MOVQ         dst+0(FP), DI
	MOVQ         x+8(FP), SI
	MOVQ         n+16(FP), BX
	EXP_CONSTANTS
	VBROADCASTSS ·expTable+736(SB), Z7
	VBROADCASTSS ·expTable+768(SB), Z8
	VBROADCASTSS ·expTable+800(SB), Z9
	VBROADCASTSS ·expTable+832(SB), Z10
	VBROADCASTSS ·expTable+864(SB), Z11
	VBROADCASTSS ·expTable+896(SB), Z12
	VBROADCASTSS ·expTable+928(SB), Z13
	VBROADCASTSS ·expTable+960(SB), Z14
	VBROADCASTSS ·expTable+992(SB), Z15
	VBROADCASTSS ·expTable+1024(SB), Z30
	VBROADCASTSS ·expTable+1056(SB), Z31

	ELEMENTWISE(GELU_ERF)

// CAP replaces Z6 by limit*tanh(Z6/limit), in Z1: Z30 is the limit, Z31 masks
// the sign, Z8-Z13 are the coefficients, Z14 where the polynomial ends, Z15 two.
// Z5 becomes the absolute value, Z7 the polynomial.
#define CAP \
	VDIVPS      Z30, Z6, Z6     \
	VPANDND     Z6, Z31, Z5     \
	VADDPS      Z5, Z5, Z1      \
	EXP(Z1)                     \
	VADDPS      Z27, Z1, Z1     \
	VDIVPS      Z1, Z15, Z1     \
	VSUBPS      Z1, Z27, Z1     \
	VMULPS      Z5, Z5, Z2      \
	VMOVAPS     Z8, Z7          \
	VFMADD213PS Z9, Z2, Z7      \
	VFMADD213PS Z10, Z2, Z7     \
	VFMADD213PS Z11, Z2, Z7     \
	VFMADD213PS Z12, Z2, Z7     \
	VFMADD213PS Z13, Z2, Z7     \
	VMULPS      Z2, Z7, Z7      \
	VFMADD213PS Z5, Z5, Z7      \
	VCMPPS      $1, Z14, Z5, K2 \
	VMOVAPS     Z7, K2, Z1      \
	VPANDD      Z31, Z6, Z6     \
	VPORD       Z6, Z1, Z1      \
	VMULPS      Z1, Z30, Z1

// func softCapAVX512(x *float32, n int, limit float32)
TEXT ·softCapAVX512(SB), NOSPLIT, $0-20
	MOVQ         x+0(FP), SI
	MOVQ         n+8(FP), BX
	VBROADCASTSS limit+16(FP), Z30
	EXP_CONSTANTS
	VBROADCASTSS ·expTable+480(SB), Z8
	VBROADCASTSS ·expTable+512(SB), Z9
	VBROADCASTSS ·expTable+544(SB), Z10
	VBROADCASTSS ·expTable+576(SB), Z11
	VBROADCASTSS ·expTable+608(SB), Z12
	VBROADCASTSS ·expTable+640(SB), Z13
	VBROADCASTSS ·expTable+672(SB), Z14
	VBROADCASTSS ·expTable+704(SB), Z15
	MOVL         $0x80000000, AX
	VPBROADCASTD AX, Z31

	MOVQ         SI, DI
	ELEMENTWISE(CAP)
