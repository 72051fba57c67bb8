//go:build !noasm

#include "textflag.h"
#include "avx2_amd64.h"
#include "avx2_exp_amd64.h"

// Functions built on the exponential.

// ELEMENTWISE gives the BX elements at SI to STEP, in Y6, and stores what it
// makes of them, in Y1, at DI. Y0 is the mask of the last ones.
#define ELEMENTWISE(STEP) \
loop:                            \
	CMPQ       BX, $8        \
	JLT        tail          \
	VMOVUPS    (SI), Y6      \
	STEP                     \
	VMOVUPS    Y1, (DI)      \
	ADDQ       $32, SI       \
	ADDQ       $32, DI       \
	SUBQ       $8, BX        \
	JMP        loop          \
tail:                            \
	TESTQ      BX, BX        \
	JZ         done          \
	TAIL_TABLE(BX)           \
	VMOVUPS    (DX), Y0      \
	VMASKMOVPS (SI), Y0, Y6  \
	STEP                     \
	VMASKMOVPS Y1, Y0, (DI)  \
done:                            \
	VZEROUPPER               \
	RET

// SILU computes Y6 / (1 + e^-Y6) in Y1.
#define SILU \
	VXORPS Y1, Y1, Y1                 \
	VSUBPS Y6, Y1, Y1                 \
	EXP(Y1)                           \
	VADDPS ·expTable+352(SB), Y1, Y1  \
	VDIVPS Y1, Y6, Y1

// GELU computes Y6 / (1 + e^-2u) in Y1, where 2u = x*(c1 + c3*x²); Y8 is c3.
#define GELU \
	VMULPS      Y6, Y6, Y1                \
	VFMADD213PS ·expTable+384(SB), Y8, Y1 \
	VMULPS      Y1, Y6, Y1                \
	VXORPS      Y2, Y2, Y2                \
	VSUBPS      Y1, Y2, Y1                \
	EXP(Y1)                               \
	VADDPS      ·expTable+352(SB), Y1, Y1 \
	VDIVPS      Y1, Y6, Y1

// func maxAVX2(p *float32, n int) float32
// n is a multiple of 8.
TEXT ·maxAVX2(SB), NOSPLIT, $0-20
	MOVQ         p+0(FP), SI
	MOVQ         n+8(FP), BX
	MOVL         $0xff800000, AX
	VMOVD        AX, X0
	VPBROADCASTD X0, Y0

	// VMAXPS returns its second source, here the maximum so far, when the
	// element is a NaN.
loop:
	SUBQ    $8, BX
	JLT     reduce
	VMOVUPS (SI), Y1
	VMAXPS  Y0, Y1, Y0
	ADDQ    $32, SI
	JMP     loop

reduce:
	TREE(VMAXPS)
	VMOVSS X0, ret+16(FP)
	VZEROUPPER
	RET

// func expSumAVX2(p *float32, n int, shift float32) float32
TEXT ·expSumAVX2(SB), NOSPLIT, $0-28
	MOVQ         p+0(FP), SI
	MOVQ         n+8(FP), BX
	VBROADCASTSS shift+16(FP), Y5
	VXORPS       Y0, Y0, Y0
	VXORPS       Y7, Y7, Y7

loop:
	CMPQ    BX, $16
	JLT     tail
	VMOVUPS (SI), Y1
	VMOVUPS 32(SI), Y2
	VSUBPS  Y5, Y1, Y1
	VSUBPS  Y5, Y2, Y2
	EXP(Y1)
	EXP(Y2)
	VMOVUPS Y1, (SI)
	VMOVUPS Y2, 32(SI)
	VADDPS  Y1, Y0, Y0
	VADDPS  Y2, Y7, Y7
	ADDQ    $64, SI
	SUBQ    $16, BX
	JMP     loop

	// Lanes beyond the end add +0, which changes no sum of exponentials.
tail:
	TESTQ      BX, BX
	JZ         reduce
	TAIL_TABLE(BX)
	VMOVUPS    (DX), Y8
	VMOVUPS    32(DX), Y9
	VMASKMOVPS (SI), Y8, Y1
	VMASKMOVPS 32(SI), Y9, Y2
	VSUBPS     Y5, Y1, Y1
	VSUBPS     Y5, Y2, Y2
	EXP(Y1)
	EXP(Y2)
	VMASKMOVPS Y1, Y8, (SI)
	VMASKMOVPS Y2, Y9, 32(SI)
	VANDPS     Y8, Y1, Y1
	VANDPS     Y9, Y2, Y2
	VADDPS     Y1, Y0, Y0
	VADDPS     Y2, Y7, Y7

	// The tree of the contract.
