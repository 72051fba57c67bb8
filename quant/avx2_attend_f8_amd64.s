//go:build !noasm

#include "go_asm.h"
#include "textflag.h"
#include "avx2_amd64.h"
#include "avx2_weighted_amd64.h"

// func floatWeights(w *BlockWeights, n int)
// Converts the codes of n queries' weights to floats.
TEXT ·floatWeights(SB), NOSPLIT, $0-16
	MOVQ w+0(FP), DI
	MOVQ n+8(FP), CX

query:
	XORL AX, AX

codes:
	VPMOVSXWD BlockWeights_Codes(DI)(AX*1), Y0
	VPMOVSXWD (BlockWeights_Codes+16)(DI)(AX*1), Y1
	VCVTDQ2PS Y0, Y0
	VCVTDQ2PS Y1, Y1
	VMOVUPS   Y0, BlockWeights_floats(DI)(AX*2)
	VMOVUPS   Y1, (BlockWeights_floats+32)(DI)(AX*2)
	ADDQ      $32, AX
	CMPQ      AX, $128
	JNE       codes
	ADDQ      $BlockWeights__size, DI
	DECQ      CX
	JNZ       query
	VZEROUPPER
	RET

// LOAD_FLOATS makes floats of 16 codes at SI, in Y8 and Y9: as binary16 numbers
// without their uppermost exponent bit, which the mask Y15 clears of copies of
// the sign.
#define LOAD_FLOATS \
	VPMOVSXBW    (SI), Y8     \
	VPSLLW       $7, Y8, Y8   \
	VPAND        Y15, Y8, Y9  \
	VCVTPH2PS    X9, Y8       \
	VEXTRACTI128 $1, Y9, X9   \
	VCVTPH2PS    X9, Y9

#define BEGIN_FLOATS \
	MOVL         $0xBFFFBFFF, AX \
	VMOVD        AX, X15         \
	VPBROADCASTD X15, Y15

// WEIGH adds them to the sums of one query.
#define WEIGH(w, a, b) \
	VBROADCASTSS w, Y10     \
	VFMADD231PS  Y8, Y10, a \
	VFMADD231PS  Y9, Y10, b

// func weightedSumF8x4x16(o *float32, stride int, w *BlockWeights, values *uint8, step, count int)
// Four queries, 16 elements.
TEXT ·weightedSumF8x4x16(SB), NOSPLIT, $0-48
	MOVQ o+0(FP), DI
	MOVQ stride+8(FP), R10
	MOVQ w+16(FP), R8
	MOVQ values+24(FP), SI
	MOVQ step+32(FP), DX
	MOVQ count+40(FP), CX
	SHLQ $2, R10
	LEAQ BlockWeights_floats(R8), R9
	BEGIN_FLOATS
	ZERO8

loop:
	LOAD_FLOATS
	WEIGH((R9), Y0, Y1)
	WEIGH(BlockWeights__size(R9), Y2, Y3)
	WEIGH((2*BlockWeights__size)(R9), Y4, Y5)
	WEIGH((3*BlockWeights__size)(R9), Y6, Y7)
	ADDQ $4, R9
	ADDQ DX, SI
	DECQ CX
	JNZ  loop

	OUTPUT4X16
	VZEROUPPER
	RET

// func weightedSumF8x1x16(o *float32, w *BlockWeights, values *uint8, step, count int)
TEXT ·weightedSumF8x1x16(SB), NOSPLIT, $0-40
	MOVQ o+0(FP), DI
	MOVQ w+8(FP), R8
	MOVQ values+16(FP), SI
	MOVQ step+24(FP), DX
	MOVQ count+32(FP), CX
	LEAQ BlockWeights_floats(R8), R9
	BEGIN_FLOATS
	ZERO2(Y0, Y1)

loop:
	LOAD_FLOATS
	WEIGH((R9), Y0, Y1)
	ADDQ $4, R9
	ADDQ DX, SI
	DECQ CX
	JNZ  loop
	OUTPUT16(Y0, Y1)
	VZEROUPPER
	RET
