//go:build !noasm

#include "textflag.h"
#include "neon_arm64.h"

// Elementwise kernels. Every operation rounds on its own. n is a positive
// multiple of 16.

// EACH4 does the same with the four registers of a step.
#define EACH4(OP) \
	OP(0, 4) \
	OP(1, 5) \
	OP(2, 6) \
	OP(3, 7)

#define ADD4(d, a) FADD4(a, d, d)
#define MUL4(d, a) FMUL4(a, d, d)
#define SCALE4(d, a) FMUL4(16, d, d)
#define OFFSET4(d, a) FADD4(17, a, a)

// func addNEON(dst, a *float32, n int)
TEXT ·addNEON(SB), NOSPLIT, $0-24
	MOVD dst+0(FP), R0
	MOVD a+8(FP), R1
	MOVD n+16(FP), R2

loop:
	VLD1   (R0), [V0.S4, V1.S4, V2.S4, V3.S4]
	VLD1.P 64(R1), [V4.S4, V5.S4, V6.S4, V7.S4]
	EACH4(ADD4)
	VST1.P [V0.S4, V1.S4, V2.S4, V3.S4], 64(R0)
	SUBS   $16, R2
	BNE    loop
	RET

// func mulByNEON(dst, a *float32, n int)
TEXT ·mulByNEON(SB), NOSPLIT, $0-24
	MOVD dst+0(FP), R0
	MOVD a+8(FP), R1
	MOVD n+16(FP), R2

loop:
	VLD1   (R0), [V0.S4, V1.S4, V2.S4, V3.S4]
	VLD1.P 64(R1), [V4.S4, V5.S4, V6.S4, V7.S4]
	EACH4(MUL4)
	VST1.P [V0.S4, V1.S4, V2.S4, V3.S4], 64(R0)
	SUBS   $16, R2
	BNE    loop
	RET

// func scaleNEON(dst *float32, n int, s float32)
TEXT ·scaleNEON(SB), NOSPLIT, $0-20
	MOVD  dst+0(FP), R0
	MOVD  n+8(FP), R2
	MOVWU s+16(FP), R3
	VDUP  R3, V16.S4

loop:
	VLD1   (R0), [V0.S4, V1.S4, V2.S4, V3.S4]
	EACH4(SCALE4)
	VST1.P [V0.S4, V1.S4, V2.S4, V3.S4], 64(R0)
	SUBS   $16, R2
	BNE    loop
	RET

// func normNEON(dst, x, weight *float32, n int, scale, offset float32)
TEXT ·normNEON(SB), NOSPLIT, $0-40
	MOVD  dst+0(FP), R0
	MOVD  x+8(FP), R4
	MOVD  weight+16(FP), R1
	MOVD  n+24(FP), R2
	MOVWU scale+32(FP), R3
	VDUP  R3, V16.S4
	MOVWU offset+36(FP), R3
	VDUP  R3, V17.S4

loop:
	VLD1.P 64(R4), [V0.S4, V1.S4, V2.S4, V3.S4]
	VLD1.P 64(R1), [V4.S4, V5.S4, V6.S4, V7.S4]
	EACH4(SCALE4)
	EACH4(OFFSET4)
	EACH4(MUL4)
	VST1.P [V0.S4, V1.S4, V2.S4, V3.S4], 64(R0)
	SUBS   $16, R2
	BNE    loop
	RET
