//go:build !noasm

// Hand-written: no other file has these loops; the rounding sequence that it shares with
// tiled/neon_quantize_arm64.s is another package's.

#include "go_asm.h"
#include "textflag.h"
#include "neon_arm64.h"

// Quantization of the weights of a block. attend.go has the formulas.

// func quantizeWeightsNEON(w *BlockWeights, p, scales *float32)
TEXT ·quantizeWeightsNEON(SB), NOSPLIT, $0-24
	MOVD w+0(FP), R0
	MOVD p+8(FP), R1
	MOVD scales+16(FP), R2
	VEOR V0.B16, V0.B16, V0.B16
	MOVD R1, R4
	MOVD $4, R3

weights:
	VLD1   (R4), [V4.S4, V5.S4, V6.S4, V7.S4]
	VLD1.P 64(R2), [V16.S4, V17.S4, V18.S4, V19.S4]
	FMUL4(16, 4, 4)
	FMUL4(17, 5, 5)
	FMUL4(18, 6, 6)
	FMUL4(19, 7, 7)
	VST1.P [V4.S4, V5.S4, V6.S4, V7.S4], 64(R4)
	FABS4(4, 4)                  // a NaN may have a sign
	FABS4(5, 5)
	FABS4(6, 6)
	FABS4(7, 7)
	UMAX4(4, 0, 0)
	UMAX4(5, 0, 0)
	UMAX4(6, 0, 0)
	UMAX4(7, 0, 0)
	SUBS   $1, R3
	BNE    weights
	UMAXV4(0, 0)
	FMOVS  F0, R5

	// Scale and inverse, as bits.
	MOVW   $0, R6
	MOVW   $0, R7
	MOVD   $const_minWeightBits, R8
	CMPW   R8, R5
	BLO    small
	MOVD   $0x38000100, R8       // 1/maxWeight
	FMOVS  R8, F1
	FMULS  F1, F0, F1
	FMOVS  F1, R6
	MOVD   $0x7F800000, R8
	CMPW   R8, R5
	BHS    small                 // infinite or a NaN
	MOVD   $0x46FFFE00, R8       // maxWeight
	FMOVS  R8, F1
	FDIVS  F0, F1, F1
	FMOVS  F1, R7

small:
	MOVW   R6, BlockWeights_Scale(R0)
	VDUP   R7, V2.S4
	MOVD   $4, R3

codes:
	VLD1.P 64(R1), [V4.S4, V5.S4, V6.S4, V7.S4]
	FMUL4(2, 4, 4)
	FMUL4(2, 5, 5)
	FMUL4(2, 6, 6)
	FMUL4(2, 7, 7)
	FCVTNS4(4, 4)
	FCVTNS4(5, 5)
	FCVTNS4(6, 6)
	FCVTNS4(7, 7)
	SQXTN4(4, 16)
	SQXTN24(5, 16)
	SQXTN4(6, 17)
	SQXTN24(7, 17)
	VST1.P [V16.H8, V17.H8], 32(R0)
	SUBS   $1, R3
	BNE    codes
	RET

// func floatWeights(w *BlockWeights, n int)
// Converts the codes of n queries' weights to floats.
TEXT ·floatWeights(SB), NOSPLIT, $0-16
	MOVD w+0(FP), R0
	MOVD n+8(FP), R1

query:
	ADD  $BlockWeights_Codes, R0, R2
	ADD  $BlockWeights_floats, R0, R3
	MOVD $4, R4

codes:
	VLD1.P 32(R2), [V0.H8, V1.H8]
	SXTL16(0, 2)
	SXTL216(0, 3)
	SXTL16(1, 4)
	SXTL216(1, 5)
	SCVTF4(2, 2)
	SCVTF4(3, 3)
	SCVTF4(4, 4)
	SCVTF4(5, 5)
	VST1.P [V2.S4, V3.S4, V4.S4, V5.S4], 64(R3)
	SUBS   $1, R4
	BNE    codes
	ADD    $BlockWeights__size, R0
	SUBS   $1, R1
	BNE    query
	RET
