//go:build !noasm

#include "textflag.h"

// Four places of the memory are read in turn, a quarter of it apart: this was
// faster than one place, and both were faster without prefetching than with it.

#define QUARTERS(n) \
	SHRQ $2, n             \
	MOVQ SI, R8            \
	LEAQ (SI)(n*1), R9     \
	LEAQ (SI)(n*2), R10    \
	LEAQ (R9)(n*2), R11

// func readAVX512(memory *byte, n int)
// n is a multiple of 1024, not 0.
TEXT ·readAVX512(SB), NOSPLIT, $0-16
	MOVQ memory+0(FP), SI
	MOVQ n+8(FP), CX
	QUARTERS(CX)

loop:
	VMOVDQU32 (R8), Z0
	VMOVDQU32 (R9), Z1
	VMOVDQU32 (R10), Z2
	VMOVDQU32 (R11), Z3
	VMOVDQU32 64(R8), Z4
	VMOVDQU32 64(R9), Z5
	VMOVDQU32 64(R10), Z6
	VMOVDQU32 64(R11), Z7
	VMOVDQU32 128(R8), Z8
	VMOVDQU32 128(R9), Z9
	VMOVDQU32 128(R10), Z10
	VMOVDQU32 128(R11), Z11
	VMOVDQU32 192(R8), Z12
	VMOVDQU32 192(R9), Z13
	VMOVDQU32 192(R10), Z14
	VMOVDQU32 192(R11), Z15
	ADDQ      $256, R8
	ADDQ      $256, R9
	ADDQ      $256, R10
	ADDQ      $256, R11
	SUBQ      $256, CX
	JNZ       loop
	VZEROUPPER
	RET

// func readAVX2(memory *byte, n int)
// n is a multiple of 1024, not 0.
TEXT ·readAVX2(SB), NOSPLIT, $0-16
	MOVQ memory+0(FP), SI
	MOVQ n+8(FP), CX
	QUARTERS(CX)

loop:
	VMOVDQU (R8), Y0
	VMOVDQU (R9), Y1
	VMOVDQU (R10), Y2
	VMOVDQU (R11), Y3
	VMOVDQU 32(R8), Y4
	VMOVDQU 32(R9), Y5
	VMOVDQU 32(R10), Y6
	VMOVDQU 32(R11), Y7
	VMOVDQU 64(R8), Y8
	VMOVDQU 64(R9), Y9
	VMOVDQU 64(R10), Y10
	VMOVDQU 64(R11), Y11
	VMOVDQU 96(R8), Y12
	VMOVDQU 96(R9), Y13
	VMOVDQU 96(R10), Y14
	VMOVDQU 96(R11), Y15
	ADDQ    $128, R8
	ADDQ    $128, R9
	ADDQ    $128, R10
	ADDQ    $128, R11
	SUBQ    $128, CX
	JNZ     loop
	VZEROUPPER
	RET

// func peakVNNI512(rounds int, factors uint32)
TEXT ·peakVNNI512(SB), NOSPLIT, $0-12
	MOVQ         rounds+0(FP), CX
	MOVL         factors+8(FP), AX
	VPBROADCASTD AX, Z30
	VMOVDQA32    Z30, Z31

loop:
	VPDPBUSD Z30, Z31, Z0
	VPDPBUSD Z30, Z31, Z1
	VPDPBUSD Z30, Z31, Z2
	VPDPBUSD Z30, Z31, Z3
	VPDPBUSD Z30, Z31, Z4
	VPDPBUSD Z30, Z31, Z5
	VPDPBUSD Z30, Z31, Z6
	VPDPBUSD Z30, Z31, Z7
	VPDPBUSD Z30, Z31, Z8
	VPDPBUSD Z30, Z31, Z9
	VPDPBUSD Z30, Z31, Z10
	VPDPBUSD Z30, Z31, Z11
	VPDPBUSD Z30, Z31, Z12
	VPDPBUSD Z30, Z31, Z13
	VPDPBUSD Z30, Z31, Z14
	VPDPBUSD Z30, Z31, Z15
	DECQ     CX
	JNZ      loop
	VZEROUPPER
	RET

#define PRODUCT_SUM(product, sum) \
	VPMADDUBSW Y14, Y15, product \
	VPADDW     product, sum, sum

// func peakAVX2(rounds int, factors uint32)
TEXT ·peakAVX2(SB), NOSPLIT, $0-12
	MOVQ         rounds+0(FP), CX
	MOVL         factors+8(FP), AX
	VMOVD        AX, X14
	VPBROADCASTD X14, Y14
	VMOVDQA      Y14, Y15

loop:
	PRODUCT_SUM(Y12, Y0)
	PRODUCT_SUM(Y13, Y1)
	PRODUCT_SUM(Y12, Y2)
	PRODUCT_SUM(Y13, Y3)
	PRODUCT_SUM(Y12, Y4)
	PRODUCT_SUM(Y13, Y5)
	PRODUCT_SUM(Y12, Y6)
	PRODUCT_SUM(Y13, Y7)
	PRODUCT_SUM(Y12, Y8)
	PRODUCT_SUM(Y13, Y9)
	PRODUCT_SUM(Y12, Y10)
	PRODUCT_SUM(Y13, Y11)
	DECQ CX
	JNZ  loop
	VZEROUPPER
	RET

// DOT is VPDPBUSD Y14, Y15, Y<sum> of AVX-VNNI, which the assembler does not
// know, for sums below 8 and from 8 on.
#define DOT(sum) \
	BYTE $0xC4; BYTE $0xC2; BYTE $0x05; BYTE $0x50; BYTE $(0xC6+8*sum)

#define DOT_FROM8(sum) \
	BYTE $0xC4; BYTE $0x42; BYTE $0x05; BYTE $0x50; BYTE $(0xC6+8*(sum-8))

// func peakVNNI256(rounds int, factors uint32)
TEXT ·peakVNNI256(SB), NOSPLIT, $0-12
	MOVQ         rounds+0(FP), CX
	MOVL         factors+8(FP), AX
	VMOVD        AX, X14
	VPBROADCASTD X14, Y14
	VMOVDQA      Y14, Y15

loop:
	DOT(0)
	DOT(1)
	DOT(2)
	DOT(3)
	DOT(4)
	DOT(5)
	DOT(6)
	DOT(7)
	DOT_FROM8(8)
	DOT_FROM8(9)
	DOT_FROM8(10)
	DOT_FROM8(11)
	DECQ CX
	JNZ  loop
	VZEROUPPER
	RET
