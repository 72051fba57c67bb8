//go:build !noasm

// Hand-written: each loop measures a different instruction.

#include "textflag.h"

// SDOT and SMMLA add products of the bytes of V30 and V31 to d.
#define SDOT(d) WORD $(0x4E9E97E0 | (d))
#define SMMLA(d) WORD $(0x4E9EA7E0 | (d))

// ALL applies OP to 16 independent accumulators, enough to hide its latency.
#define ALL(OP) \
	OP(0)  \
	OP(1)  \
	OP(2)  \
	OP(3)  \
	OP(4)  \
	OP(5)  \
	OP(6)  \
	OP(7)  \
	OP(16) \
	OP(17) \
	OP(18) \
	OP(19) \
	OP(20) \
	OP(21) \
	OP(22) \
	OP(23)

#define PEAK_ARGS \
	MOVD  rounds+0(FP), R0  \
	MOVWU factors+8(FP), R1 \
	VDUP  R1, V30.S4        \
	VDUP  R1, V31.S4

// func peakSDOT(rounds int, factors uint32)
// It executes rounds·16 SDOT. rounds is positive.
TEXT ·peakSDOT(SB), NOSPLIT, $0-12
	PEAK_ARGS

loop:
	ALL(SDOT)
	SUBS $1, R0
	BNE  loop
	RET

// func peakSMMLA(rounds int, factors uint32)
// It executes rounds·16 SMMLA. rounds is positive.
TEXT ·peakSMMLA(SB), NOSPLIT, $0-12
	PEAK_ARGS

loop:
	ALL(SMMLA)
	SUBS $1, R0
	BNE  loop
	RET

// func readNEON(memory *byte, n int)
// It loads n bytes from memory in four streams, one for each quarter of the range. n is
// a positive multiple of 1024.
TEXT ·readNEON(SB), NOSPLIT, $0-16
	MOVD memory+0(FP), R0
	MOVD n+8(FP), R4
	LSR  $2, R4
	ADD  R4, R0, R1
	ADD  R4, R1, R2
	ADD  R4, R2, R3

loop:
	VLD1.P 64(R0), [V0.B16, V1.B16, V2.B16, V3.B16]
	VLD1.P 64(R1), [V4.B16, V5.B16, V6.B16, V7.B16]
	VLD1.P 64(R2), [V16.B16, V17.B16, V18.B16, V19.B16]
	VLD1.P 64(R3), [V20.B16, V21.B16, V22.B16, V23.B16]
	SUBS   $64, R4
	BNE    loop
	RET
