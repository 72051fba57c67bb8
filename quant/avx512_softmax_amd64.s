//go:build !noasm

// Hand-written: it keeps a block of scores in registers, which no other instruction set can.

#include "go_asm.h"
#include "textflag.h"
#include "attend_amd64.h"
#include "avx512_amd64.h"
#include "avx512_exp_amd64.h"

// Softmax of blocks of 64 scores. attend.go has the formulas.

// func softmaxBlocksAVX512(w *BlockWeights, n int, scores, scales, state *float32, stride int, next *byte, lines int)
//
// The kernel prefetches the given number of cache lines of next for every query.
// Z6-Z9 are the scores and then the weights, Z10-Z13 the scales. K1 and K5-K7 mask
// the attended tokens. X14 is the greatest score before this block, X15 the greatest
// including it, and Z30 the shift subtracted from the scores.
TEXT ·softmaxBlocksAVX512(SB), NOSPLIT, $0-64
	MOVQ w+0(FP), DI
	MOVQ n+8(FP), BX
	MOVQ scores+16(FP), SI
	MOVQ scales+24(FP), R8
	MOVQ state+32(FP), R9
	MOVQ stride+40(FP), R10
	MOVQ next+48(FP), R13
	MOVQ lines+56(FP), R12
	SHLQ $2, R10
	EXP_CONSTANTS
	MOVL         $0xff800000, DX
	VPBROADCASTD DX, Z31

query:
	MOVQ  R12, CX
	TESTQ CX, CX
	JZ    asked

ask:
	PREFETCHT1 (R13)
	ADDQ  $64, R13
	DECQ  CX
	JNZ   ask

asked:
	MOVQ BlockWeights_Attended(DI), AX
	CMPQ AX, $-1                 // mostly all count
	JNE  some
	VMOVUPS (SI), Z6
	VMOVUPS 64(SI), Z7
	VMOVUPS 128(SI), Z8
	VMOVUPS 192(SI), Z9
	VMOVUPS (R8), Z10
	VMOVUPS 64(R8), Z11
	VMOVUPS 128(R8), Z12
	VMOVUPS 192(R8), Z13
	JMP  loaded

some:
	KMOVW  AX, K1
	SHRQ   $16, AX
	KMOVW  AX, K5
	SHRQ   $16, AX
	KMOVW  AX, K6
	SHRQ   $16, AX
	KMOVW  AX, K7
	VMOVAPS   Z31, Z6
	VMOVAPS   Z31, Z7
	VMOVAPS   Z31, Z8
	VMOVAPS   Z31, Z9
	VMOVUPS   (SI), K1, Z6
	VMOVUPS   64(SI), K5, Z7
	VMOVUPS   128(SI), K6, Z8
	VMOVUPS   192(SI), K7, Z9
	VMOVUPS.Z (R8), K1, Z10
	VMOVUPS.Z 64(R8), K5, Z11
	VMOVUPS.Z 128(R8), K6, Z12
	VMOVUPS.Z 192(R8), K7, Z13

loaded:
	// VMAXPS returns its second source when either is a NaN: the maximum so
	// far, which is none. Comparing with -Inf first makes sure of that.
	VMAXPS Z31, Z6, Z0
	VMAXPS Z31, Z7, Z1
	VMAXPS Z31, Z8, Z2
	VMAXPS Z31, Z9, Z3
	VMAXPS Z1, Z0, Z0
	VMAXPS Z3, Z2, Z2
	VMAXPS Z2, Z0, Z0
	TREE(VMAXPS)
	VMOVSS (R9), X14
	VMAXSS X14, X0, X15
	VUCOMISS X31, X15
	VMOVAPS X15, X2
	JNE    shifted
	VXORPS X2, X2, X2            // nothing counts, or NaNs

shifted:
	VBROADCASTSS X2, Z30
	VSUBPS Z30, Z6, Z6
	VSUBPS Z30, Z7, Z7
	VSUBPS Z30, Z8, Z8
	VSUBPS Z30, Z9, Z9
	EXP_DOWN(Z6)
	EXP_DOWN(Z7)
	EXP_DOWN(Z8)
	EXP_DOWN(Z9)
	VADDPS Z7, Z6, Z0
	VADDPS Z8, Z0, Z0
	VADDPS Z9, Z0, Z0
	TREE(VADDPS)
	VMOVAPS X27, X5              // decay 1
	VUCOMISS X14, X15
	JE     decayed
	VSUBSS X30, X14, X5
	EXP_DOWN(Z5)

decayed:
	VMOVSS X15, (R9)
	VFMADD231SS 4(R9), X5, X0
	VMOVSS X0, 4(R9)
	VMOVSS X5, BlockWeights_Decay(DI)

	// The weights with their scales; the greatest by its bits.
	VMULPS Z10, Z6, Z6
	VMULPS Z11, Z7, Z7
	VMULPS Z12, Z8, Z8
	VMULPS Z13, Z9, Z9
	VPMAXUD Z7, Z6, Z0
	VPMAXUD Z9, Z8, Z1
	VPMAXUD Z1, Z0, Z0
	TREE(VPMAXUD)
	VMOVD  X0, AX
	ANDL   $0x7fffffff, AX       // a NaN may have a sign
	WEIGHT_SCALE
	VBROADCASTSS X4, Z4
	VMULPS Z4, Z6, Z6
	VMULPS Z4, Z7, Z7
	VMULPS Z4, Z8, Z8
	VMULPS Z4, Z9, Z9
	VCVTPS2DQ Z6, Z6
	VCVTPS2DQ Z7, Z7
	VCVTPS2DQ Z8, Z8
	VCVTPS2DQ Z9, Z9
	VPMOVDW Z6, BlockWeights_Codes+0(DI)
	VPMOVDW Z7, BlockWeights_Codes+32(DI)
	VPMOVDW Z8, BlockWeights_Codes+64(DI)
	VPMOVDW Z9, BlockWeights_Codes+96(DI)
	ADDQ   $256, SI
	ADDQ   R10, R9
	ADDQ   $BlockWeights__size, DI
	DECQ   BX
	JNZ    query
	VZEROUPPER
	RET
