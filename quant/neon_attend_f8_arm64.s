//go:build !noasm

#include "go_asm.h"
#include "textflag.h"
#include "neon_arm64.h"
#include "neon_weighted_arm64.h"

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

// LOAD_FLOATS makes floats of 16 codes, in V20 to V23: they are binary16 numbers
// without their uppermost exponent bit, which the mask V31 clears of copies of
// the sign.
#define LOAD_FLOATS \
	VLD1 (R1), [V17.B16]         \
	ADD  R4, R1                  \
	SXTL8(17, 18)                \
	SXTL28(17, 19)               \
	VSHL $7, V18.H8, V18.H8      \
	VSHL $7, V19.H8, V19.H8      \
	VAND V31.B16, V18.B16, V18.B16 \
	VAND V31.B16, V19.B16, V19.B16 \
	FCVTL4(18, 20)               \
	FCVTL24(18, 21)              \
	FCVTL4(19, 22)               \
	FCVTL24(19, 23)

#define BEGIN_FLOATS \
	MOVD $0xBFFF, R7 \
	VDUP R7, V31.H8

// WEIGH adds them to the sums of a query, whose next weight is at r.
#define WEIGH(r, a, b, c, d) \
	VLD1R.P 4(r), [V24.S4]     \
	VFMLA   V24.S4, V20.S4, a.S4 \
	VFMLA   V24.S4, V21.S4, b.S4 \
	VFMLA   V24.S4, V22.S4, c.S4 \
	VFMLA   V24.S4, V23.S4, d.S4

// func weightedSumF8x4x16(o *float32, stride int, w *BlockWeights, values *uint8, step, count int)
// Four queries, 16 elements.
TEXT ·weightedSumF8x4x16(SB), NOSPLIT, $0-48
	MOVD o+0(FP), R0
	MOVD stride+8(FP), R6
	MOVD w+16(FP), R2
	MOVD values+24(FP), R1
	MOVD step+32(FP), R4
	MOVD count+40(FP), R3
	LSL  $2, R6
	BEGIN_FLOATS
	ADD  $BlockWeights_floats, R2, R8
	ADD  $BlockWeights__size, R8, R9
	ADD  $BlockWeights__size, R9, R10
	ADD  $BlockWeights__size, R10, R11
	ZERO_SUMS

loop:
	LOAD_FLOATS
	WEIGH(R8, V1, V2, V3, V4)
	WEIGH(R9, V5, V6, V7, V8)
	WEIGH(R10, V9, V10, V11, V12)
	WEIGH(R11, V13, V14, V15, V16)
	SUBS $1, R3
	BNE  loop

	OUTPUT4X16
	RET

// func weightedSumF8x1x16(o *float32, w *BlockWeights, values *uint8, step, count int)
TEXT ·weightedSumF8x1x16(SB), NOSPLIT, $0-40
	MOVD o+0(FP), R0
	MOVD w+8(FP), R2
	MOVD values+16(FP), R1
	MOVD step+24(FP), R4
	MOVD count+32(FP), R3
	BEGIN_FLOATS
	ADD  $BlockWeights_floats, R2, R8
	ZERO4(V1, V2, V3, V4)

loop:
	LOAD_FLOATS
	WEIGH(R8, V1, V2, V3, V4)
	SUBS $1, R3
	BNE  loop
	OUTPUT16(V1, V2, V3, V4)
	RET
