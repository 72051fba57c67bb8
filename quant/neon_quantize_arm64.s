//go:build !noasm

// Hand-written: arm64 has one vector width, and every kernel stores its codes differently.

#include "textflag.h"
#include "neon_arm64.h"

// Quantization of keys and values: code[i] = round(x[i]·inverse), halves to even, for
// n elements, a multiple of 16.

// More instructions that the assembler does not know. FCVTN4 rounds four numbers
// to binary16, CMGT4 sets the lanes of d where n > m as integers, XTN4 and XTN8
// keep the lower halves of lanes; the ones with a 2 fill the upper half of d.
#define FCVTN4(n, d) WORD $(0x0E216800 | (n)<<5 | (d))
#define FCVTN24(n, d) WORD $(0x4E216800 | (n)<<5 | (d))
#define CMGT4(m, n, d) WORD $(0x4EA03400 | (m)<<16 | (n)<<5 | (d))
#define XTN4(n, d) WORD $(0x0E612800 | (n)<<5 | (d))
#define XTN24(n, d) WORD $(0x4E612800 | (n)<<5 | (d))
#define XTN8(n, d) WORD $(0x0E212800 | (n)<<5 | (d))
#define XTN28(n, d) WORD $(0x4E212800 | (n)<<5 | (d))

// func largestBits16(x *float32, n int) uint32
TEXT ·largestBits16(SB), NOSPLIT, $0-20
	MOVD x+0(FP), R0
	MOVD n+8(FP), R1
	VEOR V0.B16, V0.B16, V0.B16

loop:
	VLD1.P 64(R0), [V1.S4, V2.S4, V3.S4, V4.S4]
	FABS4(1, 1)
	FABS4(2, 2)
	FABS4(3, 3)
	FABS4(4, 4)
	UMAX4(1, 2, 1)
	UMAX4(3, 4, 3)
	UMAX4(1, 3, 1)
	UMAX4(1, 0, 0)
	SUBS   $16, R1
	BNE    loop
	UMAXV4(0, 0)
	FMOVS  F0, R2
	MOVW   R2, ret+16(FP)
	RET

// CODES16 rounds 16 elements at R0 times V7 to signed bytes in V0.
#define CODES16 \
	VLD1.P 64(R0), [V0.S4, V1.S4, V2.S4, V3.S4] \
	FMUL4(7, 0, 0)  \
	FMUL4(7, 1, 1)  \
	FMUL4(7, 2, 2)  \
	FMUL4(7, 3, 3)  \
	FCVTNS4(0, 0)   \
	FCVTNS4(1, 1)   \
	FCVTNS4(2, 2)   \
	FCVTNS4(3, 3)   \
	SQXTN4(0, 0)    \
	SQXTN24(1, 0)   \
	SQXTN4(2, 2)    \
	SQXTN24(3, 2)   \
	SQXTN8(0, 0)    \
	SQXTN28(2, 0)

// func quantizeKey8x16(dst *uint8, step int, x *float32, n int, inverse float32)
TEXT ·quantizeKey8x16(SB), NOSPLIT, $0-36
	MOVD  dst+0(FP), R2
	MOVD  step+8(FP), R3
	MOVD  x+16(FP), R0
	MOVD  n+24(FP), R1
	MOVWU inverse+32(FP), R4
	VDUP  R4, V7.S4
	VMOVI $0x80, V6.B16

loop:
	CODES16
	VEOR V6.B16, V0.B16, V0.B16
	VST1 V0.S[0], (R2)
	ADD  R3, R2
	VST1 V0.S[1], (R2)
	ADD  R3, R2
	VST1 V0.S[2], (R2)
	ADD  R3, R2
	VST1 V0.S[3], (R2)
	ADD  R3, R2
	SUBS $16, R1
	BNE  loop
	RET

// SPREAD stores two codes, each two bytes on.
#define SPREAD(i, j) \
	VST1 V0.B[i], (R2) \
	ADD  $2, R2        \
	VST1 V0.B[j], (R2) \
	ADD  $2, R2

