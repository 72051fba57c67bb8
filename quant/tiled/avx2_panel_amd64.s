//go:build !noasm

#include "go_asm.h"
#include "textflag.h"

#include "avx2_panel_amd64.h"

// Panel kernels with VPMADDUBSW, which adds pairs of products in 16 bits. How
// many such sums fit there before they are widened depends on the codes. Y14 has
// 16-bit ones, with which VPMADDWD widens and adds pairs again.

#define ONES \
	VPCMPEQW Y14, Y14, Y14 \
	VPSRLW   $15, Y14, Y14

// PAIRS multiplies a plane of codes with a token's four bytes and adds pairs.
#define PAIRS(at, codes, sum) \
	VPBROADCASTD at(R8), sum       \
	VPMADDUBSW   sum, codes, sum

#define ADD_PAIRS(at, codes, sum) \
	PAIRS(at, codes, Y12)   \
	VPADDW Y12, sum, sum

// Four planes of codes of up to 5 bits fit in 16 bits: 4·2·31·127 < 2^15.
#define FOUR(at, a, b, c, d, sum) \
	PAIRS(at, a, sum)         \
	ADD_PAIRS(at+4, b, sum)   \
	ADD_PAIRS(at+8, c, sum)   \
	ADD_PAIRS(at+12, d, sum)  \
	VPMADDWD Y14, sum, sum

// Two planes of codes of 6 bits do.
#define TWO(at, a, b, sum) \
	PAIRS(at, a, sum)        \
	ADD_PAIRS(at+4, b, sum)  \
	VPMADDWD Y14, sum, sum

// One plane of codes with signs, whose magnitudes are the unsigned factor.
#define ONE(at, codes, sum) \
	VPBROADCASTD at(R8), Y12     \
	VPSIGNB      codes, Y12, Y12 \
	VPABSB       codes, Y11      \
	VPMADDUBSW   Y12, Y11, Y12   \
	VPMADDWD     Y14, Y12, Y12   \
	VPADDD       Y12, sum, sum

#define PRODUCTS(start) \
	FOUR(0, Y0, Y1, Y2, Y3, Y10)   \
	FOUR(16, Y4, Y5, Y6, Y7, Y11)  \
	VPBROADCASTD start, Y12        \
	VPADDD       Y11, Y10, Y10     \
	VPADDD       Y12, Y10, Y10

// func mulPlainAVX2(a *kernelArgs)
TEXT ·mulPlainAVX2(SB), NOSPLIT, $0-8
	LOAD_ARGS
	ONES

half:
	SCALE((R12)(BX*1), Y8, Y9)
	FIRST_TOKEN

token:
	PRODUCTS((R11))
	FLOAT(Y8, Y9)
	ADD
	NEXT_TOKEN
	JNZ token
	NEXT_HALF(half)

next:
	NEXT_GROUP
	DECQ CX
	JNZ  half
	VZEROUPPER
	RET

// func mulMinsAVX2(a *kernelArgs)
TEXT ·mulMinsAVX2(SB), NOSPLIT, $0-8
	LOAD_ARGS
	ONES

half:
	SCALE((R12)(BX*1), Y8, Y9)
	VMOVUPS (R13)(BX*1), Y13
	FIRST_TOKEN

token:
	PRODUCTS(·startValue(SB))
	FLOAT(Y8, Y9)
	ADD
	ADD_MIN
	NEXT_TOKEN
	JNZ token
	NEXT_HALF(half)

next:
	NEXT_GROUP
	DECQ CX
	JNZ  half
	VZEROUPPER
	RET

// func mulSignedAVX2(a *kernelArgs)
// Codes less their zero of 128: the start is that of sums without a zero.
TEXT ·mulSignedAVX2(SB), NOSPLIT, $0-8
	LOAD_ARGS
	ONES
	VPBROADCASTD ·topBits(SB), Y13

half:
	SCALE((R12)(BX*1), Y8, Y9)
	FIRST_TOKEN
	VPXOR Y13, Y0, Y0
	VPXOR Y13, Y1, Y1
	VPXOR Y13, Y2, Y2
	VPXOR Y13, Y3, Y3
	VPXOR Y13, Y4, Y4
	VPXOR Y13, Y5, Y5
	VPXOR Y13, Y6, Y6
	VPXOR Y13, Y7, Y7

token:
	VPBROADCASTD ·startValue(SB), Y10
	ONE(0, Y0, Y10)
	ONE(4, Y1, Y10)
	ONE(8, Y2, Y10)
	ONE(12, Y3, Y10)
	ONE(16, Y4, Y10)
	ONE(20, Y5, Y10)
	ONE(24, Y6, Y10)
	ONE(28, Y7, Y10)
	FLOAT(Y8, Y9)
	ADD
	NEXT_TOKEN
	JNZ token
	NEXT_HALF(half)

next:
	NEXT_GROUP
	DECQ CX
	JNZ  half
	VZEROUPPER
	RET

// func mulHalvesAVX2(a *kernelArgs)
TEXT ·mulHalvesAVX2(SB), NOSPLIT, $0-8
	LOAD_ARGS
	MOVQ kernelArgs_factors(AX), R13
	ONES

half:
	FACTORS
	FIRST_TOKEN

token:
	TWO(0, Y0, Y1, Y10)
	TWO(8, Y2, Y3, Y11)
	VPBROADCASTD (R11), Y12
	VPADDD Y11, Y10, Y10
	VPADDD Y12, Y10, Y10
	TWO(16, Y4, Y5, Y11)
	VPBROADCASTD (R11)(DX*1), Y12
	VPADDD Y12, Y11, Y11
	TWO(24, Y6, Y7, Y13)
	VPADDD Y13, Y11, Y11
	ADD_HALVES
	NEXT_TOKEN
	JNZ token
	NEXT_HALF(half)

next:
	NEXT_GROUP
	ADDQ $64, R13 // over the second factors
	ADDQ DX, R11 // over the second halves' starts
	DECQ CX
	JNZ  half
	VZEROUPPER
	RET
