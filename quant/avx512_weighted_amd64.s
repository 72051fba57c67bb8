//go:build !noasm

#include "textflag.h"

// Weighted sums of rows. Up to 64 elements of an output stay in four registers
// while the tokens pass; the masks K1-K4 say which of them exist.

// WEIGHTED_MASKS sets K1-K4 to which of the first d elements four registers hold.
#define WEIGHTED_MASKS(d) \
	MOVQ   d, CX       \
	MOVQ   $-1, AX     \
	NEGQ   CX          \
	SHRQ   CX, AX      \
	KMOVW  AX, K1      \
	SHRQ   $16, AX     \
	KMOVW  AX, K2      \
	SHRQ   $16, AX     \
	KMOVW  AX, K3      \
	SHRQ   $16, AX     \
	KMOVW  AX, K4

#define LOAD64(base, a, b, c, d) \
	VMOVUPS.Z (base), K1, a    \
	VMOVUPS.Z 64(base), K2, b  \
	VMOVUPS.Z 128(base), K3, c \
	VMOVUPS.Z 192(base), K4, d

#define STORE64(base, a, b, c, d) \
	VMOVUPS a, K1, (base)    \
	VMOVUPS b, K2, 64(base)  \
	VMOVUPS c, K3, 128(base) \
	VMOVUPS d, K4, 192(base)

#define FMA64(p, a, b, c, d) \
	VFMADD231PS Z16, p, a \
	VFMADD231PS Z17, p, b \
	VFMADD231PS Z18, p, c \
	VFMADD231PS Z19, p, d

// func weightedSumF32x4AVX512(o *float32, oStride int, p *float32, pStride int, v *float32, vStride, tokens, d int)
// Four outputs, of which up to 64 elements; strides in elements, d in 1..64.
TEXT ·weightedSumF32x4AVX512(SB), NOSPLIT, $0-64
	MOVQ o+0(FP), DI
	MOVQ oStride+8(FP), R10
	MOVQ p+16(FP), R8
	MOVQ pStride+24(FP), R12
	MOVQ v+32(FP), R9
	MOVQ vStride+40(FP), R14
	MOVQ tokens+48(FP), DX
	MOVQ d+56(FP), BX
	SHLQ $2, R10
	SHLQ $2, R12
	SHLQ $2, R14
	LEAQ (R12)(R12*2), R13
	LEAQ (DI)(R10*1), SI
	LEAQ (DI)(R10*2), R11
	LEAQ (SI)(R10*2), R10
	WEIGHTED_MASKS(BX)
	LOAD64(DI, Z0, Z1, Z2, Z3)
	LOAD64(SI, Z4, Z5, Z6, Z7)
	LOAD64(R11, Z8, Z9, Z10, Z11)
	LOAD64(R10, Z12, Z13, Z14, Z15)

loop:
	LOAD64(R9, Z16, Z17, Z18, Z19)
	VBROADCASTSS (R8), Z20
	VBROADCASTSS (R8)(R12*1), Z21
	VBROADCASTSS (R8)(R12*2), Z22
	VBROADCASTSS (R8)(R13*1), Z23
	FMA64(Z20, Z0, Z1, Z2, Z3)
	FMA64(Z21, Z4, Z5, Z6, Z7)
	FMA64(Z22, Z8, Z9, Z10, Z11)
	FMA64(Z23, Z12, Z13, Z14, Z15)
	ADDQ         $4, R8
	ADDQ         R14, R9
	DECQ         DX
	JNZ          loop
	STORE64(DI, Z0, Z1, Z2, Z3)
	STORE64(SI, Z4, Z5, Z6, Z7)
	STORE64(R11, Z8, Z9, Z10, Z11)
	STORE64(R10, Z12, Z13, Z14, Z15)
	VZEROUPPER
	RET

// func weightedSumF32x1AVX512(o, p, v *float32, vStride, tokens, d int)
// One output, otherwise as weightedSumF32x4AVX512.
TEXT ·weightedSumF32x1AVX512(SB), NOSPLIT, $0-48
	MOVQ o+0(FP), DI
	MOVQ p+8(FP), R8
	MOVQ v+16(FP), R9
	MOVQ vStride+24(FP), R14
	MOVQ tokens+32(FP), DX
	MOVQ d+40(FP), BX
	SHLQ $2, R14
	WEIGHTED_MASKS(BX)
	LOAD64(DI, Z0, Z1, Z2, Z3)

loop:
	LOAD64(R9, Z16, Z17, Z18, Z19)
	VBROADCASTSS (R8), Z20
	FMA64(Z20, Z0, Z1, Z2, Z3)
	ADDQ         $4, R8
	ADDQ         R14, R9
	DECQ         DX
	JNZ          loop
	STORE64(DI, Z0, Z1, Z2, Z3)
	VZEROUPPER
	RET
