//go:build !noasm

// Hand-written: no other file interleaves four exponentials.

#include "textflag.h"
#include "neon_arm64.h"

// Softmax kernels: the maximum of scores, and e^(score-shift) of a block, where no
// score exceeds shift. Four registers pass through the steps of arith.exp together,
// because in-order cores would otherwise stall on every result.

// func maxNEON(p *float32, n int) float32
// n is a positive multiple of 16.
TEXT ·maxNEON(SB), NOSPLIT, $0-20
	MOVD p+0(FP), R0
	MOVD n+8(FP), R1
	MOVD $0xff800000, R2
	VDUP R2, V0.S4
	VMOV V0.B16, V1.B16
	VMOV V0.B16, V2.B16
	VMOV V0.B16, V3.B16

loop:
	VLD1.P 64(R0), [V4.S4, V5.S4, V6.S4, V7.S4]
	FMAXNM4(4, 0, 0)
	FMAXNM4(5, 1, 1)
	FMAXNM4(6, 2, 2)
	FMAXNM4(7, 3, 3)
	SUBS   $16, R1
	BNE    loop
	FMAXNM4(1, 0, 0)
	FMAXNM4(3, 2, 2)
	FMAXNM4(2, 0, 0)
	FMAXNMV4(0, 0)
	FMOVS  F0, ret+16(FP)
	RET

#define FMLA4(m, n, d) WORD $(0x4E20CC00 | (m)<<16 | (n)<<5 | (d))
#define ADD4(m, n, d) WORD $(0x4EA08400 | (m)<<16 | (n)<<5 | (d))
#define SHL4_23(n, d) WORD $(0x4F375400 | (n)<<5 | (d))
#define MOV16(n, d) WORD $(0x4EA01C00 | (n)<<16 | (n)<<5 | (d))

// BIF16 takes the bits of n where m has none, BIC16 clears those of n where it has.
#define BIF16(m, n, d) WORD $(0x6EE01C00 | (m)<<16 | (n)<<5 | (d))
#define BIC16(m, n, d) WORD $(0x4E601C00 | (m)<<16 | (n)<<5 | (d))

// ALL4 does a step for each x, with the rounded k, the remainder r and p.
#define ALL4(STEP) \
	STEP(0, 4, 8, 12)  \
	STEP(1, 5, 9, 13)  \
	STEP(2, 6, 10, 14) \
	STEP(3, 7, 11, 15)

#define SHIFT(x, k, r, p) FSUB4(27, x, x)

#define ROUND(x, k, r, p) \
	MOV16(18, k)    \
	FMLA4(17, x, k)

#define WHOLE(x, k, r, p) \
	FSUB4(18, k, p) \
	MOV16(x, r)

#define REMAINDER1(x, k, r, p) FMLA4(19, p, r)
#define REMAINDER2(x, k, r, p) FMLA4(20, p, r)

// The polynomial moves between p and x.
#define POLY5(x, k, r, p) \
	MOV16(22, p)    \
	FMLA4(21, r, p)

#define POLY4(x, k, r, p) \
	MOV16(23, x)    \
	FMLA4(p, r, x)

#define POLY3(x, k, r, p) \
	MOV16(24, p)    \
	FMLA4(x, r, p)

#define POLY2(x, k, r, p) \
	MOV16(25, x)    \
	FMLA4(p, r, x)

#define POLY1(x, k, r, p) \
	MOV16(26, p)    \
	FMLA4(x, r, p)  \
	SHL4_23(k, k)

#define POLY0(x, k, r, p) \
	MOV16(26, x)    \
	FMLA4(p, r, x)

#define POWER(x, k, r, p) ADD4(k, x, x)

// LIMIT leaves NaNs, of which r has the arguments again, and makes what is below
// the least argument zero.
#define LIMIT(x, k, r, p) \
	FCMEQ4(r, r, k)  \
	FCMGT4(r, 16, p) \
	BIF16(k, r, x)   \
	BIC16(p, x, x)

// func expSumBlockNEON(p *float32, shift float32) float32
// Replaces 64 elements by e^(p-shift) and returns their sum. V16 is the least
// argument, V17 1/ln 2, V18 the rounding constant, V19 and V20 the parts of -ln 2,
// V21-V25 coefficients, V26 one, V28-V31 the sixteen lanes of the sum.
TEXT ·expSumBlockNEON(SB), NOSPLIT, $0-20
	MOVD    p+0(FP), R0
	MOVWU   shift+8(FP), R1
	VDUP    R1, V27.S4
	MOVD    $·expTable(SB), R9
	VLD1R   (R9), [V16.S4]
	ADD     $8, R9             // past the greatest argument
	VLD1R.P 4(R9), [V17.S4]
	VLD1R.P 4(R9), [V18.S4]
	VLD1R.P 4(R9), [V19.S4]
	VLD1R.P 4(R9), [V20.S4]
	VLD1R.P 4(R9), [V21.S4]
	VLD1R.P 4(R9), [V22.S4]
	VLD1R.P 4(R9), [V23.S4]
	VLD1R.P 4(R9), [V24.S4]
	VLD1R.P 4(R9), [V25.S4]
	VLD1R   (R9), [V26.S4]
	ZERO4(V28, V29, V30, V31)
	MOVD    $4, R2

loop:
	VLD1 (R0), [V0.S4, V1.S4, V2.S4, V3.S4]
	ALL4(SHIFT)
	VST1 [V0.S4, V1.S4, V2.S4, V3.S4], (R0)
	ALL4(ROUND)
	ALL4(WHOLE)
	ALL4(REMAINDER1)
	ALL4(REMAINDER2)
	ALL4(POLY5)
	ALL4(POLY4)
	ALL4(POLY3)
	ALL4(POLY2)
	ALL4(POLY1)
	ALL4(POLY0)
	ALL4(POWER)
	VLD1 (R0), [V8.S4, V9.S4, V10.S4, V11.S4]
	ALL4(LIMIT)
	FADD4(0, 28, 28)
	FADD4(1, 29, 29)
	FADD4(2, 30, 30)
	FADD4(3, 31, 31)
	VST1.P [V0.S4, V1.S4, V2.S4, V3.S4], 64(R0)
	SUBS   $1, R2
	BNE    loop

	FADD4(30, 28, 28)
	FADD4(31, 29, 29)
	FADD4(29, 28, 28)
	VZIP2 V28.D2, V28.D2, V0.D2
	FADD4(0, 28, 28)
	VDUP  V28.S[1], V1.S4
	FADD4(1, 28, 0)
	FMOVS F0, ret+16(FP)
	RET
