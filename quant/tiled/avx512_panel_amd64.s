//go:build !noasm

#include "go_asm.h"
#include "textflag.h"

// Panel kernels: the codes of a group lie in Z16-Z23 while the tokens pass.
// Accumulators of up to sixteen tokens, Z0-Z15, stay in registers over all
// groups of the panel. Integer sums begin as the bits of 1.5·2²³ (startBits) and
// are then read as floats, which costs one subtraction fused with the scale
// instead of a conversion and a product.
//
//	DI sums   SI codes   BX scales   DX mins
//	R8 x      R9 dx      R10 shift   R11 start   CX groups
//
// A group's offsets from these are constants; a group's end moves them on.

#define LOAD_ARGS \
	MOVQ a+0(FP), AX                \
	MOVQ kernelArgs_sums(AX), DI    \
	MOVQ kernelArgs_codes(AX), SI   \
	MOVQ kernelArgs_scales(AX), BX  \
	MOVQ kernelArgs_mins(AX), DX    \
	MOVQ kernelArgs_x(AX), R8       \
	MOVQ kernelArgs_dx(AX), R9      \
	MOVQ kernelArgs_shift(AX), R10  \
	MOVQ kernelArgs_start(AX), R11  \
	MOVQ kernelArgs_groups(AX), CX  \
	MOVQ kernelArgs_width(AX), AX   \
	VPBROADCASTD ·startValue(SB), Z31

// LOAD_CODES loads a group's codes.
#define LOAD_CODES \
	VMOVDQU32 (SI), Z16    \
	VMOVDQU32 64(SI), Z17  \
	VMOVDQU32 128(SI), Z18 \
	VMOVDQU32 192(SI), Z19 \
	VMOVDQU32 256(SI), Z20 \
	VMOVDQU32 320(SI), Z21 \
	VMOVDQU32 384(SI), Z22 \
	VMOVDQU32 448(SI), Z23

// LOAD_SCALE loads a scale and startFloat times it, which is exact.
#define LOAD_SCALE(offset, scale, product) \
	VMOVUPS offset(BX), scale \
	VMULPS  Z31, scale, product

// DOT4 adds the products of one instruction's codes with four tokens, of which
// the first's bytes are at x.
#define DOT4(x, codes, a, b, c, d) \
	VPDPBUSD.BCST x+0(R8), codes, a  \
	VPDPBUSD.BCST x+32(R8), codes, b \
	VPDPBUSD.BCST x+64(R8), codes, c \
	VPDPBUSD.BCST x+96(R8), codes, d

#define DOT2(x, codes, a, b) \
	VPDPBUSD.BCST x+0(R8), codes, a  \
	VPDPBUSD.BCST x+32(R8), codes, b

#define DOT1(x, codes, a) \
	VPDPBUSD.BCST x(R8), codes, a

// START begins sums where the tokens say, BEGIN where nothing is subtracted.
#define START(t, a) VPBROADCASTD 4*(t)(R11), a
#define BEGIN(a) VMOVDQA32 Z31, a

// SCALED makes an integer sum a float times the scale.
#define SCALED(scale, product, a) VFMSUB213PS product, scale, a

#define ADD(t, a, sum) VFMADD231PS.BCST 4*(t)(R9), a, sum
#define ADD_MIN(t, sum) VFMADD231PS.BCST 4*(t)(R10), Z26, sum

// Whole groups: four, two and one token, the first of them t.
#define GROUP4(t, a, b, c, d) \
	DOT4(32*(t)+0, Z16, Z27, Z28, Z29, Z30)  \
	DOT4(32*(t)+4, Z17, Z27, Z28, Z29, Z30)  \
	DOT4(32*(t)+8, Z18, Z27, Z28, Z29, Z30)  \
	DOT4(32*(t)+12, Z19, Z27, Z28, Z29, Z30) \
	DOT4(32*(t)+16, Z20, Z27, Z28, Z29, Z30) \
	DOT4(32*(t)+20, Z21, Z27, Z28, Z29, Z30) \
	DOT4(32*(t)+24, Z22, Z27, Z28, Z29, Z30) \
	DOT4(32*(t)+28, Z23, Z27, Z28, Z29, Z30) \
	SCALED(Z24, Z25, Z27) \
	SCALED(Z24, Z25, Z28) \
	SCALED(Z24, Z25, Z29) \
	SCALED(Z24, Z25, Z30) \
	ADD(t+0, Z27, a) \
	ADD(t+1, Z28, b) \
	ADD(t+2, Z29, c) \
	ADD(t+3, Z30, d)

