//go:build !noasm

#include "go_asm.h"
#include "textflag.h"
#include "avx512_amd64.h"
#include "avx512_weighted_amd64.h"

// LOAD_FLOATS makes floats of a token's 64 codes: they are binary16 numbers
// without their uppermost exponent bit, which the mask Z24 clears of copies of
// the sign. It asks for those of the next block, which lie R13 on.
#define LOAD_FLOATS \
	VPMOVSXBW     (SI), Z16     \
	VPMOVSXBW     32(SI), Z18   \
	PREFETCHT0    (SI)(R13*1)   \
	VPSLLW        $7, Z16, Z16  \
	VPSLLW        $7, Z18, Z18  \
	VPANDD        Z24, Z16, Z16 \
	VPANDD        Z24, Z18, Z18 \
	VEXTRACTI64X4 $1, Z16, Y17  \
	VEXTRACTI64X4 $1, Z18, Y19  \
	VCVTPH2PS     Y16, Z16      \
	VCVTPH2PS     Y17, Z17      \
	VCVTPH2PS     Y18, Z18      \
	VCVTPH2PS     Y19, Z19

#define BEGIN_FLOATS \
	MOVL         $0xBFFFBFFF, AX \
	VPBROADCASTD AX, Z24

// WEIGH64 adds them to the sums of one query.
#define WEIGH64(w, a, b, c, d) \
	VFMADD231PS Z16, w, a \
	VFMADD231PS Z17, w, b \
	VFMADD231PS Z18, w, c \
	VFMADD231PS Z19, w, d

// func weightedSumF8x4AVX512(o *float32, stride int, w *BlockWeights, values, next *uint8, step, count int)
// Four queries, 64 elements.
TEXT ·weightedSumF8x4AVX512(SB), NOSPLIT, $0-56
	MOVQ o+0(FP), DI
	MOVQ stride+8(FP), R10
	MOVQ w+16(FP), R8
	MOVQ values+24(FP), SI
	MOVQ next+32(FP), R13
	MOVQ step+40(FP), DX
	MOVQ count+48(FP), CX
	SUBQ SI, R13
	SHLQ $2, R10
	LEAQ BlockWeights_floats(R8), R9
	BEGIN_FLOATS
	ZERO16

loop:
	LOAD_FLOATS
	VBROADCASTSS (R9), Z20
	VBROADCASTSS BlockWeights__size(R9), Z21
	VBROADCASTSS (2*BlockWeights__size)(R9), Z22
	VBROADCASTSS (3*BlockWeights__size)(R9), Z23
	WEIGH64(Z20, Z0, Z1, Z2, Z3)
	WEIGH64(Z21, Z4, Z5, Z6, Z7)
	WEIGH64(Z22, Z8, Z9, Z10, Z11)
	WEIGH64(Z23, Z12, Z13, Z14, Z15)
	ADDQ $4, R9
	ADDQ DX, SI
	DECQ CX
	JNZ  loop

	OUTPUT4X64
	VZEROUPPER
	RET

// func weightedSumF8x1AVX512(o *float32, w *BlockWeights, values, next *uint8, step, count int)
TEXT ·weightedSumF8x1AVX512(SB), NOSPLIT, $0-48
	MOVQ o+0(FP), DI
	MOVQ w+8(FP), R8
	MOVQ values+16(FP), SI
	MOVQ next+24(FP), R13
	MOVQ step+32(FP), DX
	MOVQ count+40(FP), CX
	SUBQ SI, R13
	LEAQ BlockWeights_floats(R8), R9
	BEGIN_FLOATS
	ZERO4(Z0, Z1, Z2, Z3)

loop:
	LOAD_FLOATS
	VBROADCASTSS (R9), Z20
	WEIGH64(Z20, Z0, Z1, Z2, Z3)
	ADDQ $4, R9
	ADDQ DX, SI
	DECQ CX
	JNZ  loop
	OUTPUT64(Z0, Z1, Z2, Z3)
	VZEROUPPER
	RET
