//go:build !noasm

#include "go_asm.h"
#include "textflag.h"
#include "avx2_panel_amd64.h"
#include "avx2_tokens_amd64.h"

// Hand-written: the one kernel whose half groups have signed codes and factors that are floats.

// SECOND_DOTS1 adds a plane of the second half of a group, as SIGNED_DOTS1 does of the first.
#define SECOND_DOTS1(p) \
	SIGNED_PLANE(p)                \
	VPBROADCASTD 4*(p)(R8), Y10    \
	SIGNED_MULTIPLY(Y11, Y8, Y2)   \
	SIGNED_MULTIPLY(Y12, Y9, Y3)

// func mulHalvesSignedAVX2(a *kernelArgs)
// Codes with zero point 128 and a factor for each half of a group; it does not read start. Magnitudes
// are at most 64, so that 16 bits hold a sum of two products. The sums of a half are exact as float32,
// and so are their products with factors; see lowFormat.
TEXT ·mulHalvesSignedAVX2(SB), NOSPLIT, $0-8
	LOAD_ARGS
	MOVQ kernelArgs_factors(AX), R13
	VPBROADCASTD ·topBits(SB), Y13
	VMOVDQU ·wordOnes(SB), Y15

group:
	FIRST_TOKEN

token:
	VPXOR Y0, Y0, Y0
	VPXOR Y1, Y1, Y1
	VPXOR Y2, Y2, Y2
	VPXOR Y3, Y3, Y3
	SIGNED_PLANE(0)
	SIGNED_DOTS1(0)
	SIGNED_PLANE(1)
	SIGNED_DOTS1(1)
	SIGNED_PLANE(2)
	SIGNED_DOTS1(2)
	SIGNED_PLANE(3)
	SIGNED_DOTS1(3)
	SECOND_DOTS1(4)
	SECOND_DOTS1(5)
	SECOND_DOTS1(6)
	SECOND_DOTS1(7)
	VCVTDQ2PS Y0, Y0
	VCVTDQ2PS Y1, Y1
	VCVTDQ2PS Y2, Y2
	VCVTDQ2PS Y3, Y3
	VMULPS (R13), Y0, Y0
	VMULPS 32(R13), Y1, Y1
	VMULPS 64(R13), Y2, Y2
	VMULPS 96(R13), Y3, Y3
	VADDPS Y2, Y0, Y0
	VADDPS Y3, Y1, Y1
	VMULPS (R12), Y0, Y0
	VMULPS 32(R12), Y1, Y1
	VBROADCASTSS (R9), Y10
	VFMADD213PS (DI), Y10, Y0
	VFMADD213PS 32(DI), Y10, Y1
	STORE1
	SUBQ $4, R15
	JNZ  token
	NEXT_GROUP(512)
	ADDQ $64, R13
	DECQ CX
	JNZ  group
	VZEROUPPER
	RET