#define GROUP2(t, a, b) \
	DOT2(32*(t)+0, Z16, Z27, Z28)  \
	DOT2(32*(t)+4, Z17, Z27, Z28)  \
	DOT2(32*(t)+8, Z18, Z27, Z28)  \
	DOT2(32*(t)+12, Z19, Z27, Z28) \
	DOT2(32*(t)+16, Z20, Z27, Z28) \
	DOT2(32*(t)+20, Z21, Z27, Z28) \
	DOT2(32*(t)+24, Z22, Z27, Z28) \
	DOT2(32*(t)+28, Z23, Z27, Z28) \
	SCALED(Z24, Z25, Z27) \
	SCALED(Z24, Z25, Z28) \
	ADD(t+0, Z27, a) \
	ADD(t+1, Z28, b)

#define GROUP1(t, a) \
	DOT1(32*(t)+0, Z16, Z27)  \
	DOT1(32*(t)+4, Z17, Z27)  \
	DOT1(32*(t)+8, Z18, Z27)  \
	DOT1(32*(t)+12, Z19, Z27) \
	DOT1(32*(t)+16, Z20, Z27) \
	DOT1(32*(t)+20, Z21, Z27) \
	DOT1(32*(t)+24, Z22, Z27) \
	DOT1(32*(t)+28, Z23, Z27) \
	SCALED(Z24, Z25, Z27) \
	ADD(t, Z27, a)

#define PLAIN4(t, a, b, c, d) \
	START(t+0, Z27) \
	START(t+1, Z28) \
	START(t+2, Z29) \
	START(t+3, Z30) \
	GROUP4(t, a, b, c, d)

#define PLAIN2(t, a, b) \
	START(t+0, Z27) \
	START(t+1, Z28) \
	GROUP2(t, a, b)

#define PLAIN1(t, a) \
	START(t, Z27) \
	GROUP1(t, a)

#define MINS4(t, a, b, c, d) \
	BEGIN(Z27) \
	BEGIN(Z28) \
	BEGIN(Z29) \
	BEGIN(Z30) \
	GROUP4(t, a, b, c, d) \
	ADD_MIN(t+0, a) \
	ADD_MIN(t+1, b) \
	ADD_MIN(t+2, c) \
	ADD_MIN(t+3, d)

#define MINS2(t, a, b) \
	BEGIN(Z27) \
	BEGIN(Z28) \
	GROUP2(t, a, b) \
	ADD_MIN(t+0, a) \
	ADD_MIN(t+1, b)

#define MINS1(t, a) \
	BEGIN(Z27) \
	GROUP1(t, a) \
	ADD_MIN(t, a)

// Half groups: the first half's sums in Z28 (and Z30), the second's in Z29 (and
// Z27). Their starts are width apart; Z24, Z25 belong to the first half's
// scale, Z26, Z31 to the second's.
#define HALVES2(width, t, a, b) \
	START(t+0, Z28)          \
	START(t+1, Z30)          \
	START(width+t+0, Z29)    \
	START(width+t+1, Z27)    \
	DOT2(32*(t)+0, Z16, Z28, Z30)  \
	DOT2(32*(t)+16, Z20, Z29, Z27) \
	DOT2(32*(t)+4, Z17, Z28, Z30)  \
	DOT2(32*(t)+20, Z21, Z29, Z27) \
	DOT2(32*(t)+8, Z18, Z28, Z30)  \
	DOT2(32*(t)+24, Z22, Z29, Z27) \
	DOT2(32*(t)+12, Z19, Z28, Z30) \
	DOT2(32*(t)+28, Z23, Z29, Z27) \
	SCALED(Z24, Z25, Z28) \
	SCALED(Z24, Z25, Z30) \
	SCALED(Z26, Z31, Z29) \
	SCALED(Z26, Z31, Z27) \
	ADD(t+0, Z28, a) \
	ADD(t+1, Z30, b) \
	ADD(t+0, Z29, a) \
	ADD(t+1, Z27, b)

#define HALVES1(width, t, a) \
	START(t, Z28)        \
	START(width+t, Z29)  \
	DOT1(32*(t)+0, Z16, Z28)  \
	DOT1(32*(t)+16, Z20, Z29) \
	DOT1(32*(t)+4, Z17, Z28)  \
	DOT1(32*(t)+20, Z21, Z29) \
	DOT1(32*(t)+8, Z18, Z28)  \
	DOT1(32*(t)+24, Z22, Z29) \
	DOT1(32*(t)+12, Z19, Z28) \
	DOT1(32*(t)+28, Z23, Z29) \
	SCALED(Z24, Z25, Z28) \
	SCALED(Z26, Z31, Z29) \
	ADD(t, Z28, a) \
	ADD(t, Z29, a)

// Loads and stores of accumulators; the pairs and quads nest.
#define LOAD2(n, a, b) \
	VMOVUPS 64*(n)(DI), a    \
	VMOVUPS 64*(n)+64(DI), b