// func quantizePairs8x16(dst *int8, x *float32, n int, inverse float32)
TEXT ·quantizePairs8x16(SB), NOSPLIT, $0-28
	MOVD  dst+0(FP), R2
	MOVD  x+8(FP), R0
	MOVD  n+16(FP), R1
	MOVWU inverse+24(FP), R4
	VDUP  R4, V7.S4

loop:
	CODES16
	SPREAD(0, 1)
	SPREAD(2, 3)
	SPREAD(4, 5)
	SPREAD(6, 7)
	SPREAD(8, 9)
	SPREAD(10, 11)
	SPREAD(12, 13)
	SPREAD(14, 15)
	SUBS $16, R1
	BNE  loop
	RET

// func roundF16x16(dst *byte, x *float32, n int)
TEXT ·roundF16x16(SB), NOSPLIT, $0-24
	MOVD dst+0(FP), R2
	MOVD x+8(FP), R0
	MOVD n+16(FP), R1

loop:
	VLD1.P 64(R0), [V0.S4, V1.S4, V2.S4, V3.S4]
	FCVTN4(0, 0)
	FCVTN24(1, 0)
	FCVTN4(2, 2)
	FCVTN24(3, 2)
	VMOV   V2.B16, V1.B16
	VST1.P [V0.H8, V1.H8], 32(R2)
	SUBS   $16, R1
	BNE    loop
	RET

// FLOATS4 rounds the 4 elements in X times V7 to codes of 8-bit floats, one in
// each lane of X. V16-V22 are the constants of f8Constants.
#define FLOATS4(x, X) \
	FMUL4(7, x, x)                     \
	VAND   V16.B16, X.B16, V4.B16      \ // the magnitude
	VUSHR  $24, X.S4, X.S4             \
	VAND   V17.B16, X.B16, X.B16       \ // the sign
	FADD4(18, 4, 5)                    \ // evenly spaced: rounded by the addition
	VSUB   V18.S4, V5.S4, V5.S4        \
	VUSHR  $20, V4.S4, V6.S4           \
	VAND   V19.B16, V6.B16, V6.B16     \
	VADD   V4.S4, V6.S4, V6.S4         \
	VADD   V20.S4, V6.S4, V6.S4        \ // half of the last bit, less if even
	VUSHR  $20, V6.S4, V6.S4           \
	VSUB   V21.S4, V6.S4, V6.S4        \
	CMGT4(4, 22, 23)                   \
	VBIT   V23.B16, V5.B16, V6.B16     \
	VORR   V6.B16, X.B16, X.B16

// func quantizeF8x16(dst *uint8, x *float32, n int, inverse float32)
TEXT ·quantizeF8x16(SB), NOSPLIT, $0-28
	MOVD  dst+0(FP), R2
	MOVD  x+8(FP), R0
	MOVD  n+16(FP), R1
	MOVWU inverse+24(FP), R4
	VDUP  R4, V7.S4
	MOVD  $·f8Constants(SB), R5
	VLD1R.P 4(R5), [V16.S4]
	VLD1R.P 4(R5), [V17.S4]
	VLD1R.P 4(R5), [V18.S4]
	VLD1R.P 4(R5), [V19.S4]
	VLD1R.P 4(R5), [V20.S4]
	VLD1R.P 4(R5), [V21.S4]
	VLD1R.P 4(R5), [V22.S4]

loop:
	VLD1.P 64(R0), [V0.S4, V1.S4, V2.S4, V3.S4]
	FLOATS4(0, V0)
	FLOATS4(1, V1)
	FLOATS4(2, V2)
	FLOATS4(3, V3)
	XTN4(0, 0)
	XTN24(1, 0)
	XTN4(2, 2)
	XTN24(3, 2)
	XTN8(0, 0)
	XTN28(2, 0)
	VST1.P [V0.B16], 16(R2)
	SUBS   $16, R1
	BNE    loop
	RET
