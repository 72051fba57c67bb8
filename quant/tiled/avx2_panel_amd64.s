//go:build !noasm

#include "go_asm.h"
#include "textflag.h"

// Panel kernels: half a tile of rows, whose codes of a group lie in Y0-Y7, times
// all tokens of a tile, then the other half. VPMADDUBSW adds pairs of products in
// 16 bits; how many such sums fit there before they must be widened depends on
// the codes. Sums of floats lie in memory.
//
//	AX args   BX offset of the half in a plane and of its rows' numbers
//	SI codes  R12 scales   R13 mins    CX groups   R15 what is left of the half's tokens
//	R8 x      R9 dx        R10 shift   R11 start   DI sums   DX 4·width
//	Y8 scale  Y9 startFloat times it   Y10 sum     Y11, Y12 scratch
//	Y13 min or the second scale        Y14 16-bit ones, or the second's product

#define LOAD_ARGS \
	MOVQ a+0(FP), AX                \
	MOVQ kernelArgs_codes(AX), SI   \
	MOVQ kernelArgs_scales(AX), R12 \
	MOVQ kernelArgs_mins(AX), R13   \
	MOVQ kernelArgs_x(AX), R8       \
	MOVQ kernelArgs_dx(AX), R9      \
	MOVQ kernelArgs_shift(AX), R10  \
	MOVQ kernelArgs_start(AX), R11  \
	MOVQ kernelArgs_groups(AX), CX  \
	MOVQ kernelArgs_width(AX), DX   \
	SHLQ $2, DX

// FIRST_TOKEN begins a half with its codes.
#define FIRST_TOKEN \
	VMOVDQU (SI)(BX*1), Y0         \
	VMOVDQU 64(SI)(BX*1), Y1       \
	VMOVDQU 128(SI)(BX*1), Y2      \
	VMOVDQU 192(SI)(BX*1), Y3      \
	VMOVDQU 256(SI)(BX*1), Y4      \
	VMOVDQU 320(SI)(BX*1), Y5      \
	VMOVDQU 384(SI)(BX*1), Y6      \
	VMOVDQU 448(SI)(BX*1), Y7      \
	MOVQ    kernelArgs_sums(AX), DI \
	ADDQ    BX, DI                 \
	MOVQ    DX, R15

#define NEXT_TOKEN \
	ADDQ $32, R8  \
	ADDQ $4, R9   \
	ADDQ $4, R10  \
	ADDQ $4, R11  \
	ADDQ $64, DI  \
	SUBQ $4, R15

// NEXT_HALF goes back to the first token for the second half, NEXT_GROUP on to
// the next group.
#define NEXT_HALF(half) \
	XORQ $32, BX           \
	JZ   next              \
	MOVQ DX, R15           \
	SHLQ $3, R15           \
	SUBQ R15, R8           \
	SUBQ DX, R9            \
	SUBQ DX, R10           \
	SUBQ DX, R11           \
	JMP  half

#define NEXT_GROUP(scaleBytes) \
	ADDQ $512, SI         \
	ADDQ $scaleBytes, R12 \
	ADDQ $64, R13

#define SCALE(mem, scale, product) \
	VMOVUPS      mem, scale                 \
	VBROADCASTSS ·startValue(SB), product   \
	VMULPS       product, scale, product

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

// ADD adds an integer sum, times the scale and times the token's.
#define FLOAT(scale, product, sum) \
	VFMSUB213PS  product, scale, sum

#define ADD \
	VBROADCASTSS (R9), Y12        \
	VFMADD213PS  (DI), Y12, Y10

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
	XORL BX, BX

half:
	SCALE((R12)(BX*1), Y8, Y9)
	FIRST_TOKEN

token:
	PRODUCTS((R11))
	FLOAT(Y8, Y9, Y10)
	ADD
	VMOVUPS Y10, (DI)
	NEXT_TOKEN
	JNZ token
	NEXT_HALF(half)

next:
	NEXT_GROUP(64)
	DECQ CX
	JNZ  half
	VZEROUPPER
	RET

// func mulMinsAVX2(a *kernelArgs)
TEXT ·mulMinsAVX2(SB), NOSPLIT, $0-8
	LOAD_ARGS
	ONES
	XORL BX, BX

half:
	SCALE((R12)(BX*1), Y8, Y9)
	VMOVUPS (R13)(BX*1), Y13
	FIRST_TOKEN

token:
	PRODUCTS(·startValue(SB))
	FLOAT(Y8, Y9, Y10)
	ADD
	VBROADCASTSS (R10), Y12
	VFMADD231PS  Y13, Y12, Y10
	VMOVUPS Y10, (DI)
	NEXT_TOKEN
	JNZ token
	NEXT_HALF(half)

next:
	NEXT_GROUP(64)
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
	XORL BX, BX

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
	FLOAT(Y8, Y9, Y10)
	ADD
	VMOVUPS Y10, (DI)
	NEXT_TOKEN
	JNZ token
	NEXT_HALF(half)

next:
	NEXT_GROUP(64)
	DECQ CX
	JNZ  half
	VZEROUPPER
	RET

// func mulHalvesAVX2(a *kernelArgs)
// Y15 is the second half's product: ones are needed too.
TEXT ·mulHalvesAVX2(SB), NOSPLIT, $0-8
	LOAD_ARGS
	ONES
	XORL BX, BX

half:
	SCALE((R12)(BX*1), Y8, Y9)
	SCALE(64(R12)(BX*1), Y13, Y15)
	FIRST_TOKEN

token:
	TWO(0, Y0, Y1, Y10)
	TWO(8, Y2, Y3, Y11)
	VPBROADCASTD (R11), Y12
	VPADDD Y11, Y10, Y10
	VPADDD Y12, Y10, Y10
	FLOAT(Y8, Y9, Y10)
	ADD
	TWO(16, Y4, Y5, Y11)
	VMOVUPS Y10, (DI)
	TWO(24, Y6, Y7, Y10)
	VPBROADCASTD (R11)(DX*1), Y12
	VPADDD Y11, Y10, Y10
	VPADDD Y12, Y10, Y10
	FLOAT(Y13, Y15, Y10)
	ADD
	VMOVUPS Y10, (DI)
	NEXT_TOKEN
	JNZ token
	NEXT_HALF(half)

next:
	NEXT_GROUP(128)
	ADDQ DX, R11 // over the second halves' starts
	DECQ CX
	JNZ  half
	VZEROUPPER
	RET