#define LOAD4(n, a, b, c, d) \
	LOAD2(n, a, b)   \
	LOAD2(n+2, c, d)

#define LOAD8 \
	LOAD4(0, Z0, Z1, Z2, Z3) \
	LOAD4(4, Z4, Z5, Z6, Z7)

#define LOAD16 \
	LOAD8                      \
	LOAD4(8, Z8, Z9, Z10, Z11) \
	LOAD4(12, Z12, Z13, Z14, Z15)

#define STORE2(n, a, b) \
	VMOVUPS a, 64*(n)(DI)    \
	VMOVUPS b, 64*(n)+64(DI)

#define STORE4(n, a, b, c, d) \
	STORE2(n, a, b)   \
	STORE2(n+2, c, d)

#define STORE8 \
	STORE4(0, Z0, Z1, Z2, Z3) \
	STORE4(4, Z4, Z5, Z6, Z7)

#define STORE16 \
	STORE8                      \
	STORE4(8, Z8, Z9, Z10, Z11) \
	STORE4(12, Z12, Z13, Z14, Z15)

// NEXT moves to the next group of so many tokens; STARTS is how many starts a
// token has in a group.
#define NEXT(width, halves) \
	ADDQ $512, SI            \
	ADDQ $(64*halves), BX    \
	ADDQ $(32*width), R8     \
	ADDQ $(4*width), R9      \
	ADDQ $(4*width*halves), R11

#define NEXT_MIN(width) \
	ADDQ $64, DX         \
	ADDQ $(4*width), R10

// func mulPlainAVX512(a *kernelArgs)
TEXT ·mulPlainAVX512(SB), NOSPLIT, $0-8
	LOAD_ARGS
	CMPQ AX, $16
	JEQ  enter16
	CMPQ AX, $8
	JEQ  enter8
	CMPQ AX, $4
	JEQ  enter4
	CMPQ AX, $2
	JEQ  enter2

	VMOVUPS (DI), Z0

loop1:
	LOAD_CODES
	LOAD_SCALE(0, Z24, Z25)
	PLAIN1(0, Z0)
	NEXT(1, 1)
	DECQ CX
	JNZ  loop1
	VMOVUPS Z0, (DI)
	VZEROUPPER
	RET

enter2:
	LOAD2(0, Z0, Z1)

loop2:
	LOAD_CODES
	LOAD_SCALE(0, Z24, Z25)
	PLAIN2(0, Z0, Z1)
	NEXT(2, 1)
	DECQ CX
	JNZ  loop2
	STORE2(0, Z0, Z1)
	VZEROUPPER
	RET

enter4:
	LOAD4(0, Z0, Z1, Z2, Z3)

loop4:
	LOAD_CODES
	LOAD_SCALE(0, Z24, Z25)
	PLAIN4(0, Z0, Z1, Z2, Z3)
	NEXT(4, 1)
	DECQ CX
	JNZ  loop4
	STORE4(0, Z0, Z1, Z2, Z3)
	VZEROUPPER
	RET

enter8:
	LOAD8

loop8:
	LOAD_CODES
	LOAD_SCALE(0, Z24, Z25)
	PLAIN4(0, Z0, Z1, Z2, Z3)
	PLAIN4(4, Z4, Z5, Z6, Z7)
	NEXT(8, 1)
	DECQ CX
	JNZ  loop8
	STORE8
	VZEROUPPER
	RET

enter16:
	LOAD16

loop16:
	LOAD_CODES
	LOAD_SCALE(0, Z24, Z25)
	PLAIN4(0, Z0, Z1, Z2, Z3)
	PLAIN4(4, Z4, Z5, Z6, Z7)
	PLAIN4(8, Z8, Z9, Z10, Z11)
	PLAIN4(12, Z12, Z13, Z14, Z15)
	NEXT(16, 1)
	DECQ CX
	JNZ  loop16
	STORE16
	VZEROUPPER
	RET

// func mulMinsAVX512(a *kernelArgs)
TEXT ·mulMinsAVX512(SB), NOSPLIT, $0-8
	LOAD_ARGS
	CMPQ AX, $16
	JEQ  enter16
	CMPQ AX, $8
	JEQ  enter8
	CMPQ AX, $4
	JEQ  enter4
	CMPQ AX, $2
	JEQ  enter2

	VMOVUPS (DI), Z0

loop1:
	LOAD_CODES
	LOAD_SCALE(0, Z24, Z25)
	VMOVUPS (DX), Z26
	MINS1(0, Z0)
	NEXT(1, 1)
	NEXT_MIN(1)
	DECQ CX
	JNZ  loop1
	VMOVUPS Z0, (DI)
	VZEROUPPER
	RET

enter2:
	LOAD2(0, Z0, Z1)

