//go:build !noasm

// Hand-written: AVX-512 unpacks the 6-bit scales of all groups of a block at once,
// AVX2 for 8 rows of one group at a time.

#include "textflag.h"
#include "avx512_amd64.h"

// Kernels that decode the scales, mins and factors of 16 rows to float32. They write
// [n][16] floats for n tile blocks that are stride bytes apart, or [8][16] for the
// groups of one tile block; factors are [8][2][16].
//
//	DI, DX outputs (DX is stride in kernels for n blocks)   SI source   CX left

// func scalesF16AVX512(dst *float32, src *byte, stride, n int, flip uint32)
// It converts binary16 numbers and XORs the bits of the results with flip.
TEXT ·scalesF16AVX512(SB), NOSPLIT, $0-36
	MOVQ         dst+0(FP), DI
	MOVQ         src+8(FP), SI
	MOVQ         stride+16(FP), DX
	MOVQ         n+24(FP), CX
	MOVL         flip+32(FP), AX
	VPBROADCASTD AX, Z1

loop:
	VCVTPH2PS (SI), Z0
	VPXORD    Z1, Z0, Z0
	VMOVUPS   Z0, (DI)
	ADDQ      DX, SI
	ADDQ      $64, DI
	DECQ      CX
	JNZ       loop
	VZEROUPPER
	RET

// func scalesExponentAVX512(dst *float32, src *byte, stride, n int)
// It converts the exponents of MXFP4 to 2^(e-128).
TEXT ·scalesExponentAVX512(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ stride+16(FP), DX
	MOVQ n+24(FP), CX

loop:
	EXPONENT((SI), Z0, Z1)
	VMOVUPS Z0, (DI)
	ADDQ    DX, SI
	ADDQ    $64, DI
	DECQ    CX
	JNZ     loop
	VZEROUPPER
	RET

// func scalesZeroAVX512(mins, scales *float32, src *byte, stride, n int)
// It computes mins = zero point · scale for I4Z, from the zero points at src.
TEXT ·scalesZeroAVX512(SB), NOSPLIT, $0-40
	MOVQ mins+0(FP), DI
	MOVQ scales+8(FP), R8
	MOVQ src+16(FP), SI
	MOVQ stride+24(FP), DX
	MOVQ n+32(FP), CX

loop:
	VPMOVZXBD (SI), Z0
	VCVTDQ2PS Z0, Z0
	VMULPS    (R8), Z0, Z0
	VMOVUPS   Z0, (DI)
	ADDQ      DX, SI
	ADDQ      $64, R8
	ADDQ      $64, DI
	DECQ      CX
	JNZ       loop
	VZEROUPPER
	RET

// func scalesPairsAVX512(scales, mins *float32, block *byte)
// It decodes the head of a Q4_K or Q5_K tile block: 8 scales and mins of 6 bits times
// the block's binary16 scale and min.
TEXT ·scalesPairsAVX512(SB), NOSPLIT, $256-24
	MOVQ         scales+0(FP), DI
	MOVQ         mins+8(FP), DX
	MOVQ         block+16(FP), SI
	LEAQ         bytes-256(SP), R12
	CONSTANTS
	VPBROADCASTD ·highMask(SB), Z28
	PAIRS(SI, R12)
	VCVTPH2PS    (SI), Z1
	VCVTPH2PS    32(SI), Z2
	MOVQ         $8, CX

loop:
	VPMOVZXBD (R12), Z3
	VPMOVZXBD 128(R12), Z4
	VCVTDQ2PS Z3, Z3
	VCVTDQ2PS Z4, Z4
	VMULPS    Z1, Z3, Z3
	VMULPS    Z2, Z4, Z4
	VMOVUPS   Z3, (DI)
	VMOVUPS   Z4, (DX)
	ADDQ      $16, R12
	ADDQ      $64, DI
	ADDQ      $64, DX
	DECQ      CX
	JNZ       loop
	VZEROUPPER
	RET

// func scalesBytesAVX512(scales, factors *float32, block *byte)
// It decodes the head of a Q6_K tile block: the binary16 scale, repeated for each
// group, and the int8 factors of the half groups.
TEXT ·scalesBytesAVX512(SB), NOSPLIT, $0-24
	MOVQ      scales+0(FP), DI
	MOVQ      factors+8(FP), DX
	MOVQ      block+16(FP), SI
	VCVTPH2PS (SI), Z1
	MOVQ      $8, CX

loop:
	VPMOVSXBD 32(SI), Z3
	VPMOVSXBD 48(SI), Z4
	VCVTDQ2PS Z3, Z3
	VCVTDQ2PS Z4, Z4
	VMOVUPS   Z1, (DI)
	VMOVUPS   Z3, (DX)
	VMOVUPS   Z4, 64(DX)
	ADDQ      $32, SI
	ADDQ      $64, DI
	ADDQ      $128, DX
	DECQ      CX
	JNZ       loop
	VZEROUPPER
	RET

// func scalesSixAVX512(scales *float32, block *byte)
// It decodes the head of an IQ4_XS tile block: 8 scales of 6 bits, less 32, times the
// block's binary16 scale.
TEXT ·scalesSixAVX512(SB), NOSPLIT, $128-16
	MOVQ         scales+0(FP), DI
	MOVQ         block+8(FP), SI
	LEAQ         bytes-128(SP), R12
	CONSTANTS
	VPBROADCASTD ·highMask(SB), Z28
	SIX(SI, R12)
	VCVTPH2PS    (SI), Z1
	MOVQ         $8, CX

loop:
	SIX_SCALE(R12, Z1, Z3)
	VMOVUPS Z3, (DI)
	ADDQ    $64, DI
	DECQ    CX
	JNZ     loop
	VZEROUPPER
	RET
