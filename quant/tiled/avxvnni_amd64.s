//go:build !noasm

#include "go_asm.h"
#include "textflag.h"
#include "avx2_panel_amd64.h"

// Panel kernels with AVX-VNNI: VPDPBUSD for 256 bits without AVX-512, which the
// assembler does not know. DOT is VPDPBUSD Y12, Y<codes>, <sum>, with the byte
// that stands for the sum and Y12.
#define SUM10 0xD4
#define SUM11 0xDC

#define DOT(codes, sum) \
	BYTE $0xC4              \
	BYTE $0x42              \
	BYTE $((15-codes)*8+5)  \
	BYTE $0x50              \
	BYTE $sum

#define BYTES(plane, sum) \
	VPBROADCASTD 4*(plane)(R8), Y12 \
	DOT(plane, sum)

// The planes of the two halves of a group, which wait for each other only at
// the end.
#define PLANES \
	BYTES(0, SUM10) \
	BYTES(4, SUM11) \
	BYTES(1, SUM10) \
	BYTES(5, SUM11) \
	BYTES(2, SUM10) \
	BYTES(6, SUM11) \
	BYTES(3, SUM10) \
	BYTES(7, SUM11)

#define PRODUCTS(start) \
	VPBROADCASTD start, Y10    \
	VPXOR        Y11, Y11, Y11 \
	PLANES                     \
	VPADDD       Y11, Y10, Y10

// func mulPlainVNNI(a *kernelArgs)
TEXT ·mulPlainVNNI(SB), NOSPLIT, $0-8
	LOAD_ARGS

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

// func mulMinsVNNI(a *kernelArgs)
TEXT ·mulMinsVNNI(SB), NOSPLIT, $0-8
	LOAD_ARGS

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

// func mulHalvesVNNI(a *kernelArgs)
TEXT ·mulHalvesVNNI(SB), NOSPLIT, $0-8
	LOAD_ARGS
	MOVQ kernelArgs_factors(AX), R13

half:
	FACTORS
	FIRST_TOKEN

token:
	VPBROADCASTD (R11), Y10
	VPBROADCASTD (R11)(DX*1), Y11
	PLANES
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
