//go:build !noasm

#include "go_asm.h"
#include "textflag.h"
#include "neon_arm64.h"
#include "neon_weighted_arm64.h"

// Weights of a block are rounded and values weighed with them. See attend.go.

// SMLAL adds the products of the lower four 16-bit numbers of n and the one at
// index i of m, SMLAL2 those of the upper four; m < 16.
#define SMLAL(m, i, n, d) WORD $(0x0F402000 | ((i)&3)<<20 | ((i)>>2)<<11 | (m)<<16 | (n)<<5 | (d))
#define SMLAL2(m, i, n, d) WORD $(0x4F402000 | ((i)&3)<<20 | ((i)>>2)<<11 | (m)<<16 | (n)<<5 | (d))

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

// LOAD_PAIR loads a pair's values: V19 and V20 are the first token's, V21 and
// V22 the second's.
#define LOAD_PAIR \
	VLD2 (R1), [V17.B16, V18.B16] \
	ADD  R4, R1                   \
	SXTL8(17, 19)                 \
	SXTL28(17, 20)                \
	SXTL8(18, 21)                 \
	SXTL28(18, 22)

// WEIGH adds them to the integer sums of a query, whose weights V0 has at index
// 2*q and the next.
#define WEIGH(q, a, b, c, d) \
	SMLAL(0, 2*q, 19, a)     \
	SMLAL2(0, 2*q, 19, b)    \
	SMLAL(0, 2*q, 20, c)     \
	SMLAL2(0, 2*q, 20, d)    \
	SMLAL(0, 2*q+1, 21, a)   \
	SMLAL2(0, 2*q+1, 21, b)  \
	SMLAL(0, 2*q+1, 22, c)   \
	SMLAL2(0, 2*q+1, 22, d)

// FLOATS4 makes floats of integer sums.
#define FLOATS4(a, b, c, d) \
	SCVTF4(a, a) \
	SCVTF4(b, b) \
	SCVTF4(c, c) \
	SCVTF4(d, d)

// func weightedSum4x16NEON(o *float32, stride int, w *BlockWeights, values *int8, step, pairs int)
TEXT ·weightedSum4x16NEON(SB), NOSPLIT, $0-48
	MOVD o+0(FP), R0
	MOVD stride+8(FP), R6
	MOVD w+16(FP), R2
	MOVD values+24(FP), R1
	MOVD step+32(FP), R4
	MOVD pairs+40(FP), R3
	LSL  $2, R6
	MOVD R2, R8
	ADD  $BlockWeights__size, R8, R9
	ADD  $BlockWeights__size, R9, R10
	ADD  $BlockWeights__size, R10, R11
	ZERO_SUMS

loop:
	LOAD_PAIR
	VLD1.P 4(R8), V0.S[0]
	VLD1.P 4(R9), V0.S[1]
	VLD1.P 4(R10), V0.S[2]
	VLD1.P 4(R11), V0.S[3]
	WEIGH(0, 1, 2, 3, 4)
	WEIGH(1, 5, 6, 7, 8)
	WEIGH(2, 9, 10, 11, 12)
	WEIGH(3, 13, 14, 15, 16)
	SUBS $1, R3
	BNE  loop

	FLOATS4(1, 2, 3, 4)
	FLOATS4(5, 6, 7, 8)
	FLOATS4(9, 10, 11, 12)
	FLOATS4(13, 14, 15, 16)
	OUTPUT4X16
	RET

// func weightedSum1x16NEON(o *float32, w *BlockWeights, values *int8, step, pairs int)
TEXT ·weightedSum1x16NEON(SB), NOSPLIT, $0-40
	MOVD o+0(FP), R0
	MOVD w+8(FP), R2
	MOVD values+16(FP), R1
	MOVD step+24(FP), R4
	MOVD pairs+32(FP), R3
	MOVD R2, R8
	ZERO4(V1, V2, V3, V4)

loop:
	LOAD_PAIR
	VLD1.P 4(R8), V0.S[0]
	WEIGH(0, 1, 2, 3, 4)
	SUBS $1, R3
	BNE  loop
	FLOATS4(1, 2, 3, 4)
	OUTPUT16(V1, V2, V3, V4)
	RET
