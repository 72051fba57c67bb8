//go:build !noasm

// Hand-written: it keeps scores in memory, where the AVX-512 kernel keeps them in registers.

#include "go_asm.h"
#include "textflag.h"
#include "attend_amd64.h"
#include "avx2_amd64.h"
#include "avx2_exp_amd64.h"

// Softmax of a block of 64 scores. attend.go has the formulas.

// func softmaxBlockAVX2(w *BlockWeights, scores, scales, state *float32, next *byte, lines int)
// The kernel overwrites the scores with weights, and prefetches lines of next. X14 is the greatest score before this
// block, X15 the greatest including it, and Y8 the shift subtracted from the scores.
TEXT ·softmaxBlockAVX2(SB), NOSPLIT, $0-48
	MOVQ w+0(FP), DI
	MOVQ scores+8(FP), SI
	MOVQ scales+16(FP), R8
	MOVQ state+24(FP), R9
	MOVQ next+32(FP), R13
	MOVQ lines+40(FP), CX
	TESTQ CX, CX
	JZ   asked

ask:
	PREFETCHT1 (R13)
	ADDQ $64, R13
	DECQ CX
	JNZ  ask

asked:
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