loop2:
	LOAD_CODES
	LOAD_SCALE(0, Z24, Z25)
	VMOVUPS (DX), Z26
	MINS2(0, Z0, Z1)
	NEXT(2, 1)
	NEXT_MIN(2)
	DECQ CX
	JNZ  loop2
	STORE2(0, Z0, Z1)
	VZEROUPPER
	RET

enter4:
	LOAD4(0, Z0, Z1, Z2, Z3)

loop4:
	LOAD_CODES
	LOAD_SCALE(0, Z24, Z25)
	VMOVUPS (DX), Z26
	MINS4(0, Z0, Z1, Z2, Z3)
	NEXT(4, 1)
	NEXT_MIN(4)
	DECQ CX
	JNZ  loop4
	STORE4(0, Z0, Z1, Z2, Z3)
	VZEROUPPER
	RET

enter8:
	LOAD8

loop8:
	LOAD_CODES
	LOAD_SCALE(0, Z24, Z25)
	VMOVUPS (DX), Z26
	MINS4(0, Z0, Z1, Z2, Z3)
	MINS4(4, Z4, Z5, Z6, Z7)
	NEXT(8, 1)
	NEXT_MIN(8)
	DECQ CX
	JNZ  loop8
	STORE8
	VZEROUPPER
	RET

enter16:
	LOAD16

loop16:
	LOAD_CODES
	LOAD_SCALE(0, Z24, Z25)
	VMOVUPS (DX), Z26
	MINS4(0, Z0, Z1, Z2, Z3)
	MINS4(4, Z4, Z5, Z6, Z7)
	MINS4(8, Z8, Z9, Z10, Z11)
	MINS4(12, Z12, Z13, Z14, Z15)
	NEXT(16, 1)
	NEXT_MIN(16)
	DECQ CX
	JNZ  loop16
	STORE16
	VZEROUPPER
	RET

// LOAD_HALVES loads a group's two scales. All registers are taken, so
// startFloat comes from memory.
#define LOAD_HALVES \
	VMOVUPS (BX), Z24                       \
	VMOVUPS 64(BX), Z26                     \
	VMULPS.BCST ·startValue(SB), Z24, Z25   \
	VMULPS.BCST ·startValue(SB), Z26, Z31

// func mulHalvesAVX512(a *kernelArgs)
TEXT ·mulHalvesAVX512(SB), NOSPLIT, $0-8
	LOAD_ARGS
	CMPQ AX, $16
	JEQ  enter16
	CMPQ AX, $8
	JEQ  enter8
	CMPQ AX, $4
	JEQ  enter4
	CMPQ AX, $2
	JEQ  enter2

	VMOVUPS (DI), Z0

loop1:
	LOAD_CODES
	LOAD_HALVES
	HALVES1(1, 0, Z0)
	NEXT(1, 2)
	DECQ CX
	JNZ  loop1
	VMOVUPS Z0, (DI)
	VZEROUPPER
	RET

enter2:
	LOAD2(0, Z0, Z1)

loop2:
	LOAD_CODES
	LOAD_HALVES
	HALVES2(2, 0, Z0, Z1)
	NEXT(2, 2)
	DECQ CX
	JNZ  loop2
	STORE2(0, Z0, Z1)
	VZEROUPPER
	RET

enter4:
	LOAD4(0, Z0, Z1, Z2, Z3)

loop4:
	LOAD_CODES
	LOAD_HALVES
	HALVES2(4, 0, Z0, Z1)
	HALVES2(4, 2, Z2, Z3)
	NEXT(4, 2)
	DECQ CX
	JNZ  loop4
	STORE4(0, Z0, Z1, Z2, Z3)
	VZEROUPPER
	RET

enter8:
	LOAD8

loop8:
	LOAD_CODES
	LOAD_HALVES
	HALVES2(8, 0, Z0, Z1)
	HALVES2(8, 2, Z2, Z3)
	HALVES2(8, 4, Z4, Z5)
	HALVES2(8, 6, Z6, Z7)
	NEXT(8, 2)
	DECQ CX
	JNZ  loop8
	STORE8
	VZEROUPPER
	RET

enter16:
	LOAD16

loop16:
	LOAD_CODES
	LOAD_HALVES
	HALVES2(16, 0, Z0, Z1)
	HALVES2(16, 2, Z2, Z3)
	HALVES2(16, 4, Z4, Z5)
	HALVES2(16, 6, Z6, Z7)
	HALVES2(16, 8, Z8, Z9)
	HALVES2(16, 10, Z10, Z11)
	HALVES2(16, 12, Z12, Z13)
	HALVES2(16, 14, Z14, Z15)
	NEXT(16, 2)
	DECQ CX
	JNZ  loop16
	STORE16
	VZEROUPPER
	RET
