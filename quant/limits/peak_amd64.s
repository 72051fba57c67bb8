//go:build !noasm

// Throughput of int8 multiply-adds. Each loop updates 12 or 16 independent
// accumulators, enough to hide the instruction's latency.
//
// Hand-written: each loop measures a different instruction.
//
//	CX iterations left   Z30, Z31 (512-bit) or Y14, Y15 (256-bit) factors
//	Z0-Z15 or Y0-Y11 accumulators

#include "textflag.h"

// func peakVNNI512(rounds int, factors uint32)
// It executes rounds·16 VPDPBUSD of 512 bits. rounds is positive.
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

// PRODUCT_SUM adds pairs of byte products to the 16-bit lanes of sum.
#define PRODUCT_SUM(product, sum) \
	VPMADDUBSW Y14, Y15, product \
	VPADDW     product, sum, sum

// func peakAVX2(rounds int, factors uint32)
// It executes rounds·12 pairs of VPMADDUBSW and VPADDW. rounds is positive.
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

// DOT encodes VPDPBUSD Y14, Y15, Y<sum> of AVX-VNNI, which the Go assembler
// lacks, for sum 0 to 7. DOT_FROM8 is the same for sum 8 to 15.
#define DOT(sum) \
	BYTE $0xC4; BYTE $0xC2; BYTE $0x05; BYTE $0x50; BYTE $(0xC6+8*sum)

#define DOT_FROM8(sum) \
	BYTE $0xC4; BYTE $0x42; BYTE $0x05; BYTE $0x50; BYTE $(0xC6+8*(sum-8))

// func peakVNNI256(rounds int, factors uint32)
// It executes rounds·12 VPDPBUSD of 256 bits. rounds is positive.
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
