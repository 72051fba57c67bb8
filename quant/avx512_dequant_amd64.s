//go:build !noasm

#include "textflag.h"
#include "dequant_amd64.h"

// Decoders. Each takes a number of whole blocks; quants become float32 by
// conversion or by a table of sixteen values in a register, of which VPERMPS
// picks by the low four bits of an index, so nibbles need no masking.
// Products of scales and quants are exact in these formats, so a fused
// multiply-subtract gives what the two operations of the definition give.

// func dequantBF16AVX512(dst *float32, src *byte, n int)
// n is a multiple of 16.
TEXT ·dequantBF16AVX512(SB), NOSPLIT, $0-24
	ENTER(n)

loop:
	VPMOVZXWD (SI), Z0
	VPSLLD    $16, Z0, Z0
	VMOVUPS   Z0, (DI)
	ADDQ      $32, SI
	ADDQ      $64, DI
	SUBQ      $16, BX
	JNZ       loop
	VZEROUPPER
	RET

// func dequantF16AVX512(dst *float32, src *byte, n int)
// n is a multiple of 16.
TEXT ·dequantF16AVX512(SB), NOSPLIT, $0-24
	ENTER(n)

loop:
	VCVTPH2PS (SI), Z0
	VMOVUPS   Z0, (DI)
	ADDQ      $32, SI
	ADDQ      $64, DI
	SUBQ      $16, BX
	JNZ       loop
	VZEROUPPER
	RET

// func dequantQ8AVX512(dst *float32, src *byte, blocks int)
// Q8_0: scale f16, 32 signed bytes.
TEXT ·dequantQ8AVX512(SB), NOSPLIT, $0-24
	ENTER(blocks)

loop:
	F16_SCALE((SI), X0, Z0)
	VPMOVSXBD 2(SI), Z1
	VPMOVSXBD 18(SI), Z2
	VCVTDQ2PS Z1, Z1
	VCVTDQ2PS Z2, Z2
	VMULPS    Z0, Z1, Z1
	VMULPS    Z0, Z2, Z2
	VMOVUPS   Z1, (DI)
	VMOVUPS   Z2, 64(DI)
	ADDQ      $34, SI
	ADDQ      $128, DI
	DECQ      BX
	JNZ       loop
	VZEROUPPER
	RET

// func dequantNibblesAVX512(dst *float32, src *byte, blocks int, table *[16]float32)
// Q4_0 and IQ4_NL: scale f16, 16 bytes of nibbles that index the table.
TEXT ·dequantNibblesAVX512(SB), NOSPLIT, $0-32
	MOVQ    dst+0(FP), DI
	MOVQ    src+8(FP), SI
	MOVQ    blocks+16(FP), BX
	MOVQ    table+24(FP), DX
	VMOVUPS (DX), Z3

loop:
	F16_SCALE((SI), X0, Z0)
	VPMOVZXBD 2(SI), Z1
	VPSRLD    $4, Z1, Z2
	VPERMPS   Z3, Z1, Z1
	VPERMPS   Z3, Z2, Z2
	VMULPS    Z0, Z1, Z1
	VMULPS    Z0, Z2, Z2
	VMOVUPS   Z1, (DI)
	VMOVUPS   Z2, 64(DI)
	ADDQ      $18, SI
	ADDQ      $128, DI
	DECQ      BX
	JNZ       loop
	VZEROUPPER
	RET

// K_SCALES decodes the head of a Q4_K or Q5_K block at SI: lanes 0-7 of Z0
// become the scales d*scale, lanes 8-15 the offsets dmin*min. Z30 selects d
// for the lower and dmin for the upper lanes.
#define K_SCALES \
	K_SCALE_BYTES               \
	VMOVQ     R8, X0            \
	VPINSRQ   $1, R9, X0, X0    \
	VPMOVZXBD X0, Z0            \
	VCVTDQ2PS Z0, Z0            \
	VMOVD     (SI), X1          \
	VCVTPH2PS X1, X1            \
	VPERMPS   Z1, Z30, Z1       \
	VMULPS    Z1, Z0, Z0

// K_GROUP broadcasts scale and offset of the next group to Z4 and Z5: Z6 and Z7
// are their lane numbers, Z29 is one.
#define K_GROUP \
	VPERMPS Z0, Z6, Z4  \
	VPERMPS Z0, Z7, Z5  \
	VPADDD  Z29, Z6, Z6 \
	VPADDD  Z29, Z7, Z7

// K_ENTER loads the constants of the K decoders.
#define K_ENTER \
	ENTER(blocks)                 \
	VMOVUPS      ·nibbleValues(SB), Z31 \
	VPTERNLOGD   $0xff, Z29, Z29, Z29 \
	VPSRLD       $31, Z29, Z29    \
	MOVL         $0xff00, AX      \
	KMOVW        AX, K1           \
	VMOVDQA32.Z  Z29, K1, Z30     \
	VPSLLD       $3, Z29, Z28

#define NO_FIFTH

// WITH_FIFTH adds 16.0 to the values whose quants' fifth bit is set; Z10 and Z11
// are the bytes of those bits and Z12 the group's bit, Z13 is 16.0.
#define WITH_FIFTH \
	VPTESTMD Z12, Z10, K2    \
	VPTESTMD Z12, Z11, K3    \
	VADDPS   Z13, Z8, K2, Z8 \
	VADDPS   Z13, Z9, K3, Z9 \
	VPSLLD   $1, Z12, Z12

