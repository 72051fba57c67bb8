//go:build !noasm

// Hand-written: unlike the amd64 kernels, it can interleave the codes of two tokens. It
// stores runs of eight codes that are a.apart bytes apart.

#include "go_asm.h"
#include "textflag.h"
#include "neon_arm64.h"

#define ABS(from, to) VAND V20.B16, from.B16, to.B16

// START stores the start for zero point 1<<log, startBits - Σ codes·2^log, and advances
// to.
#define START(log, to) \
	LSL    $log, R14, R15 \
	SUBW   R15, R16, R15  \
	MOVW   R15, (to)      \
	ADD    R9, to

// func quantizeNEON(a *quantizeArgs)
// It quantizes the groups of one token: q = round(x·(127/max|x|)), ties to even, with
// scale max|x|/127, and writes the sums of codes that quantizeArgs lists. groups is
// positive.
//
//	R0 x   R1 codes   R2 scale   R3 shift   R4, R5, R6 start8, 16, 128
//	R7 halfStart   R8 groups left   R12, R13 Σ codes of the halves   R14 of the group
//	R9, R10, R11 bytes from a group to the next in floats, codes and halfStart
//	R16 startBits   R19 a.apart   V20 mask of all bits except the sign
TEXT ·quantizeNEON(SB), NOSPLIT, $0-8
	MOVD  a+0(FP), R15
	MOVD  quantizeArgs_x(R15), R0
	MOVD  quantizeArgs_codes(R15), R1
	MOVD  quantizeArgs_apart(R15), R19
	MOVD  quantizeArgs_scale(R15), R2
	MOVD  quantizeArgs_shift(R15), R3
	MOVD  quantizeArgs_start8(R15), R4
	MOVD  quantizeArgs_start16(R15), R5
	MOVD  quantizeArgs_start128(R15), R6
	MOVD  quantizeArgs_halfStart(R15), R7
	MOVD  quantizeArgs_groups(R15), R8
	MOVD  quantizeArgs_width(R15), R9
	LSL   $5, R9, R10
	LSL   $3, R9, R11
	LSL   $2, R9
	MOVD  $const_startBits, R16
	MOVD  $0x7FFFFFFF, R12
	VDUP  R12, V20.S4
	FMOVS $127.0, F21

loop:
	VLD1.P 64(R0), [V0.S4, V1.S4, V2.S4, V3.S4]
	VLD1.P 64(R0), [V4.S4, V5.S4, V6.S4, V7.S4]

	// Find the largest magnitude. The integer order of the bits is the order of
	// magnitudes, with NaNs largest.
	ABS(V0, V24)
	ABS(V1, V25)
	ABS(V2, V26)
	ABS(V3, V27)
	ABS(V4, V28)
	ABS(V5, V29)
	ABS(V6, V30)
	ABS(V7, V31)
	VUMAX V25.S4, V24.S4, V24.S4
	VUMAX V27.S4, V26.S4, V26.S4
	VUMAX V29.S4, V28.S4, V28.S4
	VUMAX V31.S4, V30.S4, V30.S4
	VUMAX V26.S4, V24.S4, V24.S4
	VUMAX V30.S4, V28.S4, V28.S4
	VUMAX V28.S4, V24.S4, V24.S4
	UMAXV4(24, 24)
	VMOV  V24.S[0], R14
	MOVD  $const_minMagnitudeBits, R15
	CMP   R15, R14
	BLT   zeros
	FDIVS F21, F24, F22            // scale = max/127
	MOVD  $const_infBits, R15
	CMP   R15, R14
	BGE   codeless

	FDIVS  F24, F21, F23
	VDUP   V23.S[0], V23.S4
	FMUL4(23, 0, 0)
	FMUL4(23, 1, 1)
	FMUL4(23, 2, 2)
	FMUL4(23, 3, 3)
	FMUL4(23, 4, 4)
	FMUL4(23, 5, 5)
	FMUL4(23, 6, 6)
	FMUL4(23, 7, 7)
	FCVTNS4(0, 0)
	FCVTNS4(1, 1)
	FCVTNS4(2, 2)
	FCVTNS4(3, 3)
	FCVTNS4(4, 4)
	FCVTNS4(5, 5)
	FCVTNS4(6, 6)
	FCVTNS4(7, 7)
	VUZP1  V1.H8, V0.H8, V0.H8
	VUZP1  V3.H8, V2.H8, V2.H8
	VUZP1  V5.H8, V4.H8, V4.H8
	VUZP1  V7.H8, V6.H8, V6.H8
	VUZP1  V2.B16, V0.B16, V0.B16
	VUZP1  V6.B16, V4.B16, V1.B16

store:
	VST1 V0.D[0], (R1)
	ADD  R19, R1, R20
	VST1 V0.D[1], (R20)
	ADD  R19, R20
	VST1 V1.D[0], (R20)
	ADD  R19, R20
	VST1 V1.D[1], (R20)
	ADD  R10, R1
	SADDLV16(0, 2)
	SADDLV16(1, 3)
	VMOV V2.H[0], R12
	VMOV V3.H[0], R13
	MOVH R12, R12
	MOVH R13, R13
	ADD  R13, R12, R14

	FMOVS   F22, (R2)
	ADD     R9, R2
	NEG     R14, R15
	SCVTFWS R15, F23
	FMULS   F22, F23, F23
	FMOVS   F23, (R3)
	ADD     R9, R3
	START(3, R4)
	START(4, R5)
	START(7, R6)

	// halfStart: startBits - 32·Σ codes of each half; 32 is halfZero.
	LSL  $5, R12
	SUBW R12, R16, R12
	MOVW R12, (R7)
	LSL  $5, R13
	SUBW R13, R16, R13
	MOVW R13, (R7)(R9)
	ADD  R11, R7
	SUB  $1, R8
	CBNZ R8, loop
	RET

zeros:
	FMOVS ZR, F22

codeless:
	VEOR V0.B16, V0.B16, V0.B16
	VEOR V1.B16, V1.B16, V1.B16
	B    store
