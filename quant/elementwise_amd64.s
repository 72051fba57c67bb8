//go:build !noasm

// Hand-written: macros already share the only loop, and AVX-512 uses these kernels too.

#include "textflag.h"

// Elementwise kernels, bound by memory: 256-bit registers are enough, for the
// avx512 path too. Every operation rounds on its own.

// EIGHTS runs WIDE for 32 elements and for 8, and ONE for those that are left.
// DI dst   SI, R8 sources   CX elements left
#define EIGHTS(WIDE, ONE, STEP) \
	SUBQ $32, CX \
	JLT  few     \
many:                \
	WIDE(0)      \
	WIDE(32)     \
	WIDE(64)     \
	WIDE(96)     \
	STEP(128)    \
	SUBQ $32, CX \
	JGE  many    \
few:                 \
	ADDQ $24, CX \
	JLT  ones    \
eight:               \
	WIDE(0)      \
	STEP(32)     \
	SUBQ $8, CX  \
	JGE  eight   \
ones:                \
	ADDQ $8, CX  \
	JZ   done    \
single:              \
	ONE          \
	STEP(4)      \
	DECQ CX      \
	JNZ  single  \
done:                \
	VZEROUPPER   \
	RET

#define STEP2(n) \
	ADDQ $n, DI \
	ADDQ $n, SI

#define STEP3(n) \
	ADDQ $n, DI \
	ADDQ $n, SI \
	ADDQ $n, R8

#define ADD8(at) \
	VMOVUPS at(DI), Y0     \
	VADDPS  at(SI), Y0, Y0 \
	VMOVUPS Y0, at(DI)

#define ADD1 \
	VMOVSS (DI), X0     \
	VADDSS (SI), X0, X0 \
	VMOVSS X0, (DI)

#define MUL8(at) \
	VMOVUPS at(DI), Y0     \
	VMULPS  at(SI), Y0, Y0 \
	VMOVUPS Y0, at(DI)

#define MUL1 \
	VMOVSS (DI), X0     \
	VMULSS (SI), X0, X0 \
	VMOVSS X0, (DI)

#define SCALE8(at) \
	VMULPS  at(DI), Y15, Y0 \
	VMOVUPS Y0, at(DI)

#define SCALE1 \
	VMULSS (DI), X15, X0 \
	VMOVSS X0, (DI)

#define SCALED8(at) \
	VMULPS  at(SI), Y15, Y0 \
	VADDPS  at(DI), Y0, Y0  \
	VMOVUPS Y0, at(DI)

#define SCALED1 \
	VMULSS (SI), X15, X0 \
	VADDSS (DI), X0, X0  \
	VMOVSS X0, (DI)

#define PRODUCT8(at) \
	VMOVUPS at(SI), Y0     \
	VMULPS  at(R8), Y0, Y0 \
	VADDPS  at(DI), Y0, Y0 \
	VMOVUPS Y0, at(DI)

#define PRODUCT1 \
	VMOVSS (SI), X0     \
	VMULSS (R8), X0, X0 \
	VADDSS (DI), X0, X0 \
	VMOVSS X0, (DI)

// CLAMP8 limits with instructions that return their second source, here the element, when one is a NaN.
#define CLAMP8(at) \
	VMAXPS  at(DI), Y12, Y0 \
	VMINPS  Y0, Y13, Y0     \
	VADDPS  Y14, Y0, Y0     \
	VMULPS  Y15, Y0, Y0     \
	VMOVUPS Y0, at(DI)

#define CLAMP1 \
	VMAXSS (DI), X12, X0 \
	VMINSS X0, X13, X0   \
	VADDSS X14, X0, X0   \
	VMULSS X15, X0, X0   \
	VMOVSS X0, (DI)

// NORM8 multiplies by the scale and by the weight plus an offset.
#define NORM8(at) \
	VMULPS  at(SI), Y15, Y0 \
	VADDPS  at(R8), Y14, Y1 \
	VMULPS  Y1, Y0, Y0      \
	VMOVUPS Y0, at(DI)

#define NORM1 \
	VMULSS (SI), X15, X0 \
	VADDSS (R8), X14, X1 \
	VMULSS X1, X0, X0    \
	VMOVSS X0, (DI)

// func addAVX2(dst, a *float32, n int)
TEXT ·addAVX2(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ n+16(FP), CX
	EIGHTS(ADD8, ADD1, STEP2)

// func mulByAVX2(dst, a *float32, n int)
TEXT ·mulByAVX2(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ n+16(FP), CX
	EIGHTS(MUL8, MUL1, STEP2)

// func scaleAVX2(dst *float32, n int, s float32)
TEXT ·scaleAVX2(SB), NOSPLIT, $0-20
	MOVQ         dst+0(FP), DI
	MOVQ         n+8(FP), CX
	VBROADCASTSS s+16(FP), Y15
	EIGHTS(SCALE8, SCALE1, STEP2)

// func normAVX2(dst, x, weight *float32, n int, scale, offset float32)
TEXT ·normAVX2(SB), NOSPLIT, $0-40
	MOVQ         dst+0(FP), DI
	MOVQ         x+8(FP), SI
	MOVQ         weight+16(FP), R8
	MOVQ         n+24(FP), CX
	VBROADCASTSS scale+32(FP), Y15
	VBROADCASTSS offset+36(FP), Y14
	EIGHTS(NORM8, NORM1, STEP3)

// func addScaledAVX2(dst, a *float32, n int, s float32)
TEXT ·addScaledAVX2(SB), NOSPLIT, $0-28
	MOVQ         dst+0(FP), DI
	MOVQ         a+8(FP), SI
	MOVQ         n+16(FP), CX
	VBROADCASTSS s+24(FP), Y15
	EIGHTS(SCALED8, SCALED1, STEP2)

// func addProductAVX2(dst, a, b *float32, n int)
TEXT ·addProductAVX2(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ b+16(FP), R8
	MOVQ n+24(FP), CX
	EIGHTS(PRODUCT8, PRODUCT1, STEP3)

// func clampAVX2(x *float32, n int, low, high, offset, factor float32)
TEXT ·clampAVX2(SB), NOSPLIT, $0-32
	MOVQ         x+0(FP), DI
	MOVQ         n+8(FP), CX
	VBROADCASTSS low+16(FP), Y12
	VBROADCASTSS high+20(FP), Y13
	VBROADCASTSS offset+24(FP), Y14
	VBROADCASTSS factor+28(FP), Y15
	EIGHTS(CLAMP8, CLAMP1, STEP2)
