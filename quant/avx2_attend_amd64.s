//go:build !noasm

#include "go_asm.h"
#include "textflag.h"
#include "attend_amd64.h"
#include "avx2_amd64.h"
#include "avx2_exp_amd64.h"
#include "avx2_weighted_amd64.h"

// Softmax of a block of scores, and values weighed with it. See attend.go.

// func softmaxBlockAVX2(w *BlockWeights, scores, scales, state *float32)
// The scores become weights in their place. X14 is the greatest score before,
// X15 the new one and Y8 what is taken from the scores.
TEXT ·softmaxBlockAVX2(SB), NOSPLIT, $0-32
	MOVQ w+0(FP), DI
	MOVQ scores+8(FP), SI
	MOVQ scales+16(FP), R8
	MOVQ state+24(FP), R9
	VBROADCASTSS ·minusInf(SB), Y2

	// VMAXPS returns its second source when an element is a NaN: the maximum so
	// far, which is none.
	VMOVAPS Y2, Y0
	VMOVAPS Y2, Y1
	MOVQ    $-256, CX

largest:
	VMOVUPS 256(SI)(CX*1), Y3
	VMOVUPS 288(SI)(CX*1), Y4
	VMAXPS  Y0, Y3, Y0
	VMAXPS  Y1, Y4, Y1
	ADDQ    $64, CX
	JNE     largest
	VMAXPS  Y1, Y0, Y0
	TREE(VMAXPS)
	VMOVSS   (R9), X14
	VMAXSS   X14, X0, X15
	VMOVAPS  X15, X8
	VUCOMISS X2, X15
	JNE      shifted
	VXORPS   X8, X8, X8          // nothing counts, or NaNs

shifted:
	VBROADCASTSS X8, Y8
	VXORPS  Y6, Y6, Y6
	VXORPS  Y7, Y7, Y7
	MOVQ    $-256, CX

exponentials:
	VMOVUPS 256(SI)(CX*1), Y3
	VMOVUPS 288(SI)(CX*1), Y4
	VSUBPS  Y8, Y3, Y3
	VSUBPS  Y8, Y4, Y4
	EXP_DOWN(Y3)
	EXP_DOWN(Y4)
	VADDPS  Y3, Y6, Y6
	VADDPS  Y4, Y7, Y7
	VMOVUPS Y3, 256(SI)(CX*1)
	VMOVUPS Y4, 288(SI)(CX*1)
	ADDQ    $64, CX
	JNE     exponentials
	VADDPS  Y7, Y6, Y0
	TREE(VADDPS)
	VMOVSS   ·expTable+352(SB), X5 // decay 1
	VUCOMISS X14, X15
	JE       decayed
	VSUBSS   X8, X14, X5
	EXP_DOWN(Y5)

decayed:
	VMOVSS      X15, (R9)
	VFMADD231SS 4(R9), X5, X0
	VMOVSS      X0, 4(R9)
	VMOVSS      X5, BlockWeights_Decay(DI)

	// The weights with their scales; the greatest by its bits.
	VPXOR Y0, Y0, Y0
	MOVQ  $-256, CX

weights:
	VMOVUPS 256(SI)(CX*1), Y3
	VMULPS  256(R8)(CX*1), Y3, Y3
	VMOVUPS Y3, 256(SI)(CX*1)
	VPMAXUD Y3, Y0, Y0
	ADDQ    $32, CX
	JNE     weights
	TREE(VPMAXUD)
	VMOVD  X0, AX
	ANDL   $0x7fffffff, AX       // a NaN may have a sign
	WEIGHT_SCALE
	VBROADCASTSS X4, Y4
	MOVQ         $-256, CX

	// Packing interleaves the halves of two registers, VPERMQ mends it.
codes:
	VMULPS     256(SI)(CX*1), Y4, Y0
	VMULPS     288(SI)(CX*1), Y4, Y1
	VCVTPS2DQ  Y0, Y0
	VCVTPS2DQ  Y1, Y1
	VPACKSSDW  Y1, Y0, Y0
	VPERMQ     $0xD8, Y0, Y0
	VMOVDQU    Y0, BlockWeights_Codes(DI)
	ADDQ       $32, DI
	ADDQ       $64, CX
	JNE        codes
	VZEROUPPER
	RET

// LOAD_PAIR loads a pair of tokens' values, WEIGH adds them to the integer sums
// of one query; w has the pair's weights.
#define LOAD_PAIR(base) \
	VPMOVSXBW (base), Y8   \
	VPMOVSXBW 16(base), Y9

#define WEIGH(w, a, b) \
	VPBROADCASTD w, Y10         \
	VPMADDWD     Y8, Y10, Y11   \
	VPADDD       Y11, a, a      \
	VPMADDWD     Y9, Y10, Y12   \
	VPADDD       Y12, b, b

// FLOATS2 makes floats of integer sums.
#define FLOATS2(a, b) \
	VCVTDQ2PS a, a \
	VCVTDQ2PS b, b

// func weightedSum4x16AVX2(o *float32, stride int, w *BlockWeights, values *int8, step, pairs int)
TEXT ·weightedSum4x16AVX2(SB), NOSPLIT, $0-48
	MOVQ o+0(FP), DI
	MOVQ stride+8(FP), R10
	MOVQ w+16(FP), R8
	MOVQ values+24(FP), SI
	MOVQ step+32(FP), DX
	MOVQ pairs+40(FP), CX
	SHLQ $2, R10
	MOVQ R8, R9
	ZERO8

loop:
	LOAD_PAIR(SI)
	WEIGH((R9), Y0, Y1)
	WEIGH(BlockWeights__size(R9), Y2, Y3)
	WEIGH((2*BlockWeights__size)(R9), Y4, Y5)
	WEIGH((3*BlockWeights__size)(R9), Y6, Y7)
	ADDQ $4, R9
	ADDQ DX, SI
	DECQ CX
	JNZ  loop

	FLOATS2(Y0, Y1)
	FLOATS2(Y2, Y3)
	FLOATS2(Y4, Y5)
	FLOATS2(Y6, Y7)
	OUTPUT4X16
	VZEROUPPER
	RET

// func weightedSum1x16AVX2(o *float32, w *BlockWeights, values *int8, step, pairs int)
TEXT ·weightedSum1x16AVX2(SB), NOSPLIT, $0-40
	MOVQ o+0(FP), DI
	MOVQ w+8(FP), R8
	MOVQ values+16(FP), SI
	MOVQ step+24(FP), DX
	MOVQ pairs+32(FP), CX
	MOVQ R8, R9
	ZERO2(Y0, Y1)

loop:
	LOAD_PAIR(SI)
	WEIGH((R9), Y0, Y1)
	ADDQ $4, R9
	ADDQ DX, SI
	DECQ CX
	JNZ  loop
	FLOATS2(Y0, Y1)
	OUTPUT16(Y0, Y1)
	VZEROUPPER
	RET