reduce:
	VADDPS       Y7, Y0, Y0
	TREE(VADDPS)
	VMOVSS X0, ret+24(FP)
	VZEROUPPER
	RET

// func siluAVX2(dst, x *float32, n int)
TEXT ·siluAVX2(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ n+16(FP), BX

	ELEMENTWISE(SILU)

// func geluTanhAVX2(dst, x *float32, n int)
TEXT ·geluTanhAVX2(SB), NOSPLIT, $0-24
	MOVQ    dst+0(FP), DI
	MOVQ    x+8(FP), SI
	MOVQ    n+16(FP), BX
	VMOVUPS ·expTable+416(SB), Y8

	ELEMENTWISE(GELU)

// GELU_ERF computes max(x, 0) - |x|*tail in Y1, x being Y6. Y5 becomes |x|, Y3
// is t and Y2 the polynomial.
#define GELU_ERF \
	VMULPS       Y6, Y6, Y1                 \
	VMULPS       ·expTable+1056(SB), Y1, Y1 \
	EXP(Y1)                                 \
	VPSLLD       $1, Y6, Y5                 \
	VPSRLD       $1, Y5, Y5                 \
	VMOVUPS      ·expTable+352(SB), Y4      \
	VMOVUPS      ·expTable+1024(SB), Y3     \
	VFMADD213PS  Y4, Y5, Y3                 \
	VDIVPS       Y3, Y4, Y3                 \
	VMOVUPS      ·expTable+736(SB), Y2      \
	VFMADD213PS ·expTable+768(SB), Y3, Y2  \
	VFMADD213PS ·expTable+800(SB), Y3, Y2  \
	VFMADD213PS ·expTable+832(SB), Y3, Y2  \
	VFMADD213PS ·expTable+864(SB), Y3, Y2  \
	VFMADD213PS ·expTable+896(SB), Y3, Y2  \
	VFMADD213PS ·expTable+928(SB), Y3, Y2  \
	VFMADD213PS ·expTable+960(SB), Y3, Y2  \
	VFMADD213PS ·expTable+992(SB), Y3, Y2  \
	VMULPS       Y3, Y2, Y2                 \
	VMULPS       Y1, Y2, Y2                 \
	VXORPS       Y4, Y4, Y4                 \
	VMAXPS       Y4, Y6, Y1                 \
	VFNMADD231PS Y2, Y5, Y1

// func geluErfAVX2(dst, x *float32, n int)
TEXT ·geluErfAVX2(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ n+16(FP), BX

	ELEMENTWISE(GELU_ERF)

// CAP replaces Y6 by limit*tanh(Y6/limit), in Y1: Y9 is the limit, Y8 masks the
// sign. Y5 becomes the absolute value, Y7 the polynomial.
#define CAP \
	VDIVPS      Y9, Y6, Y6                \
	VANDNPS     Y6, Y8, Y5                \
	VADDPS      Y5, Y5, Y1                \
	EXP(Y1)                               \
	VMOVUPS     ·expTable+352(SB), Y3     \
	VMOVUPS     ·expTable+704(SB), Y4     \
	VADDPS      Y3, Y1, Y1                \
	VDIVPS      Y1, Y4, Y1                \
	VSUBPS      Y1, Y3, Y1                \
	VMULPS      Y5, Y5, Y2                \
	VMOVUPS     ·expTable+480(SB), Y7     \
	VFMADD213PS ·expTable+512(SB), Y2, Y7 \
	VFMADD213PS ·expTable+544(SB), Y2, Y7 \
	VFMADD213PS ·expTable+576(SB), Y2, Y7 \
	VFMADD213PS ·expTable+608(SB), Y2, Y7 \
	VFMADD213PS ·expTable+640(SB), Y2, Y7 \
	VMULPS      Y2, Y7, Y7                \
	VFMADD213PS Y5, Y5, Y7                \
	VCMPPS      $1, ·expTable+672(SB), Y5, Y2 \
	VBLENDVPS   Y2, Y7, Y1, Y1            \
	VANDPS      Y8, Y6, Y6                \
	VORPS       Y6, Y1, Y1                \
	VMULPS      Y1, Y9, Y1

// func softCapAVX2(x *float32, n int, limit float32)
TEXT ·softCapAVX2(SB), NOSPLIT, $0-20
	MOVQ         x+0(FP), SI
	MOVQ         n+8(FP), BX
	VBROADCASTSS limit+16(FP), Y9
	VPCMPEQD     Y8, Y8, Y8
	VPSLLD       $31, Y8, Y8

	MOVQ         SI, DI
	ELEMENTWISE(CAP)