// K_LOW decodes a group from the low nibbles of Z2 and Z3.
#define K_LOW(FIFTH, offset) \
	K_GROUP                           \
	VPERMPS     Z31, Z2, Z8           \
	VPERMPS     Z31, Z3, Z9           \
	FIFTH                             \
	VFMSUB213PS Z5, Z4, Z8            \
	VFMSUB213PS Z5, Z4, Z9            \
	VMOVUPS     Z8, offset(DI)        \
	VMOVUPS     Z9, (offset+64)(DI)

// K_PAIR decodes two groups, which share 32 bytes: low nibbles, then high ones.
#define K_PAIR(FIFTH) \
	VPMOVZXBD (SI), Z2    \
	VPMOVZXBD 16(SI), Z3  \
	K_LOW(FIFTH, 0)       \
	VPSRLD    $4, Z2, Z2  \
	VPSRLD    $4, Z3, Z3  \
	K_LOW(FIFTH, 128)     \
	ADDQ      $32, SI     \
	ADDQ      $256, DI

// func dequantQ4KAVX512(dst *float32, src *byte, blocks int)
TEXT ·dequantQ4KAVX512(SB), NOSPLIT, $0-24
	K_ENTER

loop:
	K_SCALES
	ADDQ      $16, SI
	VPXORD    Z6, Z6, Z6
	VMOVDQA32 Z28, Z7
	MOVL      $4, DX

pair:
	K_PAIR(NO_FIFTH)
	DECL DX
	JNZ  pair
	DECQ BX
	JNZ  loop
	VZEROUPPER
	RET

// func dequantQ5KAVX512(dst *float32, src *byte, blocks int)
TEXT ·dequantQ5KAVX512(SB), NOSPLIT, $0-24
	K_ENTER
	MOVL         $0x41800000, AX // 16.0
	VPBROADCASTD AX, Z13

loop:
	K_SCALES
	VPMOVZXBD 16(SI), Z10
	VPMOVZXBD 32(SI), Z11
	ADDQ      $48, SI
	VPXORD    Z6, Z6, Z6
	VMOVDQA32 Z28, Z7
	VMOVDQA32 Z29, Z12
	MOVL      $4, DX

pair:
	K_PAIR(WITH_FIFTH)
	DECL DX
	JNZ  pair
	DECQ BX
	JNZ  loop
	VZEROUPPER
	RET

// Q6_RUN decodes sixteen elements: low has their nibbles at bit lowShift, Z3
// their upper pairs at bit highShift, and the lane of Z0 that Z6 names their scale.
#define Q6_RUN(low, lowShift, highShift, offset) \
	VPSRLD     $lowShift, low, Z4   \
	VPANDD     Z28, Z4, Z4          \
	VPSRLD     $highShift, Z3, Z5   \
	VPANDD     Z27, Z5, Z5          \
	VPSLLD     $4, Z5, Z5           \
	VPORD      Z5, Z4, Z4           \
	VPSUBD     Z26, Z4, Z4          \
	VCVTDQ2PS  Z4, Z4               \
	VPERMPS    Z0, Z6, Z5           \
	VMULPS     Z5, Z4, Z4           \
	VMOVUPS    Z4, offset(DI)       \
	VPADDD     Z29, Z6, Z6

// Q6_PART decodes four runs of sixteen whose bytes lie 16*part further on.
#define Q6_PART(part) \
	VPBROADCASTD AX, Z6               \
	VPMOVZXBD    (16*part)(SI), Z1    \
	VPMOVZXBD    (16*part+32)(SI), Z2 \
	VPMOVZXBD    (16*part)(R8), Z3    \
	Q6_RUN(Z1, 0, 0, (64*part))         \
	Q6_RUN(Z2, 0, 2, (64*part+128))     \
	Q6_RUN(Z1, 4, 4, (64*part+256))     \
	Q6_RUN(Z2, 4, 6, (64*part+384))

// func dequantQ6KAVX512(dst *float32, src *byte, blocks int)
TEXT ·dequantQ6KAVX512(SB), NOSPLIT, $0-24
	MOVQ         dst+0(FP), DI
	MOVQ         src+8(FP), SI
	MOVQ         blocks+16(FP), BX
	MOVL         $2, AX
	VPBROADCASTD AX, Z29
	MOVL         $15, AX
	VPBROADCASTD AX, Z28
	MOVL         $3, AX
	VPBROADCASTD AX, Z27
	MOVL         $32, AX
	VPBROADCASTD AX, Z26

loop:
	F16_SCALE(208(SI), X1, Z1)
	VPMOVSXBD 192(SI), Z0
	VCVTDQ2PS Z0, Z0
	VMULPS    Z1, Z0, Z0
	LEAQ      128(SI), R8
	XORL      AX, AX

	// Runs of a half use scales 0, 2, 4, 6 of its eight, the second sixteen
	// elements of each run the odd ones.
half:
	Q6_PART(0)
	INCL AX
	Q6_PART(1)
	ADDL $7, AX
	ADDQ $64, SI
	ADDQ $32, R8
	ADDQ $512, DI
	CMPL AX, $16
	JLT  half
	ADDQ $82, SI
	DECQ BX
	JNZ  loop
	VZEROUPPER
	RET
